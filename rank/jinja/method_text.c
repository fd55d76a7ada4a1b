/* Methods of strings that make one string, or say something of it. Found by calls.c. */

#include <utf8proc.h>

#include "row_tables.h"
#include "run.h"

static const jinja_string *need_string(jinja_run *run, jinja_value value)
{
    if (value.kind != JINJA_STRING) {
        jinja_need_defined(run->work, value);
        jinja_fail(run->work, BASE_ERR_INVALID, "a %s where a str is needed",
                   jinja_type_name(value));
    }
    return value.string;
}

static jinja_value method_strip(jinja_run *run, const jinja_call *call)
{
    const jinja_value given = call->slots[0];
    const bool blanks = !jinja_is_given(given) || given.kind == JINJA_NONE;
    return jinja_string_value(run->work, jinja_strip(run->work, call->subject.string,
                                                     blanks ? NULL : need_string(run, given),
                                                     (jinja_ends)call->how));
}

static jinja_value method_letters(jinja_run *run, const jinja_call *call)
{
    return jinja_set_letters(run->work, call->subject.string, (jinja_letters)call->how);
}

static jinja_value method_replace(jinja_run *run, const jinja_call *call)
{
    return jinja_replace(run->work, call->subject.string, need_string(run, call->slots[0]),
                         need_string(run, call->slots[1]),
                         jinja_is_given(call->slots[2]) ? jinja_as_int(run->work, call->slots[2])
                                                        : -1);
}

/* Which end of a string. */
enum { BEGIN, END };

static bool has_end(const jinja_string *string, const jinja_string *part, int which)
{
    if (part->bytes > string->bytes) {
        return false;
    }
    const size_t begin = which == BEGIN ? 0 : string->bytes - part->bytes;
    const jinja_string end = jinja_cut(string, begin, begin + part->bytes);
    return jinja_string_equal(&end, part);
}

/* The place that a slot says, in characters of a string that has `count`; below 0: from its end on. */
static int64_t place_of(jinja_run *run, jinja_value slot, int64_t count, int64_t otherwise)
{
    if (!jinja_is_given(slot) || slot.kind == JINJA_NONE) {
        return otherwise;
    }
    const int64_t place = jinja_as_int(run->work, slot);
    return place >= 0 ? place : place < -count ? 0 : place + count;
}

/* The part of the string between the places that are in slots 1 and 2, and the bytes before it. False: it begins
 * behind its end, or that of the string, where nothing is, not even the empty string. */
static bool between(jinja_run *run, const jinja_call *call, jinja_string *part, size_t *before)
{
    const jinja_string *whole = call->subject.string;
    *part = *whole;
    *before = 0;
    if (!jinja_is_given(call->slots[1])) {
        return true;
    }
    const int64_t count = (int64_t)jinja_point_count(run->work, whole);
    const int64_t begin = place_of(run, call->slots[1], count, 0);
    const int64_t wanted = place_of(run, call->slots[2], count, count);
    const int64_t end = wanted < count ? wanted : count;
    if (begin > end) {
        return false;
    }
    *before = jinja_point_offset(run->work, whole, (size_t)begin);
    *part = jinja_cut(whole, *before, jinja_point_offset(run->work, whole, (size_t)end));
    return true;
}

/* A string, or one of a tuple's. */
static jinja_value method_has_end(jinja_run *run, const jinja_call *call)
{
    const jinja_value part = call->slots[0];
    jinja_string string;
    size_t before = 0;
    const bool is_there = between(run, call, &string, &before);
    if (part.kind != JINJA_LIST || part.list->form != JINJA_FORM_TUPLE) {
        const jinja_string *one = need_string(run, part);
        return jinja_bool(is_there && has_end(&string, one, call->how));
    }
    for (size_t i = 0; i < part.list->count; i++) {
        const jinja_string *one = need_string(run, part.list->at[i]);
        if (is_there && has_end(&string, one, call->how)) {
            return jinja_bool(true);
        }
    }
    return jinja_bool(false);
}

static jinja_value method_remove_end(jinja_run *run, const jinja_call *call)
{
    const jinja_string *string = call->subject.string;
    const jinja_string *part = need_string(run, call->slots[0]);
    if (!has_end(string, part, call->how)) {
        return call->subject;
    }
    return jinja_string_value(run->work, call->how == BEGIN
                                             ? jinja_cut(string, part->bytes, string->bytes)
                                             : jinja_cut(string, 0, string->bytes - part->bytes));
}

/* The place of a byte, in characters. */
static jinja_value place_at(jinja_run *run, const jinja_string *string, size_t at)
{
    const jinja_string before = jinja_cut(string, 0, at);
    return jinja_int((int64_t)jinja_point_count(run->work, &before));
}

