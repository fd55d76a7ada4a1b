/* The grammar of JSON texts in steps. Called by schema.c. */
#include "serve/json_grammar.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "serve/string_grammar.h"

enum {
    BLANKS_MAX = 20,
    EXPONENT_DIGITS_MAX = 2,
    LITERAL_BYTES_MAX = 1024,
};

static const char digits[] = "09";

launch_step launch_grammar_refuse_size(launch_grammar *grammar)
{
    if (grammar->status == BASE_OK) {
        grammar->status = base_fail(grammar->reterr, BASE_ERR_LIMIT,
                                    "the schema is too large: it needs more than %d steps",
                                    PROTO_GRAMMAR_STEPS_MAX);
    }
    return LAUNCH_GRAMMAR_RETURN;
}

launch_step launch_grammar_add(launch_grammar *grammar, proto_grammar_step step)
{
    if (grammar->count == PROTO_GRAMMAR_STEPS_MAX) {
        return launch_grammar_refuse_size(grammar);
    }
    grammar->steps[grammar->count] = step;
    return (launch_step)grammar->count++;
}

void launch_grammar_init(launch_grammar *grammar, proto_grammar_step *steps, base_error *reterr)
{
    *grammar = (launch_grammar){.steps = steps, .reterr = reterr};
    (void)launch_grammar_promise(grammar);
    (void)launch_grammar_add(grammar, (proto_grammar_step){.kind = PROTO_GRAMMAR_RETURN});
}

launch_step launch_grammar_either(launch_grammar *grammar, launch_step first, launch_step second)
{
    return launch_grammar_add(
        grammar, (proto_grammar_step){PROTO_GRAMMAR_SPLIT, .next = first, .other = second});
}

launch_step launch_grammar_promise(launch_grammar *grammar)
{
    return launch_grammar_either(grammar, 0, 0);
}

void launch_grammar_keep(launch_grammar *grammar, launch_step promised, launch_step first,
                         launch_step second)
{
    grammar->steps[promised].next = first;
    grammar->steps[promised].other = second;
}

launch_step launch_grammar_call(launch_grammar *grammar, launch_step called, launch_step next)
{
    return launch_grammar_add(
        grammar, (proto_grammar_step){PROTO_GRAMMAR_CALL, .next = next, .other = called});
}

launch_step launch_grammar_byte(launch_grammar *grammar, const char *ranges, launch_step next)
{
    launch_step begin = 0;
    for (size_t i = 0; ranges[i] != '\0'; i += 2) {
        const launch_step one =
            launch_grammar_add(grammar, (proto_grammar_step){.kind = PROTO_GRAMMAR_RANGE,
                                                             .low = (uint8_t)ranges[i],
                                                             .high = (uint8_t)ranges[i + 1],
                                                             .next = next});
        begin = i == 0 ? one : launch_grammar_either(grammar, one, begin);
    }
    return begin;
}

/* So many bytes of the ranges at most, and at least one where it must be some. */
static launch_step add_bytes(launch_grammar *grammar, const char *ranges, int most, bool some,
                             launch_step next)
{
    launch_step begin = next;
    for (int i = 0; i < most; i++) {
        const launch_step byte = launch_grammar_byte(grammar, ranges, begin);
        begin = some && i + 1 == most ? byte : launch_grammar_either(grammar, byte, next);
    }
    return begin;
}

launch_step launch_grammar_text(launch_grammar *grammar, const char *text, launch_step next)
{
    for (size_t i = strlen(text); i-- > 0;) {
        const char range[] = {text[i], text[i], '\0'};
        next = launch_grammar_byte(grammar, range, next);
    }
    return next;
}

launch_step launch_grammar_blank(launch_grammar *grammar, launch_step next)
{
    if (grammar->blank == 0) {
        grammar->blank = add_bytes(grammar, "\t\n  ", BLANKS_MAX, false, LAUNCH_GRAMMAR_RETURN);
    }
    return launch_grammar_call(grammar, grammar->blank, next);
}

launch_step launch_grammar_number(launch_grammar *grammar, bool integer, launch_step next)
{
    launch_step *made = integer ? &grammar->integer : &grammar->number;
    if (*made == 0) {
        launch_step end = LAUNCH_GRAMMAR_RETURN;
        if (!integer) {
            const launch_step power = add_bytes(grammar, digits, EXPONENT_DIGITS_MAX, true, end);
            const launch_step signed_power =
                launch_grammar_either(grammar, power, launch_grammar_byte(grammar, "++--", power));
            end = launch_grammar_either(grammar, end,
                                        launch_grammar_byte(grammar, "eeEE", signed_power));
            const launch_step fraction =
                add_bytes(grammar, digits, LAUNCH_NUMBER_DIGITS_MAX, true, end);
            end = launch_grammar_either(grammar, end, launch_grammar_text(grammar, ".", fraction));
        }
        const launch_step rest =
            add_bytes(grammar, digits, LAUNCH_NUMBER_DIGITS_MAX - 1, false, end);
        const launch_step whole =
            launch_grammar_either(grammar, launch_grammar_text(grammar, "0", end),
                                  launch_grammar_byte(grammar, "19", rest));
        *made = launch_grammar_either(grammar, whole, launch_grammar_text(grammar, "-", whole));
    }
    return launch_grammar_call(grammar, *made, next);
}

