/* Checks a grammar. Called by the launcher, which makes it, and on every rank, where it comes from another process. */
#include "proto/grammar.h"

enum { NEVER = UINT8_MAX }; /* a depth: the step does not return, as far as is known */

static uint8_t deeper(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

/* How deep calls go at least before the step returns, by what is known of the others. */
static uint8_t find_depth(const proto_grammar_step *steps, const proto_grammar_step *step)
{
    const uint8_t next = steps[step->next].depth;
    const uint8_t other = steps[step->other].depth;
    if (step->kind == PROTO_GRAMMAR_RETURN) {
        return 0;
    }
    if (step->kind == PROTO_GRAMMAR_SPLIT) {
        return next < other ? next : other;
    }
    if (step->kind == PROTO_GRAMMAR_CALL) {
        return other >= PROTO_GRAMMAR_DEPTH_MAX ? NEVER : deeper(next, (uint8_t)(other + 1));
    }
    return next;
}

base_status proto_grammar_check(proto_grammar_step *steps, size_t count, base_error *reterr)
{
    if (count < 1 || count > PROTO_GRAMMAR_STEPS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "a grammar of %zu steps: it may have %d", count,
                         PROTO_GRAMMAR_STEPS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        if (steps[i].kind >= PROTO_GRAMMAR_KINDS || steps[i].next >= count ||
            steps[i].other >= count) {
            return base_fail(reterr, BASE_ERR_INVALID, "step %zu of a grammar is none", i);
        }
        steps[i].depth = NEVER;
    }
    for (bool changed = true; changed;) { /* depths only fall; most steps lead to earlier ones */
        changed = false;
        for (size_t i = 0; i < count; i++) {
            const uint8_t depth = find_depth(steps, &steps[i]);
            changed = changed || depth < steps[i].depth;
            steps[i].depth = depth;
        }
    }
    return steps[0].depth <= PROTO_GRAMMAR_DEPTH_MAX
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "no answer can end, or none is flat enough");
}
