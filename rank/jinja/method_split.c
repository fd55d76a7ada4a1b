/* Methods of strings that cut them into lists, and join. Found by calls.c. */
#include "lines.h"
#include "row_tables.h"
#include "run.h"

/* Turns a list that was made from the end. */
static void turn(jinja_parts *parts)
{
    for (size_t i = 0; i < parts->count / 2; i++) {
        const jinja_value first = parts->at[i];
        parts->at[i] = parts->at[parts->count - 1 - i];
        parts->at[parts->count - 1 - i] = first;
    }
}

/* The byte behind the blanks from `at` on; or, if `blank` is false, behind what is no blank. */
static size_t behind(const jinja_string *string, size_t at, bool blank)
{
    int32_t point = 0;
    while (at < string->bytes) {
        const size_t bytes = jinja_point_at(string, at, &point);
        if (jinja_is_blank(point) != blank) {
            break;
        }
        at += bytes;
    }
    return at;
}

/* Words between blanks; what is left behind `most` cuts is one part, without blanks at its begin. */
static void split_words(jinja_work *work, const jinja_string *string, int64_t most,
                        jinja_parts *parts)
{
    jinja_step_bytes(work, string->bytes);
    for (size_t at = behind(string, 0, true); at < string->bytes;) {
        if (most-- == 0) {
            jinja_parts_add(work, parts, jinja_cut(string, at, string->bytes));
            return;
        }
        const size_t end = behind(string, at, false);
        jinja_parts_add(work, parts, jinja_cut(string, at, end));
        at = behind(string, end, true);
    }
}

/* The same from the end on. */
static void split_words_back(jinja_work *work, const jinja_string *string, int64_t most,
                             jinja_parts *parts)
{
    jinja_string left = jinja_strip(work, string, NULL, JINJA_ENDS_RIGHT);
    jinja_parts words = {.count = 0};
    split_words(work, &left, -1, &words);
    while (words.count > 0 && most-- != 0) {
        const jinja_string *word = words.at[--words.count].string;
        jinja_parts_add(work, parts, *word);
        left = jinja_cut(&left, 0, (size_t)(word->at - left.at));
    }
    left = jinja_strip(work, &left, NULL, JINJA_ENDS_RIGHT);
    if (words.count > 0) {
        jinja_parts_add(work, parts, left);
    }
    turn(parts);
}

static void split_at(jinja_work *work, const jinja_string *string, const jinja_string *mark,
                     int64_t most, jinja_parts *parts)
{
    size_t begin = 0;
    while (most-- != 0) {
        const size_t at = jinja_find(work, string, mark, begin);
        if (at == SIZE_MAX) {
            break;
        }
        jinja_parts_add(work, parts, jinja_cut(string, begin, at));
        begin = at + mark->bytes;
    }
    jinja_parts_add(work, parts, jinja_cut(string, begin, string->bytes));
}

/* Where the part is last, before the byte `end`; SIZE_MAX: nowhere. */
static size_t find_back(jinja_work *work, const jinja_string *whole, const jinja_string *part,
                        size_t end)
{
    const size_t from = end;
    while (end >= part->bytes) {
        const size_t at = end - part->bytes;
        const jinja_string there = jinja_cut(whole, at, end);
        if (jinja_string_equal(&there, part)) {
            jinja_step(work, from - end);
            return at;
        }
        end--;
    }
    jinja_step(work, from - end);
    return SIZE_MAX;
}

static void split_at_back(jinja_work *work, const jinja_string *string, const jinja_string *mark,
                          int64_t most, jinja_parts *parts)
{
    size_t end = string->bytes;
    while (most-- != 0) {
        const size_t at = find_back(work, string, mark, end);
        if (at == SIZE_MAX) {
            break;
        }
        jinja_parts_add(work, parts, jinja_cut(string, at + mark->bytes, end));
        end = at;
    }
    jinja_parts_add(work, parts, jinja_cut(string, 0, end));
    turn(parts);
}

enum { FROM_BEGIN, FROM_END };

static jinja_value method_split(jinja_run *run, const jinja_call *call)
{
    const bool back = call->how == FROM_END;
    const jinja_string *string = call->subject.string;
    const jinja_value mark = call->slots[0];
    jinja_parts parts = {.count = 0};
    int64_t most = jinja_is_given(call->slots[1]) ? jinja_as_int(run->work, call->slots[1]) : -1;
    most = most < 0 ? -1 : most;
    if (!jinja_is_given(mark) || mark.kind == JINJA_NONE) {
        (back ? split_words_back : split_words)(run->work, string, most, &parts);
    } else if (mark.kind != JINJA_STRING || mark.string->bytes == 0) {
        jinja_need_defined(run->work, mark);
        jinja_fail(run->work, BASE_ERR_INVALID, "split takes a string that is not empty");
    } else {
        (back ? split_at_back : split_at)(run->work, string, mark.string, most, &parts);
    }
    return jinja_list_of(run->work, parts.at, parts.count, JINJA_FORM_LIST);
}

static jinja_value method_splitlines(jinja_run *run, const jinja_call *call)
{
    size_t count = 0;
    jinja_value *lines =
        jinja_lines_of(run->work, call->subject.string, jinja_is_true(call->slots[0]), &count);
    return jinja_list_of(run->work, lines, count, JINJA_FORM_LIST);
}

static jinja_value method_join(jinja_run *run, const jinja_call *call)
{
    const jinja_list *items = jinja_items_of(run->work, call->slots[0]);
    jinja_text text = {.work = run->work};
    for (size_t i = 0; i < items->count; i++) {
        if (items->at[i].kind != JINJA_STRING) {
            jinja_need_defined(run->work, items->at[i]);
            jinja_fail(run->work, BASE_ERR_INVALID, "join of a %s", jinja_type_name(items->at[i]));
        }
        if (i > 0) {
            jinja_text_put(&text, call->subject.string);
        }
        jinja_text_put(&text, items->at[i].string);
        jinja_step(run->work, 1);
    }
    return jinja_text_end(&text);
}

const jinja_row jinja_split_methods[] = {
    {.name = "split", .function = method_split, .how = FROM_BEGIN, .params = {"sep", "maxsplit"}},
    {.name = "rsplit", .function = method_split, .how = FROM_END, .params = {"sep", "maxsplit"}},
    {.name = "splitlines", .function = method_splitlines, .params = {"keepends"}},
    {.name = "join", .function = method_join, .params = {"iterable"}, .needed = 1},
    {.name = NULL},
};
