/* Writes and checks the digests of a job's files. The launcher writes them, and a rank on every
 * host checks them. */
#include "proto/pin.h"

#include <string.h>

/* A file that JOB.json names, and the field of its digest. */
typedef struct pinned {
    const char *option;
    size_t path;   /* offset in proto_job */
    size_t sha256; /* offset in proto_job */
    bool large;
    bool checkpoint;
} pinned;

#define PINNED(name, member)                                                                       \
    .option = (name), .path = offsetof(proto_job, member),                                         \
    .sha256 = offsetof(proto_job, member##_sha256)

static const pinned files[] = {
    {PINNED("--data", data.train), .large = true},
    {PINNED("--heldout", data.heldout), .large = true},
    {PINNED("--tokenizer", data.tokenizer)},
    {PINNED("--checkpoint", model.checkpoint), .checkpoint = true},
    {PINNED("--prompts", infer.prompts)},
};
enum { FILE_COUNT = sizeof files / sizeof files[0] };

static base_status digest_of(const proto_job *job, const pinned *file,
                             char hex[PROTO_DIGEST_HEX_BYTES], base_error *reterr)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    const char *path = (const char *)job + file->path;
    const base_status status =
        file->checkpoint ? proto_checkpoint_digest(path, job->model.verify, digest, reterr)
                         : proto_sha256_file(path, digest, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "%s", file->option);
    }
    proto_digest_hex(digest, hex);
    return BASE_OK;
}

base_status proto_job_pin(proto_job *job, proto_pin_extent extent, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; i < FILE_COUNT && status == BASE_OK; i++) {
        const pinned *file = &files[i];
        const bool named = *((const char *)job + file->path) != '\0';
        if (named && (extent == PROTO_PIN_ALL || !file->large)) {
            status = digest_of(job, file, (char *)job + file->sha256, reterr);
        }
    }
    return status;
}

base_status proto_job_check_files(const proto_job *job, base_error *reterr)
{
    for (int i = 0; i < FILE_COUNT; i++) {
        char hex[PROTO_DIGEST_HEX_BYTES];
        const pinned *file = &files[i];
        const char *wanted = (const char *)job + file->sha256;
        if (wanted[0] == '\0') {
            continue;
        }
        const base_status status = digest_of(job, file, hex, reterr);
        if (status != BASE_OK) {
            return status;
        }
        if (strcmp(hex, wanted) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "%s: %s is not the file that the job names: its SHA-256 is %s, "
                             "JOB.json has %s",
                             file->option, (const char *)job + file->path, hex, wanted);
        }
    }
    return BASE_OK;
}
