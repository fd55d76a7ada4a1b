/* The parts of a grammar of JSON texts (proto/grammar.h), from which schema.c makes one of a schema. Pure.
 *
 * Each function adds steps in front of the step `next`, and returns the one with which they begin. So a grammar is
 * made from its end. When there is no more room, or what is asked for is not supported, `status` is no longer
 * BASE_OK, and all that follows means nothing. */
#ifndef LAUNCH_JSON_GRAMMAR_H
#define LAUNCH_JSON_GRAMMAR_H

#include <stdint.h>

#include "base/status.h"
#include "proto/grammar.h"

struct json_t;

enum {
    LAUNCH_GRAMMAR_RETURN = 1,     /* the step that returns */
    LAUNCH_NUMBER_DIGITS_MAX = 15, /* with so many, numbers that differ are different doubles */
    LAUNCH_STRING_LENGTH_MAX =
        PROTO_GRAMMAR_STEPS_MAX / 2, /* an optional character takes two steps */
    LAUNCH_STRINGS_MAX = 64,
};

typedef uint16_t launch_step;

/* What a string must be. */
typedef struct launch_text {
    const char *pattern; /* borrowed while the grammar is made; NULL: any */
    int64_t least;       /* characters */
    int64_t most;        /* -1: any number */
} launch_text;

typedef struct launch_grammar {
    proto_grammar_step *steps; /* (PROTO_GRAMMAR_STEPS_MAX) */
    uint32_t count;
    /* Steps that are called: 0: not made yet. */
    launch_step blank;
    launch_step string;
    launch_step string_body; /* behind its first quote */
    launch_step character;   /* of a string, each in any of its forms */
    launch_step integer;
    launch_step number;
    launch_step value;
    /* Strings of a length (string_grammar.h): at most so many characters, and then the quote. */
    uint32_t up_to_count;
    launch_step up_to[LAUNCH_STRING_LENGTH_MAX];
    uint32_t string_count;
    struct {
        launch_text text;
        launch_step begin;
    } strings[LAUNCH_STRINGS_MAX];
    int64_t places; /* that patterns with lengths took (pattern_length.h) */
    /* Numbers between bounds (number_grammar.h), by digits. */
    launch_step more[2][LAUNCH_NUMBER_DIGITS_MAX + 1];
    launch_step tail[LAUNCH_NUMBER_DIGITS_MAX + 1];
    launch_step fraction[LAUNCH_NUMBER_DIGITS_MAX + 1];
    base_status status;
    base_error *reterr;
} launch_grammar;

/* Step 0 is left free for the beginning. */
void launch_grammar_init(launch_grammar *grammar, proto_grammar_step *steps, base_error *reterr);

launch_step launch_grammar_add(launch_grammar *grammar, proto_grammar_step step);

/* There is no more room, or too much would be needed. */
launch_step launch_grammar_refuse_size(launch_grammar *grammar);

/* `first` or `second`. */
launch_step launch_grammar_either(launch_grammar *grammar, launch_step first, launch_step second);

/* A step that is needed before it is known where it leads; and that it leads to either of two. */
launch_step launch_grammar_promise(launch_grammar *grammar);
void launch_grammar_keep(launch_grammar *grammar, launch_step promised, launch_step first,
                         launch_step second);

launch_step launch_grammar_call(launch_grammar *grammar, launch_step called, launch_step next);
launch_step launch_grammar_text(launch_grammar *grammar, const char *text, launch_step next);

/* A byte of one of the ranges, each as its first and last byte. */
launch_step launch_grammar_byte(launch_grammar *grammar, const char *ranges, launch_step next);

/* White space, BLANKS_MAX characters at most: no answer is filled with it. */
launch_step launch_grammar_blank(launch_grammar *grammar, launch_step next);

/* Of so few digits that every reader takes it. */
launch_step launch_grammar_number(launch_grammar *grammar, bool integer, launch_step next);

/* One of a list of scalars, each written without white space and needless escapes. The list is not empty. */
launch_step launch_grammar_one_of(launch_grammar *grammar, const struct json_t *values,
                                  launch_step next);

/* An object of any names, or a list: each has the values that the step `value` is the beginning of, which returns.
 * The list has least … most of them; most < 0: any number. */
launch_step launch_grammar_map(launch_grammar *grammar, launch_step value, launch_step next);
launch_step launch_grammar_list(launch_grammar *grammar, launch_step value, int64_t least,
                                int64_t most, launch_step next);

/* Any value: a step to be called. */
launch_step launch_grammar_any(launch_grammar *grammar);

#endif
