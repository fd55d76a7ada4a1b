/* A file of tokens, which tokenizer-encode writes: a safetensors file with one tensor, "tokens", a vector of U16 or U32,
 * and the SHA-256 of the tokenizer's file in its metadata. Its header alone is read when it is opened, and tokens when
 * they are wanted. So memory does not depend on its size, and ranks of a host share what the kernel keeps of it.
 *
 * One thread at a time. */
#ifndef RANK_DATA_TOKEN_FILE_H
#define RANK_DATA_TOKEN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define RANK_TOKEN_FILE_TENSOR    "tokens"
#define RANK_TOKEN_FILE_TOKENIZER "tokenizer_sha256" /* in the metadata, as 64 hexadecimal digits */

/* The size of a token in a file for so many: U16 where all fit, else U32. */
static inline size_t rank_token_file_element_bytes(int vocab_size)
{
    return vocab_size <= UINT16_MAX + 1 ? sizeof(uint16_t) : sizeof(uint32_t);
}

typedef struct rank_token_file rank_token_file;

/* Opens a regular file. Every message begins with its path. BASE_ERR_NOTFOUND, BASE_ERR_IO; BASE_ERR_INVALID: it has
 * another form or another length than its header says, or was made with another tokenizer than the one with this
 * SHA-256, or does not say with which. */
BASE_MUST_CHECK base_status rank_token_file_open(const char *path, const char *tokenizer_sha256,
                                                 rank_token_file **file, base_error *reterr);
/* NULL is fine. */
void rank_token_file_close(rank_token_file *file);
uint64_t rank_token_file_count(const rank_token_file *file);

/* ids (count) = the tokens from `first` on, which the file has. BASE_ERR_INVALID: a token is not below vocab_size, or the
 * file has become shorter; BASE_ERR_IO. */
BASE_MUST_CHECK base_status rank_token_file_read(rank_token_file *file, uint64_t first,
                                                 size_t count, int vocab_size, int32_t *ids,
                                                 base_error *reterr);

#endif
