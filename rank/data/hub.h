/* Byte-level BPE of any size, as GPT-2, Llama 3, Qwen2 and SmolLM2 have it: ids in any order,
 * merges by rank, and text that is normalised (nfc.h) if the file says so, and cut into pieces by
 * regular expressions (PCRE2's). Gives the ids of Hugging
 * Face's tokenizers library for the same tokenizer.json.
 *
 * Expressions are PCRE2's. That library's are Oniguruma's, for which U+180E is no space. One that moves
 * the begin of its match (\K in an assertion) is an error when a text is encoded.
 *
 * Where a text is no UTF-8, no expression matches: such bytes are pieces of their own. A piece of n
 * bytes takes O(n log n).
 *
 * A hub tokenizer does not change after it is read, except for its scratch. One thread at a time. */
#ifndef RANK_DATA_HUB_H
#define RANK_DATA_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "rank/tokenizer.h"

struct json_t;

typedef struct rank_hub rank_hub;

/* Makes it of the content of a tokenizer.json. BASE_ERR_UNSUPPORTED names a setting that is not
 * known here, BASE_ERR_INVALID a flaw. */
BASE_MUST_CHECK base_status rank_hub_create(const struct json_t *root, rank_hub **hub,
                                            base_error *reterr);
void rank_hub_destroy(rank_hub *hub); /* NULL is fine */

/* One more than the largest id. */
int rank_hub_vocab_size(const rank_hub *hub);
/* What ends a text: `<|endoftext|>`, or without it `<|end_of_text|>`. -1 and NULL: there is none. */
int32_t rank_hub_end_id(const rank_hub *hub);
const char *rank_hub_end_token(const rank_hub *hub);
/* The id of an added token by its name. -1: there is none. */
int32_t rank_hub_added_id(const rank_hub *hub, const char *name);
/* It is one of the tokenizer's special tokens from now on. */
void rank_hub_make_special(rank_hub *hub, int32_t id);
/* A token's bytes and their number. Special tokens, and ids of no token, have none. */
const uint8_t *rank_hub_token(const rank_hub *hub, int32_t id, size_t *size_bytes);

/* As rank_tokenizer_encode. `special`: special tokens in the text become their ids; other added
 * tokens always do. */
BASE_MUST_CHECK base_status rank_hub_encode(rank_hub *hub, const char *text, size_t text_bytes,
                                            bool special, rank_ids *ids, base_error *reterr);

/* What gets a piece of a text, whose bytes are there until it returns. */
typedef base_status (*rank_hub_take)(void *context, const uint8_t *piece, size_t piece_bytes,
                                     base_error *reterr);
/* Cuts a text as rank_hub_encode does, without special tokens, and gives the pieces between added tokens
 * to `take`, in order, until one is refused. */
BASE_MUST_CHECK base_status rank_hub_cut(rank_hub *hub, const char *text, size_t text_bytes,
                                         rank_hub_take take, void *context, base_error *reterr);

/* No text of these bytes has more ids. */
size_t rank_hub_count_bound(const rank_hub *hub, const char *text, size_t text_bytes);

/* The ids that stand before each text (the beginning's, of Llama 3). */
const int32_t *rank_hub_prefix(const rank_hub *hub, size_t *count);

#endif
