/* A template's source as tokens. Text outside of tags has lost the spaces that its tags take: those of `-`, a line's
 * first spaces before a statement (lstrip_blocks), the line end behind one (trim_blocks), and one at the end. */
#ifndef RANK_JINJA_LEXER_H
#define RANK_JINJA_LEXER_H

#include <stdbool.h>

#include "text.h"

typedef enum jinja_token_kind {
    JINJA_TOKEN_END,
    JINJA_TOKEN_TEXT,
    JINJA_TOKEN_PRINT, /* {{ */
    JINJA_TOKEN_PRINT_END,
    JINJA_TOKEN_TAG, /* {% */
    JINJA_TOKEN_TAG_END,
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_STRING,
    JINJA_TOKEN_INT,
    JINJA_TOKEN_REAL,
    JINJA_TOKEN_SIGN, /* an operator or a bracket */
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    uint32_t line;
    const char *name;  /* JINJA_TOKEN_NAME, JINJA_TOKEN_SIGN: NUL-terminated */
    jinja_value value; /* of a literal and of text */
} jinja_token;

/* The tokens, the last of which is JINJA_TOKEN_END. They stay as long as the work's memory. */
const jinja_token *jinja_tokens_of(jinja_work *work, const char *source, size_t bytes);

#endif
