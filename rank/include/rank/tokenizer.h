/* BPE, from Hugging Face's tokenizer.json: the ids are those of that library. Byte-level, with texts cut by the file's
 * regular expressions, as those of GPT-2, Llama 3 and SmolLM2, and ours, which corpus-gen writes; or of SentencePiece's
 * kind, as Llama 2's and Mistral's, which puts a space before a text.
 *
 * Any bytes can be encoded. No text encodes to a special token, such as `<|endoftext|>`, which ends
 * a sentence, unless rank_tokenizer_allow_special was called. (That library makes them from the same
 * letters unless split_special_tokens is set.) After load a tokenizer is constant except for
 * scratch. One thread at a time. */
#ifndef RANK_TOKENIZER_H
#define RANK_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rank_tokenizer rank_tokenizer;

/* Reads tokenizer.json. BASE_ERR_INVALID and BASE_ERR_UNSUPPORTED name the flaw, or the setting that
 * is not known here. */
BASE_MUST_CHECK base_status rank_tokenizer_load(const char *path, rank_tokenizer **tokenizer,
                                                base_error *reterr);
void rank_tokenizer_destroy(rank_tokenizer *tokenizer);
int rank_tokenizer_vocab_size(const rank_tokenizer *tokenizer);
/* What ends a text: `<|endoftext|>`, or without it Llama 3's `<|end_of_text|>` or Llama 2's `</s>`. -1 and NULL:
 * there is none. */
int32_t rank_tokenizer_end_id(const rank_tokenizer *tokenizer);
const char *rank_tokenizer_end_token(const rank_tokenizer *tokenizer);

/* The longest added token, special or not, at the text's begin, and how many bytes it takes. -1: there is none. */
int32_t rank_tokenizer_added_at(const rank_tokenizer *tokenizer, const char *text,
                                size_t text_bytes, size_t *token_bytes);

/* Whether white space beside an added token belongs to it (lstrip, rstrip), as in Phi-3's tokenizer. */
bool rank_tokenizer_takes_spaces(const rank_tokenizer *tokenizer);

/* From now on the added token is one that the tokenizer calls special. */
void rank_tokenizer_make_special(rank_tokenizer *tokenizer, int32_t id);

/* From now on special tokens may stand in texts, by their names. */
void rank_tokenizer_allow_special(rank_tokenizer *tokenizer);

/* The ids that the tokenizer puts before a prompt; encode does not. */
const int32_t *rank_tokenizer_prefix(const rank_tokenizer *tokenizer, size_t *count);

/* The first of these, if it is an added token, and its name. "": there is none, or no room for it. */
int32_t rank_tokenizer_begin(const rank_tokenizer *tokenizer, char *name, size_t capacity);

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

/* Where a text stands, which counts for a tokenizer that puts a space before some. */
typedef enum rank_tokenizer_place {
    RANK_TOKENIZER_BEGINS,       /* it is a text of its own */
    RANK_TOKENIZER_BEHIND_TOKEN, /* behind a special token */
    RANK_TOKENIZER_GOES_ON,      /* where another text ended: no space is put before it */
} rank_tokenizer_place;

/* A text that may stand elsewhere, and in which some bytes may be special tokens. */
typedef struct rank_tokenizer_text {
    const char *at;
    size_t bytes;
    rank_tokenizer_place place;
    /* (bytes) 0: of letters of special tokens that become these; NULL: of none, but for rank_tokenizer_allow_special */
    const uint32_t *origins;
} rank_tokenizer_text;

/* The same of such a text. */
BASE_MUST_CHECK base_status rank_tokenizer_encode_text(rank_tokenizer *tokenizer,
                                                       const rank_tokenizer_text *text,
                                                       rank_ids *ids, base_error *reterr);

/* The bytes of the ids, NUL-terminated and cut at capacity-1. The end id has no bytes. Returns the
 * bytes needed. */
size_t rank_tokenizer_decode(const rank_tokenizer *tokenizer, const int32_t *ids, size_t count,
                             char *text, size_t capacity);

#endif
