/* Byte-level BPE as GPT-2's, with a small vocabulary. Reads and writes Hugging Face's
 * tokenizer.json, and gives the same ids for it as that library.
 *
 * Any bytes can be encoded. `<|endoftext|>` is the last id of the vocabulary. It ends a sentence,
 * and no text encodes to it. (That library makes it from the same letters unless
 * split_special_tokens is set.) After load a tokenizer is constant except for a cache. One thread
 * at a time. */
#ifndef RANK_TOKENIZER_H
#define RANK_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rank_tokenizer rank_tokenizer;

/* Reads tokenizer.json. BASE_ERR_INVALID with the reason if it is not of the kind that we write. */
BASE_MUST_CHECK base_status rank_tokenizer_load(const char *path, rank_tokenizer **tokenizer,
                                                base_error *reterr);
void rank_tokenizer_destroy(rank_tokenizer *tokenizer);
int rank_tokenizer_vocab_size(const rank_tokenizer *tokenizer);
int32_t rank_tokenizer_end_id(const rank_tokenizer *tokenizer);

/* Room for token ids, and how many there are. */
typedef struct rank_ids {
    int32_t *at; /* (capacity); NULL if capacity is 0 */
    size_t capacity;
    size_t count;
} rank_ids;

/* Encodes text (UTF-8 or any bytes) into ids. Writes at most ids->capacity of them. ids->count is
 * the number needed; if it exceeds the capacity, the ids did not fit. */
BASE_MUST_CHECK base_status rank_tokenizer_encode(rank_tokenizer *tokenizer, const char *text,
                                                  size_t text_bytes, rank_ids *ids,
                                                  base_error *reterr);

/* A quick upper bound of the number of ids that encode would give. Pure. */
size_t rank_tokenizer_count_bound(const rank_tokenizer *tokenizer, const char *text,
                                  size_t text_bytes);

/* The bytes of the ids, NUL-terminated and cut at capacity-1. The end id has no bytes. Returns the
 * bytes needed. */
size_t rank_tokenizer_decode(const rank_tokenizer *tokenizer, const int32_t *ids, size_t count,
                             char *text, size_t capacity);

#endif
