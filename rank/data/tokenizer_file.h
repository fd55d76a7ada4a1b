/* Writes tokenizer.json: a Hugging Face "BPE" model over GPT-2's byte glyphs. Ids 0 … 255 are the bytes in order,
 * 256 + m is merge m, `<|endoftext|>` is last. Pre-tokenizer: Split on " ?[^ ]+| +", isolated, then ByteLevel
 * without a regular expression of its own, in corpus-gen's file; or, in files that tokenizer-learn writes, GPT-2's,
 * which is ByteLevel alone. hub.h reads both. */
#ifndef RANK_TOKENIZER_FILE_H
#define RANK_TOKENIZER_FILE_H

#include "base/status.h"
#include "bpe.h"

#define RANK_TOKENIZER_END_TOKEN "<|endoftext|>"
#define RANK_TOKENIZER_SPLIT     " ?[^ ]+| +"

struct json_t;

/* How the pieces are cut. */
typedef enum rank_tokenizer_split {
    RANK_TOKENIZER_BY_SPACES,
    RANK_TOKENIZER_AS_GPT2,
} rank_tokenizer_split;

/* The content of a file, which the caller gives back with json_decref. NULL: there is no memory. */
struct json_t *rank_tokenizer_make(const rank_bpe *bpe, rank_tokenizer_split split);

/* The same merges and split always give the same bytes. */
BASE_MUST_CHECK base_status rank_tokenizer_file_write(const char *path, const rank_bpe *bpe,
                                                      rank_tokenizer_split split,
                                                      base_error *reterr);

#endif
