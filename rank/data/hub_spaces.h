/* Tokenizers of SentencePiece's kind, as Llama 2, Mistral and Mixtral have: a BPE whose tokens are characters, with
 * spaces as U+2581, and with a token for each byte ("byte_fallback"). Here a token's bytes are those that it stands
 * for, a space for each U+2581, so that decoding joins them as it does for any other tokenizer.
 *
 * No merge crosses the begin of a word where no token has a space behind another character. Then a text is merged
 * word by word, with the same result. One thread at a time, as the tokenizer. */
#ifndef RANK_DATA_HUB_SPACES_H
#define RANK_DATA_HUB_SPACES_H

#include "hub_parts.h"

/* Prepend or Replace: a step of "normalizer". */
BASE_MUST_CHECK base_status hub_spaces_read_normalizer(rank_tokenizer *self,
                                                       const struct json_t *step,
                                                       base_error *reterr);
/* "pre_tokenizer": none, Metaspace, or Gemma's. After the normalizer. */
BASE_MUST_CHECK base_status hub_spaces_read_steps(rank_tokenizer *self, const struct json_t *steps,
                                                  base_error *reterr);
/* The byte of a token such as <0x0A>; HUB_NONE: it is none. */
int hub_spaces_byte(const char *text);
/* The bytes of the U+2581 at the text's begin; 0: there is none. */
size_t hub_spaces_mark(const uint8_t *text, size_t text_bytes);
/* What a token of the vocabulary stands for. Not longer than its text. */
size_t hub_spaces_from_marks(const char *text, size_t text_bytes, uint8_t *bytes);
/* After the vocabulary: whether words can be merged alone. BASE_ERR_UNSUPPORTED: a byte has no token. */
BASE_MUST_CHECK base_status hub_spaces_find_words(rank_tokenizer *self, base_error *reterr);

/* Whether a space comes before a stretch of a text. is_first: no added token stands before it in the text. */
bool hub_spaces_prepends(const rank_tokenizer *self, rank_tokenizer_place place, bool is_first,
                         const uint8_t *text, size_t text_bytes);
/* The text with a space in front if there shall be one, and spaces for marks; valid until the next call. *origins: its
 * bytes' origins, or NULL before and after; the space in front has the origin 0. */
BASE_MUST_CHECK base_status hub_spaces_put(rank_tokenizer *self, bool prepends,
                                           const uint8_t **text, size_t *text_bytes,
                                           const uint32_t **origins, base_error *reterr);
/* Bytes of white space at the text's begin, and at its end: what the library's \s matches. */
size_t hub_spaces_leading(const uint8_t *text, size_t text_bytes);
size_t hub_spaces_trailing(const uint8_t *text, size_t text_bytes);
/* The end of the word that begins at `begin`. */
size_t hub_spaces_word_end(const rank_tokenizer *self, const uint8_t *text, size_t text_bytes,
                           size_t begin);

#endif
