/* The grammar of strings in steps. Called by schema.c and json_grammar.c. */
#include "serve/string_grammar.h"

#include <string.h>

#include "serve/pattern_grammar.h"

static const char hexadecimal[] = "09afAF";

/* What follows \u: no NUL, and surrogates in pairs only, which some readers demand. */
static launch_step add_code(launch_grammar *grammar, launch_step next)
{
    const launch_step one = launch_grammar_byte(grammar, hexadecimal, next);
    const launch_step two = launch_grammar_byte(grammar, hexadecimal, one);
    const launch_step three = launch_grammar_byte(grammar, hexadecimal, two);
    const launch_step low = launch_grammar_text(
        grammar, "\\u",
        launch_grammar_byte(grammar, "ddDD", launch_grammar_byte(grammar, "cfCF", two)));
    const launch_step of_d = launch_grammar_either(
        grammar, launch_grammar_byte(grammar, "07", two),
        launch_grammar_byte(grammar, "89abAB",
                            launch_grammar_byte(grammar, hexadecimal,
                                                launch_grammar_byte(grammar, hexadecimal, low))));
    const launch_step of_0 = launch_grammar_either(
        grammar, launch_grammar_byte(grammar, "19afAF", two),
        launch_grammar_text(grammar, "0", launch_grammar_byte(grammar, "19afAF", one)));
    return launch_grammar_either(grammar, launch_grammar_byte(grammar, "19acACefEF", three),
                                 launch_grammar_either(grammar,
                                                       launch_grammar_byte(grammar, "ddDD", of_d),
                                                       launch_grammar_text(grammar, "0", of_0)));
}

/* One character, in any of its forms. */
static launch_step add_character(launch_grammar *grammar, launch_step next)
{
    const launch_step escape =
        launch_grammar_either(grammar, launch_grammar_byte(grammar, "\"\"\\\\//bbffnnrrtt", next),
                              launch_grammar_text(grammar, "u", add_code(grammar, next)));
    return launch_grammar_either(
        grammar,
        launch_grammar_add(grammar,
                           (proto_grammar_step){.kind = PROTO_GRAMMAR_PLAIN, .next = next}),
        launch_grammar_text(grammar, "\\", escape));
}

/* Any characters, and the quote. */
static launch_step make_body(launch_grammar *grammar)
{
    if (grammar->string_body == 0) {
        const launch_step body = launch_grammar_promise(grammar);
        const launch_step end = launch_grammar_text(grammar, "\"", LAUNCH_GRAMMAR_RETURN);
        launch_grammar_keep(grammar, body, add_character(grammar, body), end);
        grammar->string_body = body;
    }
    return grammar->string_body;
}

launch_step launch_grammar_string(launch_grammar *grammar, launch_step next)
{
    if (grammar->string == 0) {
        grammar->string = launch_grammar_text(grammar, "\"", make_body(grammar));
    }
    return launch_grammar_call(grammar, grammar->string, next);
}

/* At most so many characters, and the quote. All strings share these steps. */
static launch_step make_up_to(launch_grammar *grammar, uint32_t most)
{
    if (grammar->up_to_count == 0) {
        grammar->up_to[grammar->up_to_count++] =
            launch_grammar_text(grammar, "\"", LAUNCH_GRAMMAR_RETURN);
    }
    for (uint32_t *i = &grammar->up_to_count; *i <= most; (*i)++) {
        grammar->up_to[*i] = launch_grammar_either(
            grammar, launch_grammar_call(grammar, grammar->character, grammar->up_to[*i - 1]),
            grammar->up_to[0]);
    }
    return grammar->up_to[most];
}

launch_step launch_grammar_character(launch_grammar *grammar)
{
    if (grammar->character == 0) {
        grammar->character = add_character(grammar, LAUNCH_GRAMMAR_RETURN);
    }
    return grammar->character;
}

/* A string of some length: its steps are called. */
static launch_step add_length(launch_grammar *grammar, const launch_text *text)
{
    const int64_t more = text->most - text->least;
    (void)launch_grammar_character(grammar);
    if (text->least >= PROTO_GRAMMAR_STEPS_MAX || more >= LAUNCH_STRING_LENGTH_MAX) {
        return launch_grammar_refuse_size(grammar);
    }
    launch_step begin = text->most < 0 ? make_body(grammar) : make_up_to(grammar, (uint32_t)more);
    for (int64_t i = 0; i < text->least; i++) {
        begin = launch_grammar_call(grammar, grammar->character, begin);
    }
    return launch_grammar_text(grammar, "\"", begin);
}

static bool is_same(const launch_text *a, const launch_text *b)
{
    const bool same_pattern = a->pattern == NULL || b->pattern == NULL
                                  ? a->pattern == b->pattern
                                  : strcmp(a->pattern, b->pattern) == 0;
    return same_pattern && a->least == b->least && a->most == b->most;
}

launch_step launch_grammar_string_of(launch_grammar *grammar, const launch_text *text,
                                     launch_step next, const char **why)
{
    uint32_t i = 0;
    launch_step begin = 0;
    *why = NULL;
    while (i < grammar->string_count && !is_same(&grammar->strings[i].text, text)) {
        i++;
    }
    if (i < grammar->string_count) {
        begin = grammar->strings[i].begin;
    } else {
        begin = text->pattern != NULL ? launch_grammar_pattern(grammar, text, why)
                                      : add_length(grammar, text);
    }
    if (i == grammar->string_count && i < LAUNCH_STRINGS_MAX) {
        grammar->strings[grammar->string_count++].text = *text;
        grammar->strings[i].begin = begin;
    }
    return launch_grammar_call(grammar, begin, next);
}