/* Texts in rising order, of which the first `offset` bytes are the same. */
static launch_step add_texts(launch_grammar *grammar, char **texts, size_t count, size_t offset,
                             launch_step next)
{
    launch_step begin = 0;
    size_t at = 0;
    while (at < count && texts[at][offset] == '\0') { /* a value that is given twice, too */
        begin = next;
        at++;
    }
    while (at < count && grammar->status == BASE_OK) {
        const char byte = texts[at][offset];
        size_t end = at;
        while (end < count && texts[end][offset] == byte) {
            end++;
        }
        const char range[] = {byte, byte, '\0'};
        const launch_step one = launch_grammar_byte(
            grammar, range, add_texts(grammar, texts + at, end - at, offset + 1, next));
        begin = begin == 0 ? one : launch_grammar_either(grammar, one, begin);
        at = end;
    }
    return begin;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

launch_step launch_grammar_one_of(launch_grammar *grammar, const json_t *values, launch_step next)
{
    launch_step begin = LAUNCH_GRAMMAR_RETURN;
    const size_t count = json_array_size(values);
    char **texts = calloc(count, sizeof *texts);
    if (texts == NULL) {
        grammar->status = base_fail(grammar->reterr, BASE_ERR_MEMORY, "no memory for a schema");
        return begin;
    }
    for (size_t i = 0; i < count && grammar->status == BASE_OK; i++) {
        texts[i] = json_dumps(json_array_get(values, i), JSON_ENCODE_ANY | JSON_COMPACT);
        if (texts[i] == NULL || strlen(texts[i]) > LITERAL_BYTES_MAX) {
            grammar->status = base_fail(grammar->reterr, BASE_ERR_LIMIT,
                                        "a value or name of the schema has more than %d bytes",
                                        LITERAL_BYTES_MAX);
        }
    }
    if (grammar->status == BASE_OK) {
        qsort(texts, count, sizeof *texts, compare_texts);
        begin = add_texts(grammar, texts, count, 0, next);
    }
    for (size_t i = 0; i < count; i++) {
        free(texts[i]);
    }
    free(texts);
    return begin;
}

/* Members of an object or a list: `one` leads to `more`, and the text that ends them to the next step. */
static void keep_members(launch_grammar *grammar, launch_step more, launch_step one,
                         launch_step end)
{
    launch_grammar_keep(grammar, more,
                        launch_grammar_text(grammar, ",", launch_grammar_blank(grammar, one)),
                        launch_grammar_blank(grammar, end));
}

launch_step launch_grammar_map(launch_grammar *grammar, launch_step value, launch_step next)
{
    const launch_step end = launch_grammar_text(grammar, "}", next);
    const launch_step more = launch_grammar_promise(grammar);
    const launch_step named = launch_grammar_text(
        grammar, ":", launch_grammar_blank(grammar, launch_grammar_call(grammar, value, more)));
    const launch_step one = launch_grammar_string(grammar, named);
    keep_members(grammar, more, one, end);
    return launch_grammar_text(
        grammar, "{", launch_grammar_blank(grammar, launch_grammar_either(grammar, one, end)));
}

launch_step launch_grammar_list(launch_grammar *grammar, launch_step value, int64_t least,
                                int64_t most, launch_step next)
{
    const launch_step end = launch_grammar_text(grammar, "]", next);
    launch_step one = end; /* the value, and all behind it */
    if (most < 0) {
        const launch_step more = launch_grammar_promise(grammar);
        one = launch_grammar_call(grammar, value, more);
        keep_members(grammar, more, one, end);
    }
    const int64_t counted = most < 0 ? least - 1 : most;
    for (int64_t i = counted; i > 0 && grammar->status == BASE_OK; i--) {
        const launch_step closed = launch_grammar_blank(grammar, end);
        const launch_step more =
            i == most ? closed
                      : launch_grammar_text(grammar, ",", launch_grammar_blank(grammar, one));
        one = launch_grammar_call(
            grammar, value,
            i == most || i < least ? more : launch_grammar_either(grammar, more, closed));
    }
    return launch_grammar_text(
        grammar, "[",
        launch_grammar_blank(
            grammar, least > 0 || most == 0 ? one : launch_grammar_either(grammar, one, end)));
}

launch_step launch_grammar_any(launch_grammar *grammar)
{
    static const char *const words[] = {"true", "false", "null"};
    const launch_step next = LAUNCH_GRAMMAR_RETURN;
    if (grammar->value != 0) {
        return grammar->value;
    }
    const launch_step value = launch_grammar_promise(grammar);
    launch_step begin = launch_grammar_number(grammar, false, next);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        begin = launch_grammar_either(grammar, launch_grammar_text(grammar, words[i], next), begin);
    }
    begin = launch_grammar_either(grammar, launch_grammar_list(grammar, value, 0, -1, next), begin);
    begin = launch_grammar_either(grammar, launch_grammar_map(grammar, value, next), begin);
    launch_grammar_keep(grammar, value, launch_grammar_string(grammar, next), begin);
    grammar->value = value;
    return value;
}
