/* Byte-level BPE, as GPT-2's, with a small vocabulary. Reads and writes Hugging Face's
 * tokenizer.json, and gives the ids that library gives for the same file.
 *
 * Any bytes can be encoded. `<|endoftext|>` is the last id of the vocabulary; it ends a sentence,
 * and is never made from text (that library makes it from the same letters unless it is told
 * split_special_tokens). A tokenizer is immutable after load apart from a cache: one thread
 * at a time. */
#ifndef RANK_TOKENIZER_H
#define RANK_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rank_tokenizer rank_tokenizer;

/* Reads tokenizer.json; BASE_ERR_INVALID with the reason if it is not one of the kind we write. */
BASE_MUST_CHECK base_status rank_tokenizer_load(const char *path, rank_tokenizer **tokenizer,
                                                base_error *reterr);
void rank_tokenizer_destroy(rank_tokenizer *tokenizer);
int rank_tokenizer_vocab_size(const rank_tokenizer *tokenizer);
int32_t rank_tokenizer_end_id(const rank_tokenizer *tokenizer);

/* Encodes text (UTF-8 or any bytes) into ids, at most capacity of them are written; *count is the
 * number needed, so *count > capacity says that it did not fit. */
BASE_MUST_CHECK base_status rank_tokenizer_encode(rank_tokenizer *tokenizer, const char *text,
                                                  size_t text_bytes, int32_t *ids, size_t capacity,
                                                  size_t *count, base_error *reterr);

/* At least as many ids as encode would give; much quicker. Pure. */
size_t rank_tokenizer_count_bound(const rank_tokenizer *tokenizer, const char *text,
                                  size_t text_bytes);

/* Bytes of the ids, cut at capacity-1, NUL-terminated; the end id gives nothing. Returns the bytes
 * needed. */
size_t rank_tokenizer_decode(const rank_tokenizer *tokenizer, const int32_t *ids, size_t count,
                             char *text, size_t capacity);

#endif
