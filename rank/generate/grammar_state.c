/* Runs a grammar. Called by grammar.c for each byte. */
#include "generate/grammar_state.h"

#include <string.h>

enum {
    WALK_MAX = 2048, /* steps between two bytes, which bounds the time of any schema */
    BRANCHES_MAX = RANK_GRAMMAR_THREADS_MAX,
};

static bool is_same(const rank_grammar_thread *a, const rank_grammar_thread *b)
{
    return a->step == b->step && a->depth == b->depth &&
           memcmp(a->back, b->back, a->depth * sizeof *a->back) == 0;
}

static bool has(const rank_grammar_state *state, const rank_grammar_thread *thread)
{
    for (int32_t i = 0; i < state->count; i++) {
        if (is_same(&state->threads[i], thread)) {
            return true;
        }
    }
    return false;
}

/* Goes from a step to all steps behind it that read a byte, and adds them. *walk: steps that may still be taken. */
static void add(const proto_grammar_step *steps, const rank_grammar_thread *from, int *walk,
                rank_grammar_state *state)
{
    rank_grammar_thread branches[BRANCHES_MAX];
    rank_grammar_thread at = *from;
    int left = 0;
    for (; *walk > 0; --*walk) {
        const proto_grammar_step *step = &steps[at.step];
        bool goes_on = at.depth + step->depth <= PROTO_GRAMMAR_DEPTH_MAX;
        if (goes_on && step->kind == PROTO_GRAMMAR_SPLIT) {
            if (left < BRANCHES_MAX) {
                branches[left] = at;
                branches[left++].step = step->other;
            }
            at.step = step->next;
        } else if (goes_on && step->kind == PROTO_GRAMMAR_CALL) {
            at.back[at.depth++] = step->next;
            at.step = step->other;
        } else if (goes_on && step->kind == PROTO_GRAMMAR_RETURN && at.depth > 0) {
            at.step = at.back[--at.depth];
        } else {
            state->ends |= goes_on && step->kind == PROTO_GRAMMAR_RETURN;
            if (goes_on && step->kind != PROTO_GRAMMAR_RETURN &&
                state->count < RANK_GRAMMAR_THREADS_MAX && !has(state, &at)) {
                state->threads[state->count++] = at;
            }
            if (left == 0) {
                return;
            }
            at = branches[--left];
        }
    }
}

void rank_grammar_begin(const proto_grammar_step *steps, rank_grammar_state *state)
{
    int walk = WALK_MAX;
    state->count = 0;
    state->ends = 0;
    add(steps, &(rank_grammar_thread){.step = 0}, &walk, state);
}

bool rank_grammar_take(const proto_grammar_step *steps, const rank_grammar_state *from,
                       uint8_t byte, rank_grammar_state *to)
{
    int walk = WALK_MAX;
    to->count = 0;
    to->ends = 0;
    for (int32_t i = 0; i < from->count; i++) {
        const proto_grammar_step *step = &steps[from->threads[i].step];
        if (proto_grammar_takes(step, byte)) {
            rank_grammar_thread thread = from->threads[i];
            thread.step = step->next;
            add(steps, &thread, &walk, to);
        }
    }
    return to->count > 0 || to->ends != 0;
}

bool rank_grammar_is_in_string(const proto_grammar_step *steps, const rank_grammar_state *state)
{
    for (int32_t i = 0; i < state->count; i++) {
        if (steps[state->threads[i].step].kind == PROTO_GRAMMAR_PLAIN) {
            return true; /* a string's body comes back to the same step after each plain byte */
        }
    }
    return false;
}
