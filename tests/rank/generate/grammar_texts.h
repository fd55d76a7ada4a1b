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

#endif
