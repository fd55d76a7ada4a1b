/* What the two parts of the lexer share: text outside of tags (lexer.c), and what is in them (lexer_tag.c). */
#ifndef RANK_JINJA_LEXING_H
#define RANK_JINJA_LEXING_H

#include "lexer.h"

typedef struct jinja_lexing {
    jinja_work *work;
    const char *at;  /* what is left of the source, */
    const char *end; /* up to here, where a NUL is */
    bool at_line;    /* a line begins here, or the source */
    jinja_token *tokens;
    size_t count;
    size_t room;
} jinja_lexing;

jinja_token *jinja_lexing_put(jinja_lexing *lexing, jinja_token_kind kind);
/* Goes on by so many bytes, and counts their lines. */
void jinja_lexing_skip(jinja_lexing *lexing, size_t bytes);
void jinja_lexing_skip_blanks(jinja_lexing *lexing);
bool jinja_lexing_is(const jinja_lexing *lexing, const char *what);
/* The bytes of the blank character there; 0: it is none. */
size_t jinja_lexing_blank(const char *at, const char *end);

/* Puts the tokens of a tag or an expression, and its end. end_mark: "%}" or "}}". */
void jinja_lexing_tag(jinja_lexing *lexing, jinja_token_kind end_kind, const char *end_mark);

#endif
