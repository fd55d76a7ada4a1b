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
    if (a->step != b->step || a->depth != b->depth || a->begun != b->begun) {
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

static void keep(rank_grammar_state *state, const rank_grammar_thread *thread)
{
    state->work += state->count;
    if (state->count < RANK_GRAMMAR_THREADS_MAX && !has(state, thread)) {
        state->threads[state->count++] = *thread;
    }
}

/* Whether the text can end behind the step, that many calls deep. */
static bool can_end(const proto_grammar_step *step, uint8_t depth)
{
    return depth + step->depth <= PROTO_GRAMMAR_DEPTH_MAX;
}

/* Goes on without a byte, the first way where there are two. False: the step reads a byte, or ends
 * the text. */
static bool pass(const proto_grammar_step *steps, rank_grammar_thread *at)
{
    const proto_grammar_step *step = &steps[at->step];
    if (step->kind == PROTO_GRAMMAR_SPLIT) {
        at->step = can_end(&steps[step->next], at->depth) ? step->next : step->other;
    } else if (step->kind == PROTO_GRAMMAR_CALL) {
        at->back[at->depth++] = step->next;
        at->step = step->other;
    } else if (step->kind == PROTO_GRAMMAR_RETURN && at->depth > 0) {
        at->step = at->back[--at->depth];
    } else {
        return false;
    }
    return true;
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
        if (step->kind == PROTO_GRAMMAR_SPLIT && step->other != step->next && left < BRANCHES_MAX &&
            can_end(&steps[step->next], at.depth) && can_end(&steps[step->other], at.depth)) {
            branches[left] = at;
            branches[left++].step = step->other;
        }
        if (pass(steps, &at)) {
            continue;
        }
        if (step->kind == PROTO_GRAMMAR_RETURN) {
            state->ends = 1;
        } else {
            keep(state, &at);
        }
        if (left == 0) {
            return;
        }
        at = branches[--left];
        *walk = *walk < WALK_MAX ? *walk : WALK_MAX;
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
        const int begun = proto_grammar_take(step, from->threads[i].begun, byte);
        if (begun >= 0) {
            rank_grammar_thread thread = from->threads[i];
            thread.begun = (uint8_t)begun;
            if (begun > 0) {
                keep(to, &thread);
                continue;
            }
            thread.step = step->next;
            add(steps, &thread, &walk, to);
        }
    }
    return to->count > 0 || to->ends != 0;
}

bool rank_grammar_is_same(const rank_grammar_state *a, const rank_grammar_state *b)
{
    int32_t i = 0;
    if (a->count != b->count || a->ends != b->ends) {
        return false;
    }
    while (i < a->count && is_same(&a->threads[i], &b->threads[i])) {
        i++;
    }
    return i == a->count;
}

/* Whether a plain character may begin with a byte that the step takes. */
static bool takes_plain(const proto_grammar_step *step)
{
    const int last = step->kind == PROTO_GRAMMAR_RANGE ? step->high : UINT8_MAX;
    bool takes = false;
    for (int byte = step->low; byte <= last && !takes; byte++) {
        takes = proto_grammar_plain(0, (uint8_t)byte) >= 0;
    }
    return takes;
}

int rank_grammar_plain_run(const proto_grammar_step *steps, const rank_grammar_state *state,
                           int most)
{
    rank_grammar_state states[2];
    for (int run = 0; run < most; run++) {
        int takers = 0;
        bool any = false; /* it may be any plain character */
        for (int32_t i = 0; i < state->count; i++) {
            const rank_grammar_thread *thread = &state->threads[i];
            const proto_grammar_step *step = &steps[thread->step];
            takers += takes_plain(step) ? 1 : 0;
            any = any ||
                  (step->kind == PROTO_GRAMMAR_PLAIN && step->low < 0x80 && thread->begun == 0);
        }
        if (takers != 1 || !any) {
            return takers == 0 ? run : 0;
        }
        rank_grammar_state *behind = &states[run % 2];
        (void)rank_grammar_take(steps, state, 'a', behind); /* all lead to the same */
        if (rank_grammar_is_same(state, behind)) {
            return most;
        }
        state = behind;
    }
    return most;
}
