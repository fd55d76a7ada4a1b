/* The grammar that an answer must follow: a pushdown automaton over bytes, as a program of steps.
 *
 * The launcher compiles it from a JSON schema, and every rank runs it on what was drawn (rank/generate/grammar.h).
 * Step 0 begins. A step reads a byte, or reads none: it branches, calls another step, or returns. A
 * return with nothing to return to is where the answer may end. Calls are at most
 * PROTO_GRAMMAR_DEPTH_MAX deep; `depth` says how deep they must go at least to return from the step, so that a
 * reader never takes a byte after which there is no end.
 *
 * A plain character stands for itself in a JSON string, in well-formed UTF-8. It may have several
 * bytes. The line separators U+2028 and U+2029 are none: JavaScript once took them for ends of
 * lines. Pure. */
#ifndef PROTO_GRAMMAR_H
#define PROTO_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PROTO_GRAMMAR_STEPS_MAX = 4096,
    PROTO_GRAMMAR_DEPTH_MAX = 32,
};

typedef enum proto_grammar_kind {
    PROTO_GRAMMAR_RANGE, /* a byte from low to high, then `next` */
    PROTO_GRAMMAR_PLAIN, /* a plain character whose first byte is `low` or more, then `next` */
    PROTO_GRAMMAR_SPLIT, /* `next` or `other` */
    PROTO_GRAMMAR_CALL,  /* `other`, and `next` when that has returned */
    PROTO_GRAMMAR_RETURN,
    PROTO_GRAMMAR_KINDS
} proto_grammar_kind;

typedef struct proto_grammar_step {
    uint8_t kind;
    uint8_t low;
    uint8_t high;
    uint8_t depth; /* proto_grammar_check */
    uint16_t next;
    uint16_t other;
} proto_grammar_step;

_Static_assert(sizeof(proto_grammar_step) == 8, "no padding");

/* A plain character byte by byte. begun: 0, or what the byte before has returned. Returns 0 behind
 * its last byte, more within it, and less where the byte is none of a plain character. */
int proto_grammar_plain(int begun, uint8_t byte);

/* The same of a step that reads bytes: of one that reads a single byte, 0 or less. */
static inline int proto_grammar_take(const proto_grammar_step *step, int begun, uint8_t byte)
{
    if (begun == 0 &&
        (byte < step->low || (step->kind == PROTO_GRAMMAR_RANGE && byte > step->high))) {
        return -1;
    }
    return step->kind == PROTO_GRAMMAR_RANGE ? 0 : proto_grammar_plain(begun, byte);
}

/* Checks that all steps lead to steps, and that each can return; fills in `depth`. BASE_ERR_INVALID: no answer could
 * end, or none within the depth; BASE_ERR_LIMIT: too many steps. */
BASE_MUST_CHECK base_status proto_grammar_check(proto_grammar_step *steps, size_t count,
                                                base_error *reterr);

#endif
