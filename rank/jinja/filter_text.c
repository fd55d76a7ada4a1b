/* Filters of text. Found by calls.c. */
#include <string.h>

#include "lines.h"
#include "row_tables.h"
#include "run.h"
#include "write.h"

static const jinja_string *subject_of(jinja_run *run, const jinja_call *call)
{
    return jinja_to_string(run->work, call->subject);
}

static jinja_value filter_trim(jinja_run *run, const jinja_call *call)
{
    const jinja_value given = call->slots[0];
    const bool blanks = !jinja_is_given(given) || given.kind == JINJA_NONE;
    if (!blanks && given.kind != JINJA_STRING) {
        jinja_fail(run->work, BASE_ERR_INVALID, "trim takes off a str, not a %s",
                   jinja_type_name(given));
    }
    const jinja_string *characters = blanks ? NULL : given.string;
    return jinja_string_value(
        run->work, jinja_strip(run->work, subject_of(run, call), characters, JINJA_ENDS_BOTH));
}

static jinja_value filter_letters(jinja_run *run, const jinja_call *call)
{
    return jinja_set_letters(run->work, subject_of(run, call), (jinja_letters)call->how);
}

static jinja_value filter_replace(jinja_run *run, const jinja_call *call)
{
    const jinja_value count = call->slots[2];
    const bool all = !jinja_is_given(count) || count.kind == JINJA_NONE;
    return jinja_replace(
        run->work, subject_of(run, call), jinja_to_string(run->work, call->slots[0]),
        jinja_to_string(run->work, call->slots[1]), all ? -1 : jinja_as_int(run->work, count));
}

static jinja_value filter_string(jinja_run *run, const jinja_call *call)
{
    return (jinja_value){.kind = JINJA_STRING, .string = subject_of(run, call)};
}

static jinja_value markup_of(jinja_run *run, const jinja_string *string)
{
    jinja_string markup = *string;
    markup.is_markup = true;
    return jinja_string_value(run->work, markup);
}

static jinja_value filter_safe(jinja_run *run, const jinja_call *call)
{
    return markup_of(run, subject_of(run, call));
}

static jinja_value filter_escape(jinja_run *run, const jinja_call *call)
{
    static const char what[] = "&<>'\"";
    static const char *const written[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const jinja_string *string = subject_of(run, call);
    jinja_text text = {.work = run->work};
    if (string->is_markup) {
        return call->subject;
    }
    for (size_t i = 0; i < string->bytes; i++) {
        const char *found = memchr(what, string->at[i], sizeof what - 1);
        const uint32_t origin = jinja_origin_at(string, i);
        if (found != NULL) {
            jinja_text_put_bytes(&text, written[found - what], strlen(written[found - what]),
                                 origin);
        } else {
            jinja_text_put_bytes(&text, &string->at[i], 1, origin);
        }
    }
    jinja_step_bytes(run->work, string->bytes);
    return markup_of(run, jinja_text_end(&text).string);
}

/* What a width or an indent means: a string, or so many spaces. */
static jinja_string spaces_of(jinja_run *run, jinja_value given)
{
    if (given.kind == JINJA_STRING) {
        return *given.string;
    }
    const int64_t width = jinja_as_int(run->work, given);
    jinja_text text = {.work = run->work};
    for (int64_t i = 0; i < width; i++) {
        jinja_text_put_bytes(&text, " ", 1, 0);
        jinja_step(run->work, 1);
    }
    return *jinja_text_end(&text).string;
}

static jinja_value filter_indent(jinja_run *run, const jinja_call *call)
{
    const jinja_string indent =
        spaces_of(run, jinja_is_given(call->slots[0]) ? call->slots[0] : jinja_int(4));
    const bool blank = jinja_is_true(call->slots[2]);
    if (call->subject.kind != JINJA_STRING) {
        jinja_need_defined(run->work, call->subject);
        jinja_fail(run->work, BASE_ERR_INVALID, "indent of a %s", jinja_type_name(call->subject));
    }
    jinja_text source = {.work = run->work};
    jinja_text text = {.work = run->work};
    size_t count = 0;
    jinja_text_put(&source, call->subject.string);
    jinja_text_put_name(&source, "\n");
    const jinja_value *lines =
        jinja_lines_of(run->work, jinja_text_end(&source).string, false, &count);
    if (jinja_is_true(call->slots[1])) {
        jinja_text_put(&text, &indent);
    }
    for (size_t i = 0; i < count; i++) {
        jinja_text_put_name(&text, i > 0 ? "\n" : "");
        if (i > 0 && (blank || lines[i].string->bytes > 0)) {
            jinja_text_put(&text, &indent);
        }
        jinja_text_put(&text, lines[i].string);
    }
    return jinja_text_end(&text);
}

/* separators=(",", ":"); a default where there are none. */
static void take_separators(jinja_run *run, jinja_value given, jinja_json_form *form)
{
    static const jinja_string comma = {.at = ",", .bytes = 1};
    static const jinja_string comma_space = {.at = ", ", .bytes = 2};
    static const jinja_string colon = {.at = ": ", .bytes = 2};
    form->comma = form->indent != NULL ? &comma : &comma_space;
    form->colon = &colon;
    if (!jinja_is_given(given) || given.kind == JINJA_NONE) {
        return;
    }
    const jinja_list *items = jinja_items_of(run->work, given);
    if (items->count != 2 || items->at[0].kind != JINJA_STRING ||
        items->at[1].kind != JINJA_STRING) {
        jinja_fail(run->work, BASE_ERR_INVALID, "tojson takes two strings as its separators");
    }
    form->comma = items->at[0].string;
    form->colon = items->at[1].string;
}

static jinja_value filter_tojson(jinja_run *run, const jinja_call *call)
{
    jinja_text text = {.work = run->work};
    jinja_json_form form = {.is_ascii = jinja_is_true(call->slots[0]),
                            .sorts = jinja_is_true(call->slots[3])};
    jinja_string indent = {.at = ""};
    if (jinja_is_given(call->slots[1]) && call->slots[1].kind != JINJA_NONE) {
        indent = spaces_of(run, call->slots[1]);
        form.indent = &indent;
    }
    take_separators(run, call->slots[2], &form);
    jinja_write_json(&text, call->subject, &form);
    return jinja_text_end(&text);
}

const jinja_row jinja_text_filters[] = {
    {.name = "trim", .function = filter_trim, .params = {"chars"}},
    {.name = "upper", .function = filter_letters, .how = JINJA_UPPER},
    {.name = "lower", .function = filter_letters, .how = JINJA_LOWER},
    {.name = "capitalize", .function = filter_letters, .how = JINJA_CAPITALIZE},
    {.name = "title", .function = filter_letters, .how = JINJA_TITLE_WORDS},
    {.name = "replace", .function = filter_replace, .params = {"old", "new", "count"}, .needed = 2},
    {.name = "string", .function = filter_string},
    {.name = "safe", .function = filter_safe},
    {.name = "escape", .function = filter_escape},
    {.name = "e", .function = filter_escape},
    {.name = "indent", .function = filter_indent, .params = {"width", "first", "blank"}},
    {.name = "tojson",
     .function = filter_tojson,
     .params = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = NULL},
};
