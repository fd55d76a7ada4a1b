/* tokenizer.json, of the one kind that is written and read here.
 *
 * A Hugging Face "BPE" model over GPT-2's byte glyphs: ids 0 … 255 are the bytes in order, 256 + m
 * is merge m, `<|endoftext|>` is last. Pre-tokenizer: Split on " ?[^ ]+| +", isolated, then
 * ByteLevel without a regular expression of its own. Reading is strict. A file for which the
 * Hugging Face library would give other ids is refused. */
#ifndef RANK_TOKENIZER_FILE_H
#define RANK_TOKENIZER_FILE_H

#include "base/status.h"
#include "bpe.h"

enum { RANK_TOKENIZER_FILE_BYTES_MAX = 16 << 20 };

#define RANK_TOKENIZER_END_TOKEN "<|endoftext|>"
#define RANK_TOKENIZER_SPLIT     " ?[^ ]+| +"

/* Fills bpe, which the caller frees with rank_bpe_fini on success. */
BASE_MUST_CHECK base_status rank_tokenizer_file_read(const char *path, rank_bpe *bpe,
                                                     base_error *reterr);

/* The same merges always give the same bytes. */
BASE_MUST_CHECK base_status rank_tokenizer_file_write(const char *path, const rank_bpe *bpe,
                                                      base_error *reterr);

#endif
