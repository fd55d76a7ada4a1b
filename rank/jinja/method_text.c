/* Methods of strings that make one string, or say something of it. Found by calls.c. */
#include <string.h>

#include <utf8proc.h>

#include "row_tables.h"
#include "run.h"
#include "write.h"

static const jinja_string *need_string(jinja_run *run, jinja_value value)
{
    if (value.kind != JINJA_STRING) {
        jinja_need_defined(run->work, value);
        jinja_fail(run->work, BASE_ERR_INVALID, "a %s where a str is needed",
                   jinja_type_name(value));
    }
    return value.string;
}

static jinja_value strip(jinja_run *run, const jinja_call *call, jinja_ends ends)
{
    const jinja_value given = call->slots[0];
    const bool blanks = !jinja_is_given(given) || given.kind == JINJA_NONE;
    return jinja_string_value(run->work,
                              jinja_strip(run->work, call->subject.string,
                                          blanks ? NULL : need_string(run, given), ends));
}

static jinja_value method_strip(jinja_run *run, const jinja_call *call)
{
    return strip(run, call, JINJA_ENDS_BOTH);
}

static jinja_value method_lstrip(jinja_run *run, const jinja_call *call)
{
    return strip(run, call, JINJA_ENDS_LEFT);
}

static jinja_value method_rstrip(jinja_run *run, const jinja_call *call)
{
    return strip(run, call, JINJA_ENDS_RIGHT);
}

static jinja_value method_upper(jinja_run *run, const jinja_call *call)
{
    return jinja_set_letters(run->work, call->subject.string, JINJA_UPPER);
}

static jinja_value method_lower(jinja_run *run, const jinja_call *call)
{
    return jinja_set_letters(run->work, call->subject.string, JINJA_LOWER);
}

static jinja_value method_capitalize(jinja_run *run, const jinja_call *call)
{
    return jinja_set_letters(run->work, call->subject.string, JINJA_CAPITALIZE);
}

static jinja_value method_title(jinja_run *run, const jinja_call *call)
{
    return jinja_set_letters(run->work, call->subject.string, JINJA_TITLE);
}

static jinja_value method_replace(jinja_run *run, const jinja_call *call)
{
    return jinja_replace(run->work, call->subject.string, need_string(run, call->slots[0]),
                         need_string(run, call->slots[1]),
                         jinja_is_given(call->slots[2]) ? jinja_as_int(run->work, call->slots[2])
                                                        : -1);
}

static bool has_end(const jinja_string *string, const jinja_string *part, bool at_begin)
{
    if (part->bytes > string->bytes) {
        return false;
    }
    const size_t begin = at_begin ? 0 : string->bytes - part->bytes;
    const jinja_string end = jinja_cut(string, begin, begin + part->bytes);
    return jinja_string_equal(&end, part);
}

/* A string, or one of a tuple's. */
static jinja_value has_one_end(jinja_run *run, const jinja_call *call, bool at_begin)
{
    const jinja_value part = call->slots[0];
    if (part.kind != JINJA_LIST || part.list->form != JINJA_FORM_TUPLE) {
        return jinja_bool(has_end(call->subject.string, need_string(run, part), at_begin));
    }
    for (size_t i = 0; i < part.list->count; i++) {
        if (has_end(call->subject.string, need_string(run, part.list->at[i]), at_begin)) {
            return jinja_bool(true);
        }
    }
    return jinja_bool(false);
}

static jinja_value method_startswith(jinja_run *run, const jinja_call *call)
{
    return has_one_end(run, call, true);
}

static jinja_value method_endswith(jinja_run *run, const jinja_call *call)
{
    return has_one_end(run, call, false);
}

static jinja_value remove_end(jinja_run *run, const jinja_call *call, bool at_begin)
{
    const jinja_string *string = call->subject.string;
    const jinja_string *part = need_string(run, call->slots[0]);
    if (!has_end(string, part, at_begin)) {
        return call->subject;
    }
    return jinja_string_value(run->work, at_begin
                                             ? jinja_cut(string, part->bytes, string->bytes)
                                             : jinja_cut(string, 0, string->bytes - part->bytes));
}

