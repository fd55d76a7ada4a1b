/* Patterns in steps: each character is a call, so that characters can be counted. Called by
 * string_grammar.c. */
#include "serve/pattern_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "serve/characters_grammar.h"
#include "serve/pattern.h"
#include "serve/pattern_length.h"
#include "serve/string_grammar.h"

enum { NONE = 0 };

typedef struct builder {
    launch_grammar *grammar;
    launch_pattern *pattern;
    launch_step sets[LAUNCH_PATTERN_SETS_MAX];
    launch_step end;  /* the quote */
    launch_step rest; /* any characters, and the quote; 0: not made yet */
    const char *why;
} builder;

static launch_step build(builder *b, uint16_t at, launch_step next);

/* ---- repetitions ---- */

/* What may come next where the node may be repeated: not nothing, or the grammar would go round
 * without a character. NONE: it can be nothing else. (Star normal form: Brueggemann-Klein, Regular
 * expressions into finite automata, 1993.) */
static launch_step build_starred(builder *b, uint16_t at, launch_step loop)
{
    const launch_node *node = &b->pattern->nodes[at];
    if (!node->nullable) {
        return build(b, at, loop);
    }
    if (node->kind == LAUNCH_NODE_REPEAT) {
        return node->most != 0 ? build_starred(b, node->first, loop) : NONE;
    }
    if (node->kind == LAUNCH_NODE_EMPTY) {
        return NONE;
    }
    const launch_step first = build_starred(b, node->first, loop);
    const launch_step second = build_starred(b, node->second, loop);
    if (first == NONE || second == NONE) {
        return first == NONE ? second : first;
    }
    return launch_grammar_either(b->grammar, first, second);
}

static launch_step build_repeat(builder *b, const launch_node *node, launch_step next)
{
    launch_step begin = next;
    if (node->most < 0) {
        begin = launch_grammar_promise(b->grammar);
        const launch_step body = build_starred(b, node->first, begin);
        launch_grammar_keep(b->grammar, begin, body != NONE ? body : next, next);
    }
    for (int32_t i = node->most; i > 0 && b->grammar->status == BASE_OK; i--) {
        const launch_step one = build(b, node->first, begin);
        if (one == begin) { /* it has no characters */
            return next;
        }
        begin = i > node->least ? launch_grammar_either(b->grammar, one, next) : one;
    }
    for (int32_t i = 0; node->most < 0 && i < node->least && b->grammar->status == BASE_OK; i++) {
        const launch_step one = build(b, node->first, begin);
        if (one == begin) {
            break;
        }
        begin = one;
    }
    return begin;
}

/* The node, and then `next`. */
static launch_step build(builder *b, uint16_t at, launch_step next)
{
    const launch_node *node = &b->pattern->nodes[at];
    if (b->grammar->status != BASE_OK || b->why != NULL) {
        return LAUNCH_GRAMMAR_RETURN;
    }
    switch (node->kind) {
    case LAUNCH_NODE_EMPTY:
        break;
    case LAUNCH_NODE_SET:
        return launch_grammar_call(b->grammar, b->sets[node->set], next);
    case LAUNCH_NODE_SEQUENCE:
        return build(b, node->first, build(b, node->second, next));
    case LAUNCH_NODE_EITHER: {
        const launch_step first = build(b, node->first, next);
        const launch_step second = build(b, node->second, next);
        return first == second ? first : launch_grammar_either(b->grammar, first, second);
    }
    case LAUNCH_NODE_REPEAT:
        return build_repeat(b, node, next);
    case LAUNCH_NODE_BEGIN:
    case LAUNCH_NODE_END:
        b->why = "^ is supported only where the pattern begins, and $ where it ends";
        break;
    }
    return next;
}

/* ---- the text around a match ---- */

/* Any characters, and then `next`. */
static launch_step build_any(builder *b, launch_step next)
{
    const launch_step loop = launch_grammar_promise(b->grammar);
    launch_grammar_keep(b->grammar, loop,
                        launch_grammar_call(b->grammar, launch_grammar_character(b->grammar), loop),
                        next);
    return loop;
}

/* Takes the ^ away with which the node begins, or the $ with which it ends. */
static bool take_anchor(launch_pattern *pattern, uint16_t at, launch_node_kind kind)
{
    while (pattern->nodes[at].kind == LAUNCH_NODE_SEQUENCE) {
        at = kind == LAUNCH_NODE_BEGIN ? pattern->nodes[at].first : pattern->nodes[at].second;
    }
    const bool taken = pattern->nodes[at].kind == kind;
    pattern->nodes[at].kind = taken ? LAUNCH_NODE_EMPTY : pattern->nodes[at].kind;
    return taken;
}

/* A text that has a match of the node. */
static launch_step build_text(builder *b, uint16_t at)
{
    const launch_node *node = &b->pattern->nodes[at];
    if (node->kind == LAUNCH_NODE_EITHER && node->anchored) {
        const launch_step first = build_text(b, node->first);
        return launch_grammar_either(b->grammar, first, build_text(b, node->second));
    }
    const bool begins = take_anchor(b->pattern, at, LAUNCH_NODE_BEGIN);
    const bool ends = take_anchor(b->pattern, at, LAUNCH_NODE_END);
    if (!ends && b->rest == 0) {
        b->rest = build_any(b, b->end);
    }
    const launch_step after = ends ? b->end : b->rest;
    const launch_step match = build(b, at, after);
    return begins || match == b->rest ? match : build_any(b, match);
}

static launch_step build_pattern(builder *b, const launch_text *text)
{
    launch_grammar *grammar = b->grammar;
    b->why = launch_pattern_read(text->pattern, b->pattern);
    for (uint16_t i = 0; i < b->pattern->set_count && b->why == NULL; i++) {
        b->sets[i] = launch_grammar_characters(grammar, &b->pattern->sets[i]);
        b->why = b->sets[i] == NONE ? "a class that has no character" : NULL;
    }
    if (b->why != NULL || grammar->status != BASE_OK) {
        return LAUNCH_GRAMMAR_RETURN;
    }
    (void)launch_grammar_character(grammar);
    b->end = launch_grammar_text(grammar, "\"", LAUNCH_GRAMMAR_RETURN);
    const uint32_t from = grammar->count;
    launch_step begin = build_text(b, b->pattern->root);
    if ((text->least > 0 || text->most >= 0) && b->why == NULL && grammar->status == BASE_OK) {
        begin = launch_grammar_count(grammar, text, from, begin);
        b->why = begin == NONE ? "no text of such a length matches" : NULL;
    }
    return b->why == NULL ? launch_grammar_text(grammar, "\"", begin) : LAUNCH_GRAMMAR_RETURN;
}

launch_step launch_grammar_pattern(launch_grammar *grammar, const launch_text *text,
                                   const char **why)
{
    builder b = {.grammar = grammar, .pattern = malloc(sizeof *b.pattern)};
    launch_step begin = LAUNCH_GRAMMAR_RETURN;
    if (b.pattern == NULL) {
        grammar->status = base_fail(grammar->reterr, BASE_ERR_MEMORY, "no memory for a pattern");
    } else {
        begin = build_pattern(&b, text);
    }
    free(b.pattern);
    *why = b.why;
    return begin;
}