/* The first place, or the last. */
static jinja_value method_find(jinja_run *run, const jinja_call *call)
{
    const jinja_string *part = need_string(run, call->slots[0]);
    jinja_string string;
    size_t before = 0;
    size_t found = SIZE_MAX;
    const bool is_there = between(run, call, &string, &before);
    for (size_t at = is_there ? jinja_find(run->work, &string, part, 0) : SIZE_MAX; at != SIZE_MAX;
         at = call->how == END ? jinja_find(run->work, &string, part, at + 1) : SIZE_MAX) {
        jinja_step(run->work, 1);
        found = at;
    }
    return found == SIZE_MAX ? jinja_int(-1) : place_at(run, call->subject.string, before + found);
}

static jinja_value method_count(jinja_run *run, const jinja_call *call)
{
    const jinja_string *string = call->subject.string;
    const jinja_string *part = need_string(run, call->slots[0]);
    int64_t count = 0;
    if (part->bytes == 0) {
        return jinja_int((int64_t)jinja_point_count(run->work, string) + 1);
    }
    for (size_t at = jinja_find(run->work, string, part, 0); at != SIZE_MAX;
         at = jinja_find(run->work, string, part, at + part->bytes)) {
        jinja_step(run->work, 1);
        count++;
    }
    return jinja_int(count);
}

/* ---- of which kind all characters are ---- */

enum { SPACE = 1, LETTER = 2, DIGIT = 4, NUMBER = 8 };

static int kind_of(int32_t point)
{
    const utf8proc_category_t category = utf8proc_category(point);
    return jinja_is_blank(point)                                                  ? SPACE
           : category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO ? LETTER
           : category == UTF8PROC_CATEGORY_ND                                     ? DIGIT
           : category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO ? NUMBER
                                                                                  : 0;
}

static jinja_value method_all_are(jinja_run *run, const jinja_call *call)
{
    const jinja_string *string = call->subject.string;
    int32_t point = 0;
    jinja_step_bytes(run->work, string->bytes);
    for (size_t at = 0; at < string->bytes;) {
        at += jinja_point_at(string, at, &point);
        if (call->how == DIGIT && utf8proc_category(point) == UTF8PROC_CATEGORY_NO) {
            jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "isdigit of U+%04X is not known here",
                       (unsigned)point);
        }
        if ((kind_of(point) & call->how) == 0) {
            return jinja_bool(false);
        }
    }
    return jinja_bool(string->bytes > 0);
}

const jinja_row jinja_string_methods[] = {
    {.name = "strip", .function = method_strip, .how = JINJA_ENDS_BOTH, .params = {"chars"}},
    {.name = "lstrip", .function = method_strip, .how = JINJA_ENDS_LEFT, .params = {"chars"}},
    {.name = "rstrip", .function = method_strip, .how = JINJA_ENDS_RIGHT, .params = {"chars"}},
    {.name = "upper", .function = method_letters, .how = JINJA_UPPER},
    {.name = "lower", .function = method_letters, .how = JINJA_LOWER},
    {.name = "capitalize", .function = method_letters, .how = JINJA_CAPITALIZE},
    {.name = "title", .function = method_letters, .how = JINJA_TITLE},
    {.name = "replace", .function = method_replace, .params = {"old", "new", "count"}, .needed = 2},
    {.name = "startswith",
     .function = method_has_end,
     .how = BEGIN,
     .params = {"prefix", "start", "end"},
     .needed = 1},
    {.name = "endswith",
     .function = method_has_end,
     .how = END,
     .params = {"suffix", "start", "end"},
     .needed = 1},
    {.name = "removeprefix",
     .function = method_remove_end,
     .how = BEGIN,
     .params = {"prefix"},
     .needed = 1},
    {.name = "removesuffix",
     .function = method_remove_end,
     .how = END,
     .params = {"suffix"},
     .needed = 1},
    {.name = "find",
     .function = method_find,
     .how = BEGIN,
     .params = {"sub", "start", "end"},
     .needed = 1},
    {.name = "rfind",
     .function = method_find,
     .how = END,
     .params = {"sub", "start", "end"},
     .needed = 1},
    {.name = "count", .function = method_count, .params = {"sub"}, .needed = 1},
    {.name = "isspace", .function = method_all_are, .how = SPACE},
    {.name = "isalpha", .function = method_all_are, .how = LETTER},
    {.name = "isdigit", .function = method_all_are, .how = DIGIT},
    {.name = "isalnum", .function = method_all_are, .how = LETTER | DIGIT | NUMBER},
    {.name = NULL},
};
