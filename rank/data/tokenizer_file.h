/* tokenizer.json: reads the kind that corpus-gen writes, and writes two kinds; other readers are hub.h's.
 *
 * A Hugging Face "BPE" model over GPT-2's byte glyphs: ids 0 … 255 are the bytes in order, 256 + m
 * is merge m, `<|endoftext|>` is last. Pre-tokenizer: Split on " ?[^ ]+| +", isolated, then
 * ByteLevel without a regular expression of its own; or, in files that tokenizer-learn writes, GPT-2's,
 * which is ByteLevel alone. Reading is strict. A file for which the Hugging Face library would give
 * other ids is refused. */
#ifndef RANK_TOKENIZER_FILE_H
#define RANK_TOKENIZER_FILE_H

#include <stdbool.h>

#include "base/status.h"
#include "bpe.h"

enum { RANK_TOKENIZER_FILE_BYTES_MAX = 64 << 20 };

#define RANK_TOKENIZER_END_TOKEN "<|endoftext|>"
#define RANK_TOKENIZER_SPLIT     " ?[^ ]+| +"

struct json_t;

/* How the pieces are cut. */
typedef enum rank_tokenizer_split {
    RANK_TOKENIZER_BY_SPACES, /* ours */
    RANK_TOKENIZER_AS_GPT2,
} rank_tokenizer_split;

/* Whether the file's content splits text as ours do. */
bool rank_tokenizer_is_ours(const struct json_t *root);

/* Fills bpe, which the caller frees with rank_bpe_fini on success. */
BASE_MUST_CHECK base_status rank_tokenizer_take(const struct json_t *root, rank_bpe *bpe,
                                                base_error *reterr);

/* A merge is "left right" or ["left", "right"]; parts point into it. */
bool rank_tokenizer_merge_parts(const struct json_t *merge, const char *parts[2],
                                size_t parts_bytes[2]);

/* The content of a file, which the caller gives back with json_decref. NULL: there is no memory. */
struct json_t *rank_tokenizer_make(const rank_bpe *bpe, rank_tokenizer_split split);

/* The same merges and split always give the same bytes. */
BASE_MUST_CHECK base_status rank_tokenizer_file_write(const char *path, const rank_bpe *bpe,
                                                      rank_tokenizer_split split,
                                                      base_error *reterr);

#endif
