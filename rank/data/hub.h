/* What a rank_tokenizer is made of, and how it cuts texts: a file of Hugging Face's hub.
 *
 * Byte-level BPE of any size, as GPT-2, Llama 3, Qwen2 and SmolLM2 have it: ids in any order,
 * merges by rank, and text that is normalised (nfc.h) if the file says so, and cut into pieces by
 * regular expressions (PCRE2's). Gives the ids of Hugging
 * Face's tokenizers library for the same tokenizer.json.
 *
 * Expressions are PCRE2's. That library's are Oniguruma's, for which U+180E is no space; what the
 * two read otherwise is refused (hub_split.c).
 *
 * Where a text is no UTF-8, no expression matches: such bytes are pieces of their own. A piece of n
 * bytes takes O(n log n).
 *
 * A tokenizer does not change after it is read, except for its scratch. One thread at a time. */
#ifndef RANK_DATA_HUB_H
#define RANK_DATA_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "rank/tokenizer.h"

struct json_t;

/* Makes it of the content of a tokenizer.json. BASE_ERR_UNSUPPORTED names a setting that is not
 * known here, BASE_ERR_INVALID a flaw. */
BASE_MUST_CHECK base_status rank_tokenizer_create(const struct json_t *root,
                                                  rank_tokenizer **tokenizer, base_error *reterr);

/* What gets a piece of a text, whose bytes are there until it returns. */
typedef base_status (*rank_tokenizer_take)(void *context, const uint8_t *piece, size_t piece_bytes,
                                           base_error *reterr);
/* Cuts a text as rank_tokenizer_encode does, without special tokens, and gives the pieces between added tokens
 * to `take`, in order, until one is refused. */
BASE_MUST_CHECK base_status rank_tokenizer_cut(rank_tokenizer *tokenizer, const char *text,
                                               size_t text_bytes, rank_tokenizer_take take,
                                               void *context, base_error *reterr);

#endif
