/* Checks a grammar. Called by the launcher, which makes it, and on every rank, where it comes from another process. */
#include "proto/grammar.h"

enum {
    NEVER = UINT8_MAX, /* a depth: the step does not return, as far as is known */
    NONE = -1,         /* no byte of a plain character */
};

/* What may follow within a plain character (Unicode, table 3-7). */
enum { LAST = 1, LAST_OF_2, LAST_OF_3, OF_E0, OF_E2, OF_E2_80, OF_ED, OF_F0, OF_F4 };

static int begin_character(uint8_t byte)
{
    static const struct {
        uint8_t last, begun;
    } firsts[] = {{0xdf, LAST},      {0xe0, OF_E0}, {0xe1, LAST_OF_2}, {0xe2, OF_E2},
                  {0xec, LAST_OF_2}, {0xed, OF_ED}, {0xef, LAST_OF_2}, {0xf0, OF_F0},
                  {0xf3, LAST_OF_3}, {0xf4, OF_F4}};
    if (byte < 0x80) {
        return byte >= 0x20 && byte != '"' && byte != '\\' ? 0 : NONE;
    }
    for (size_t i = 0; byte >= 0xc2 && i < sizeof firsts / sizeof firsts[0]; i++) {
        if (byte <= firsts[i].last) {
            return firsts[i].begun;
        }
    }
    return NONE;
}

int proto_grammar_plain(int begun, uint8_t byte)
{
    static const struct {
        uint8_t low, high;
        int8_t then;
    } rest[] = {[LAST] = {0x80, 0xbf, 0},
                [LAST_OF_2] = {0x80, 0xbf, LAST},
                [LAST_OF_3] = {0x80, 0xbf, LAST_OF_2},
                [OF_E0] = {0xa0, 0xbf, LAST},
                [OF_E2] = {0x80, 0xbf, LAST},
                [OF_E2_80] = {0x80, 0xbf, 0},
                [OF_ED] = {0x80, 0x9f, LAST}, /* no surrogates */
                [OF_F0] = {0x90, 0xbf, LAST_OF_2},
                [OF_F4] = {0x80, 0x8f, LAST_OF_2}};
    if (begun == 0) {
        return begin_character(byte);
    }
    if (byte < rest[begun].low || byte > rest[begun].high ||
        (begun == OF_E2_80 && (byte == 0xa8 || byte == 0xa9))) { /* U+2028 and U+2029 */
        return NONE;
    }
    return begun == OF_E2 && byte == 0x80 ? OF_E2_80 : rest[begun].then;
}

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
