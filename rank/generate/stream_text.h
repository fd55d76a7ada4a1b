/* Turns the bytes of tokens into text for a terminal, as they come.
 *
 * A token of byte-level BPE can end inside a character. Such bytes are held until the rest has
 * come. Bytes that are not UTF-8 become U+FFFD, one for each longest part that could have begun a
 * character (Unicode 15, section 3.9, "U+FFFD substitution of maximal subparts"). Control
 * characters except newline and tab are written as \xNN, those above U+007F as \u00NN, so that a
 * model's output cannot control a terminal; or, with `exact`, they stand as they are, but NUL, which
 * becomes U+FFFD. The text does not depend on how the bytes are cut.
 * Pure; one thread at a time uses a stream. */
#ifndef RANK_GENERATE_STREAM_TEXT_H
#define RANK_GENERATE_STREAM_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rank/tokenizer.h"

/* Begins with all 0, but for `exact` and `keeps_space`. */
typedef struct rank_stream_text {
    uint8_t held[3]; /* the beginning of a character, UTF-8 so far */
    uint8_t held_count;
    bool exact;
    bool keeps_space; /* a space that the first token begins with is not left out */
    bool has_begun;   /* the first byte of a token has come */
} rank_stream_text;

enum {
    RANK_STREAM_TEXT_GROWTH = 4,     /* bytes of text for a byte that comes */
    RANK_STREAM_TEXT_HELD_BYTES = 3, /* of text for what was held back */
    RANK_STREAM_TOKEN_BYTES = 1024,  /* of a token; the rest is cut off */
    RANK_STREAM_TOKEN_TEXT_BYTES =
        RANK_STREAM_TOKEN_BYTES * RANK_STREAM_TEXT_GROWTH + RANK_STREAM_TEXT_HELD_BYTES,
};

/* Writes the text of the next byte_count bytes, without a NUL, and returns its bytes. text has room
 * for byte_count × GROWTH + HELD_BYTES. */
size_t rank_stream_text_add(rank_stream_text *stream, const void *bytes, size_t byte_count,
                            char *text);

/* The same of the next token: at most RANK_STREAM_TOKEN_TEXT_BYTES. */
size_t rank_stream_text_add_token(rank_stream_text *stream, const rank_tokenizer *tokenizer,
                                  int32_t token, char *text);

/* At the end: writes U+FFFD if the beginning of a character is still held, HELD_BYTES, and returns
 * how many bytes it wrote. The stream may be used again. */
size_t rank_stream_text_end(rank_stream_text *stream, char *text);

/* The text of bytes that have all come, with a NUL. A model can end inside a character, or make
 * bytes that are not UTF-8. malloc'ed; NULL: no memory. */
char *rank_stream_text_whole(const void *bytes, size_t byte_count);

#endif
