/* Any bytes are a file of tokens or refused: when it is opened, or when a token is read that the vocabulary lacks. */
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "data/token_file.h"
#include "directory.h"

#define DIGEST "0000000000000000000000000000000000000000000000000000000000000000"

enum { VOCAB_SIZE = 300, READ_MAX = 7 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

/* All of it, in parts of one token more each time. */
static base_status read_all(rank_token_file *file, base_error *error)
{
    const uint64_t count = rank_token_file_count(file);
    base_status status = BASE_OK;
    size_t part = 0;
    for (uint64_t first = 0; status == BASE_OK && first < count; first += part) {
        int32_t ids[READ_MAX];
        part = part % READ_MAX + 1;
        part = part < count - first ? part : (size_t)(count - first);
        status = rank_token_file_read(file, first, part, VOCAB_SIZE, ids, error);
        for (size_t i = 0; status == BASE_OK && i < part; i++) {
            BASE_ASSERT(ids[i] >= 0 && ids[i] < VOCAB_SIZE);
        }
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    char path[FUZZ_PATH_BYTES];
    fuzz_directory directory;
    rank_token_file *file = NULL;
    base_error error = {.message = ""};
    fuzz_directory_make(&directory);
    fuzz_directory_put(&directory, "tokens.safetensors", data, size_bytes, path);
    base_status status = rank_token_file_open(path, DIGEST, &file, &error);
    BASE_ASSERT((status == BASE_OK) == (file != NULL));
    status = file != NULL ? read_all(file, &error) : status;
    BASE_ASSERT((status == BASE_OK) == (error.message[0] == '\0'));
    BASE_ASSERT(status == BASE_OK || strstr(error.message, path) != NULL);
    rank_token_file_close(file);
    fuzz_directory_remove(&directory);
    return 0;
}