static jinja_value method_removeprefix(jinja_run *run, const jinja_call *call)
{
    return remove_end(run, call, true);
}

static jinja_value method_removesuffix(jinja_run *run, const jinja_call *call)
{
    return remove_end(run, call, false);
}

/* The place of a byte, in characters. */
static jinja_value place_at(jinja_run *run, const jinja_string *string, size_t at)
{
    const jinja_string before = jinja_cut(string, 0, at);
    return jinja_int((int64_t)jinja_point_count(run->work, &before));
}

static jinja_value method_find(jinja_run *run, const jinja_call *call)
{
    const jinja_string *part = need_string(run, call->slots[0]);
    const size_t at = jinja_find(run->work, call->subject.string, part, 0);
    return at == SIZE_MAX ? jinja_int(-1) : place_at(run, call->subject.string, at);
}

static jinja_value method_rfind(jinja_run *run, const jinja_call *call)
{
    const jinja_string *string = call->subject.string;
    const jinja_string *part = need_string(run, call->slots[0]);
    size_t last = SIZE_MAX;
    for (size_t at = jinja_find(run->work, string, part, 0); at != SIZE_MAX;
         at = jinja_find(run->work, string, part, at + 1)) {
        jinja_step(run->work, 1);
        last = at;
    }
    return last == SIZE_MAX ? jinja_int(-1) : place_at(run, string, last);
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

static bool is_space(int32_t point)
{
    return jinja_is_blank(point);
}

static bool is_letter(int32_t point)
{
    const utf8proc_category_t category = utf8proc_category(point);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static bool is_digit(int32_t point)
{
    return utf8proc_category(point) == UTF8PROC_CATEGORY_ND;
}

static bool is_letter_or_digit(int32_t point)
{
    return is_letter(point) || is_digit(point);
}

static jinja_value all_are(jinja_run *run, const jinja_call *call, bool is(int32_t point))
{
    const jinja_string *string = call->subject.string;
    int32_t point = 0;
    jinja_step_bytes(run->work, string->bytes);
    for (size_t at = 0; at < string->bytes;) {
        at += jinja_point_at(string, at, &point);
        if (!is(point)) {
            return jinja_bool(false);
        }
    }
    return jinja_bool(string->bytes > 0);
}

static jinja_value method_isspace(jinja_run *run, const jinja_call *call)
{
    return all_are(run, call, is_space);
}

static jinja_value method_isalpha(jinja_run *run, const jinja_call *call)
{
    return all_are(run, call, is_letter);
}

static jinja_value method_isdigit(jinja_run *run, const jinja_call *call)
{
    return all_are(run, call, is_digit);
}

static jinja_value method_isalnum(jinja_run *run, const jinja_call *call)
{
    return all_are(run, call, is_letter_or_digit);
}

const jinja_row jinja_string_methods[] = {
    {.name = "strip", .function = method_strip, .params = {"chars"}},
    {.name = "lstrip", .function = method_lstrip, .params = {"chars"}},
    {.name = "rstrip", .function = method_rstrip, .params = {"chars"}},
    {.name = "upper", .function = method_upper},
    {.name = "lower", .function = method_lower},
    {.name = "capitalize", .function = method_capitalize},
    {.name = "title", .function = method_title},
    {.name = "replace", .function = method_replace, .params = {"old", "new", "count"}, .needed = 2},
    {.name = "startswith", .function = method_startswith, .params = {"prefix"}, .needed = 1},
    {.name = "endswith", .function = method_endswith, .params = {"suffix"}, .needed = 1},
    {.name = "removeprefix", .function = method_removeprefix, .params = {"prefix"}, .needed = 1},
    {.name = "removesuffix", .function = method_removesuffix, .params = {"suffix"}, .needed = 1},
    {.name = "find", .function = method_find, .params = {"sub"}, .needed = 1},
    {.name = "rfind", .function = method_rfind, .params = {"sub"}, .needed = 1},
    {.name = "count", .function = method_count, .params = {"sub"}, .needed = 1},
    {.name = "isspace", .function = method_isspace},
    {.name = "isalpha", .function = method_isalpha},
    {.name = "isdigit", .function = method_isdigit},
    {.name = "isalnum", .function = method_isalnum},
    {.name = NULL},
};
