/* Multiplies a pattern's automaton by the count of its characters. Called by pattern_grammar.c. */
#include "serve/pattern_length.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES_MAX = 1 << 17 }; /* of all patterns of a schema: it bounds the time that they take */

/* A place is a step of the pattern, and how many characters stand before it. */
typedef struct product {
    const launch_text *text;
    const proto_grammar_step *steps; /* (width) */
    int64_t levels; /* counts: 0 ... levels - 1; without a most, the last means all above */
    uint32_t width;
    uint32_t from;
    launch_step end;
    bool *alive; /* (levels, width): it leads to the end */
    bool *met;   /* the beginning leads to it */
    launch_step *steps_of;
} product;

static size_t place_of(const product *p, int64_t level, uint32_t step)
{
    return (size_t)level * p->width + step - p->from;
}

/* The level behind the step; `levels`: there is none. */
static int64_t level_behind(const product *p, const proto_grammar_step *step, int64_t level)
{
    if (step->kind != PROTO_GRAMMAR_CALL) {
        return level;
    }
    return p->text->most < 0 && level + 1 == p->levels ? level : level + 1;
}

static bool is_alive(const product *p, int64_t level, uint32_t step)
{
    if (level == p->levels) {
        return false;
    }
    return step == p->end ? level >= p->text->least : p->alive[place_of(p, level, step)];
}

static void find_alive(const product *p)
{
    for (int64_t level = p->levels; level-- > 0;) {
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t i = 0; i < p->width; i++) {
                const proto_grammar_step *step = &p->steps[i];
                const int64_t behind = level_behind(p, step, level);
                bool *alive = &p->alive[place_of(p, level, p->from + i)];
                if (!*alive &&
                    (is_alive(p, behind, step->next) ||
                     (step->kind == PROTO_GRAMMAR_SPLIT && is_alive(p, behind, step->other)))) {
                    *alive = true;
                    changed = true;
                }
            }
        }
    }
}

/* Notes a place, if the end can be reached from it. True: it is new. */
static bool meet(const product *p, int64_t level, uint32_t step)
{
    if (step == p->end || !is_alive(p, level, step) || p->met[place_of(p, level, step)]) {
        return false;
    }
    p->met[place_of(p, level, step)] = true;
    return true;
}

static void find_met(const product *p)
{
    for (int64_t level = 0; level < p->levels; level++) {
        for (bool changed = true; changed;) {
            changed = false;
            for (uint32_t i = p->width; i-- > 0;) {
                const proto_grammar_step *step = &p->steps[i];
                if (p->met[place_of(p, level, p->from + i)]) {
                    const int64_t behind = level_behind(p, step, level);
                    const bool next = meet(p, behind, step->next);
                    const bool other =
                        step->kind == PROTO_GRAMMAR_SPLIT && meet(p, behind, step->other);
                    changed = changed || next || other;
                }
            }
        }
    }
}

static launch_step step_of(const product *p, int64_t level, uint32_t step)
{
    return step == p->end ? p->end : p->steps_of[place_of(p, level, step)];
}

/* Makes steps of the places, from the last level on, so that most lead to earlier ones. */
static void make_steps(const product *p, launch_grammar *grammar)
{
    for (int64_t level = p->levels; level-- > 0;) {
        for (uint32_t i = 0; i < p->width && grammar->status == BASE_OK; i++) {
            const size_t place = place_of(p, level, p->from + i);
            p->steps_of[place] = p->met[place] ? launch_grammar_promise(grammar) : 0;
        }
    }
    for (int64_t level = 0; level < p->levels && grammar->status == BASE_OK; level++) {
        for (uint32_t i = 0; i < p->width; i++) {
            const size_t place = place_of(p, level, p->from + i);
            proto_grammar_step step = p->steps[i];
            const int64_t behind = level_behind(p, &step, level);
            if (!p->met[place]) {
                continue;
            }
            if (step.kind == PROTO_GRAMMAR_SPLIT) {
                const uint16_t next = is_alive(p, behind, step.next) ? step.next : step.other;
                const uint16_t other = is_alive(p, behind, step.other) ? step.other : next;
                step.next = step_of(p, behind, next);
                step.other = step_of(p, behind, other);
            } else {
                step.next = step_of(p, behind, step.next);
            }
            grammar->steps[p->steps_of[place]] = step;
        }
    }
}

launch_step launch_grammar_count(launch_grammar *grammar, const launch_text *text, uint32_t from,
                                 launch_step begin)
{
    const int64_t last = text->most < 0 ? text->least : text->most;
    product p = {.text = text,
                 .levels = last < PLACES_MAX ? last + 1 : PLACES_MAX,
                 .width = grammar->count - from,
                 .from = from,
                 .end = (launch_step)(from - 1)};
    if (begin == p.end) { /* only the empty text matches */
        return text->least == 0 ? begin : 0;
    }
    if (last >= PLACES_MAX || p.levels * p.width > PLACES_MAX - grammar->places) {
        return launch_grammar_refuse_size(grammar);
    }
    const size_t places = (size_t)p.levels * p.width;
    grammar->places += (int64_t)places;
    proto_grammar_step *steps = malloc(p.width * sizeof *steps);
    p.alive = calloc(places, sizeof *p.alive);
    p.met = calloc(places, sizeof *p.met);
    p.steps_of = calloc(places, sizeof *p.steps_of);
    launch_step made = 0;
    if (steps == NULL || p.alive == NULL || p.met == NULL || p.steps_of == NULL) {
        grammar->status = base_fail(grammar->reterr, BASE_ERR_MEMORY, "no memory for a pattern");
    } else {
        memcpy(steps, grammar->steps + from, p.width * sizeof *steps);
        p.steps = steps;
        grammar->count = from;
        find_alive(&p);
        if (meet(&p, 0, begin)) {
            find_met(&p);
            make_steps(&p, grammar);
            made = step_of(&p, 0, begin);
        }
    }
    free(steps);
    free(p.alive);
    free(p.met);
    free(p.steps_of);
    return made;
}
