/* Whether the grammar of a schema takes texts. */
#ifndef TEST_GRAMMAR_TEXTS_H
#define TEST_GRAMMAR_TEXTS_H

#include <stdbool.h>

#include "proto/grammar.h"

typedef struct grammar_texts {
    proto_grammar_step steps[PROTO_GRAMMAR_STEPS_MAX];
    uint32_t count;
    base_error error;
} grammar_texts;

/* Of a schema as JSON. */
base_status grammar_texts_read(grammar_texts *texts, const char *schema);

/* Whether the grammar takes the text, and it may end. */
bool grammar_texts_is_whole(const proto_grammar_step *steps, const char *text);

/* A schema with texts that it allows, and others that it does not. */
typedef struct grammar_case {
    const char *schema;
    const char *valid[6];
    const char *invalid[7];
} grammar_case;

void grammar_texts_check(grammar_texts *texts, const grammar_case *one);

#endif
