/* Compares the tokenizer of a model that drafts with the model's. Called by complete.c. What a token's id
 * means is compared, and not how texts are cut: the model that drafts gets ids, and gives ids. */
#include "cli/complete_draft.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/json_file.h"
#include "base/path.h"
#include "proto/digest.h"

enum { TOKENIZER_BYTES_MAX = 64 << 20 };

static bool same_added(const json_t *one, const json_t *other)
{
    const size_t count = json_array_size(one);
    bool same = count == json_array_size(other);
    for (size_t i = 0; same && i < count; i++) {
        const json_t *a = json_array_get(one, i);
        const json_t *b = json_array_get(other, i);
        same = json_equal(json_object_get(a, "id"), json_object_get(b, "id")) != 0 &&
               json_equal(json_object_get(a, "content"), json_object_get(b, "content")) != 0;
    }
    return same;
}

/* Two files that are not the same may still have the same tokens. */
static base_status compare(const char *own, const char *drafts, bool *same, base_error *reterr)
{
    json_t *one = NULL;
    json_t *other = NULL;
    base_status status = base_json_read(own, TOKENIZER_BYTES_MAX, &one, reterr);
    if (status == BASE_OK) {
        status = base_json_read(drafts, TOKENIZER_BYTES_MAX, &other, reterr);
    }
    const json_t *vocab = json_object_get(json_object_get(one, "model"), "vocab");
    const json_t *of_draft = json_object_get(json_object_get(other, "model"), "vocab");
    *same =
        status == BASE_OK && json_equal(vocab, of_draft) != 0 &&
        same_added(json_object_get(one, "added_tokens"), json_object_get(other, "added_tokens"));
    json_decref(one);
    json_decref(other);
    return status;
}

base_status launch_draft_check(const proto_job *job, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    uint8_t digests[2][PROTO_DIGEST_BYTES];
    bool same = true;
    const char *own = job->data.tokenizer;
    if (job->model.draft[0] == '\0') {
        return BASE_OK;
    }
    base_status status = base_path_join(job->model.draft, "tokenizer.json", path, reterr);
    if (status == BASE_OK && access(path, F_OK) != 0 && errno == ENOENT) {
        return base_fail(reterr, BASE_ERR_NOTFOUND,
                         "--draft: there is no %s: a checkpoint with the tokenizer of %s can draft",
                         path, own);
    }
    if (status == BASE_OK) {
        status = proto_sha256_file(own, digests[0], reterr);
    }
    if (status == BASE_OK) {
        status = proto_sha256_file(path, digests[1], reterr);
    }
    if (status == BASE_OK && memcmp(digests[0], digests[1], PROTO_DIGEST_BYTES) != 0) {
        status = compare(own, path, &same, reterr);
    }
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "--draft");
    }
    return same ? BASE_OK
                : base_fail(reterr, BASE_ERR_INVALID,
                            "--draft: %s has other tokens than the model's %s: a model drafts for "
                            "one of its own tokenizer only",
                            path, own);
}
