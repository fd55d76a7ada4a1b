/* Reads files of tokens. Called by token_windows.c. */
#include "token_file.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/limits.h"
#include "base/read_at.h"
#include "base/safetensors.h"
#include "lines.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tokens are read as they lie in a file");

enum {
    READ_TOKENS = 4096, /* at once */
    DIGEST_DIGITS = 64, /* of a SHA-256 */
};

struct rank_token_file {
    int fd;
    char path[BASE_PATH_BYTES];
    size_t offset_bytes; /* of the first token */
    size_t element_bytes;
    uint64_t count;
};

/* A header can have any text there, also one that would forge a line of what is printed. */
static bool is_digest(const char *text)
{
    return strlen(text) == DIGEST_DIGITS && strspn(text, "0123456789abcdef") == DIGEST_DIGITS;
}

static base_status check_tokenizer(const base_safetensors *parsed, const char *wanted,
                                   base_error *reterr)
{
    const char *made_with = base_safetensors_metadata(parsed, RANK_TOKEN_FILE_TOKENIZER);
    if (made_with == NULL || !is_digest(made_with)) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "it does not say which tokenizer it was made with (" RANK_TOKEN_FILE_TOKENIZER
            " in its metadata)");
    }
    return strcmp(made_with, wanted) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "it was made with another tokenizer (SHA-256 %.12s…, this job's "
                           "%.12s…)",
                           made_with, wanted);
}

static base_status check_form(const base_safetensors *parsed, base_error *reterr)
{
    const base_safetensor *tokens = base_safetensors_find(parsed, RANK_TOKEN_FILE_TENSOR);
    const bool is_vector = tokens != NULL && parsed->count == 1 && tokens->dims == 1;
    return is_vector && (strcmp(tokens->dtype, "U16") == 0 || strcmp(tokens->dtype, "U32") == 0)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "it is no file of tokens: it has other tensors than a vector "
                           "\"" RANK_TOKEN_FILE_TENSOR "\" of U16 or U32");
}

static base_status read_header(rank_token_file *file, const char *tokenizer_sha256,
                               base_error *reterr)
{
    base_safetensors parsed;
    base_status status = base_safetensors_read(file->fd, &parsed, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = check_form(&parsed, reterr);
    status = status == BASE_OK ? check_tokenizer(&parsed, tokenizer_sha256, reterr) : status;
    if (status == BASE_OK) {
        file->element_bytes = parsed.tensors[0].element_bytes;
        file->count = parsed.tensors[0].count;
        file->offset_bytes = parsed.data_offset_bytes;
    }
    base_safetensors_release(&parsed);
    return status;
}

base_status rank_token_file_open(const char *path, const char *tokenizer_sha256,
                                 rank_token_file **file, base_error *reterr)
{
    *file = NULL;
    rank_token_file *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to read %s", path);
    }
    made->fd = -1;
    if (snprintf(made->path, sizeof made->path, "%s", path) >= (int)sizeof made->path) {
        free(made);
        return base_fail(reterr, BASE_ERR_LIMIT, "%.80s…: too long a path", path);
    }
    base_status status = rank_lines_open_file(path, &made->fd, reterr);
    if (status == BASE_OK) {
        status = read_header(made, tokenizer_sha256, reterr);
        status = status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
    }
    if (status != BASE_OK) {
        rank_token_file_close(made);
        return status;
    }
    *file = made;
    return BASE_OK;
}

void rank_token_file_close(rank_token_file *file)
{
    if (file == NULL) {
        return;
    }
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    free(file);
}

uint64_t rank_token_file_count(const rank_token_file *file)
{
    return file->count;
}

/* Room for one read of the file. */
typedef union token_block {
    uint16_t narrow[READ_TOKENS];
    uint32_t wide[READ_TOKENS];
} token_block;

static base_status read_block(const rank_token_file *file, uint64_t first, size_t count,
                              int vocab_size, int32_t *ids, base_error *reterr)
{
    token_block block;
    const bool narrow = file->element_bytes == sizeof block.narrow[0];
    const base_status status =
        base_read_at(file->fd, file->offset_bytes + first * file->element_bytes, &block,
                     count * file->element_bytes, reterr);
    for (size_t i = 0; status == BASE_OK && i < count; i++) {
        const uint32_t id = narrow ? block.narrow[i] : block.wide[i];
        if (id >= (uint32_t)vocab_size) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "token %" PRIu64 " is %" PRIu32 ", and the tokenizer has %d",
                             first + i, id, vocab_size);
        }
        ids[i] = (int32_t)id;
    }
    return status;
}

base_status rank_token_file_read(rank_token_file *file, uint64_t first, size_t count,
                                 int vocab_size, int32_t *ids, base_error *reterr)
{
    base_status status = BASE_OK;
    BASE_ASSERT(first <= file->count);
    BASE_ASSERT(count <= file->count - first);
    for (size_t done = 0; status == BASE_OK && done < count; done += READ_TOKENS) {
        const size_t some = count - done < READ_TOKENS ? count - done : READ_TOKENS;
        status = read_block(file, first + done, some, vocab_size, ids + done, reterr);
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", file->path);
}
