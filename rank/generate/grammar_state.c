/* Runs a grammar. Called by grammar.c for each byte. */
#include "generate/grammar_state.h"

enum {
    /* Steps between two bytes. There are no more before the first that reads one: at each depth all others can be passed. */
    FIRST_MAX = (PROTO_GRAMMAR_DEPTH_MAX + 1) * PROTO_GRAMMAR_STEPS_MAX,
    WALK_MAX = 2048, /* when one was found: it bounds the time of any schema */
    BRANCHES_MAX = 128,
};

static bool is_same(const rank_grammar_thread *a, const rank_grammar_thread *b)
{
    int i = a->depth; /* threads differ at the end most often */
    if (a->step != b->step || a->depth != b->depth) {
        return false;
    }
    while (i > 0 && a->back[i - 1] == b->back[i - 1]) {
        i--;
    }
    return i == 0;
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

/* Whether the text can end behind the step, that many calls deep. */
static bool can_end(const proto_grammar_step *step, uint16_t depth)
{
    return depth + step->depth <= PROTO_GRAMMAR_DEPTH_MAX;
}

/* Goes from a step to all steps behind it that read a byte, and adds them. It goes only where the text can end, so that
 * it always comes to one. *walk: steps that may still be taken. */
static void add(const proto_grammar_step *steps, const rank_grammar_thread *from, int *walk,
                rank_grammar_state *state)
{
    rank_grammar_thread branches[BRANCHES_MAX];
    rank_grammar_thread at = *from;
    int left = 0;
    for (; *walk > 0; --*walk, state->work++) {
        const proto_grammar_step *step = &steps[at.step];
        if (step->kind == PROTO_GRAMMAR_SPLIT) {
            const bool first = can_end(&steps[step->next], at.depth);
            if (first && step->other != step->next && left < BRANCHES_MAX &&
                can_end(&steps[step->other], at.depth)) {
                branches[left] = at;
                branches[left++].step = step->other;
            }
            at.step = first ? step->next : step->other;
        } else if (step->kind == PROTO_GRAMMAR_CALL) {
            at.back[at.depth++] = step->next;
            at.step = step->other;
        } else if (step->kind == PROTO_GRAMMAR_RETURN && at.depth > 0) {
            at.step = at.back[--at.depth];
        } else {
            state->work += state->count;
            if (step->kind == PROTO_GRAMMAR_RETURN) {
                state->ends = 1;
            } else if (state->count < RANK_GRAMMAR_THREADS_MAX && !has(state, &at)) {
                state->threads[state->count++] = at;
            }
            if (left == 0) {
                return;
            }
            at = branches[--left];
            *walk = *walk < WALK_MAX ? *walk : WALK_MAX;
        }
    }
}

void rank_grammar_begin(const proto_grammar_step *steps, rank_grammar_state *state)
{
    int walk = FIRST_MAX;
    state->count = 0;
    state->ends = 0;
    state->work = 0;
    add(steps, &(rank_grammar_thread){.step = 0}, &walk, state);
}

bool rank_grammar_take(const proto_grammar_step *steps, const rank_grammar_state *from,
                       uint8_t byte, rank_grammar_state *to)
{
    int walk = FIRST_MAX;
    to->count = 0;
    to->ends = 0;
    to->work = from->count;
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
    /* A string's body comes back to this step after each such byte, and the first thread is never left out. */
    return state->count > 0 && steps[state->threads[0].step].kind == PROTO_GRAMMAR_PLAIN;
}
