/* Values as JSON, as Python's json.dumps writes it. Called by the filter tojson. */
#include <stdio.h>

#include "order.h"
#include "write.h"

enum { ESCAPE_BYTES = 16, DELETE = 0x7f, ABOVE_PAIRS = 0x10000 };

typedef struct writing {
    jinja_text *text;
    const jinja_json_form *form;
    size_t level;
} writing;

static size_t escape_of(const writing *to, int32_t point, char escape[ESCAPE_BYTES])
{
    static const struct {
        char what;
        char letter;
    } known[] = {{'"', '"'},  {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'},
                 {'\t', 't'}, {'\b', 'b'},  {'\f', 'f'}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (point == known[i].what) {
            return (size_t)snprintf(escape, ESCAPE_BYTES, "\\%c", known[i].letter);
        }
    }
    if (point >= ' ' && (!to->form->is_ascii || point < DELETE)) {
        return 0;
    }
    if (point >= ABOVE_PAIRS) {
        const uint32_t pair = (uint32_t)point - ABOVE_PAIRS;
        return (size_t)snprintf(escape, ESCAPE_BYTES, "\\u%04x\\u%04x", 0xd800 + (pair >> 10U),
                                0xdc00 + (pair & 0x3ffU));
    }
    return point >= 0 ? (size_t)snprintf(escape, ESCAPE_BYTES, "\\u%04x", (unsigned)point) : 0;
}

static void put_string(writing *to, const jinja_string *string)
{
    int32_t point = 0;
    jinja_text_put_name(to->text, "\"");
    for (size_t at = 0; at < string->bytes;) {
        char escape[ESCAPE_BYTES];
        const size_t bytes = jinja_point_at(string, at, &point);
        const size_t escape_bytes = escape_of(to, point, escape);
        jinja_text_put_bytes(to->text, escape_bytes > 0 ? escape : string->at + at,
                             escape_bytes > 0 ? escape_bytes : bytes, jinja_origin_at(string, at));
        at += bytes;
    }
    jinja_text_put_name(to->text, "\"");
    jinja_step_bytes(to->text->work, string->bytes);
}

static void put_line(writing *to)
{
    if (to->form->indent == NULL) {
        return;
    }
    jinja_text_put_name(to->text, "\n");
    for (size_t i = 0; i < to->level; i++) {
        jinja_text_put(to->text, to->form->indent);
    }
}

static void put_value(writing *to, jinja_value value);

static void put_list(writing *to, const jinja_list *list)
{
    if (list->form > JINJA_FORM_TUPLE) {
        jinja_fail(to->text->work, BASE_ERR_INVALID, "a %s has no form in JSON",
                   jinja_type_name((jinja_value){.kind = JINJA_LIST, .list = (jinja_list *)list}));
    }
    jinja_text_put_name(to->text, "[");
    to->level++;
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0) {
            jinja_text_put(to->text, to->form->comma);
        }
        put_line(to);
        put_value(to, list->at[i]);
    }
    to->level--;
    if (list->count > 0) {
        put_line(to);
    }
    jinja_text_put_name(to->text, "]");
}

static void put_key(writing *to, jinja_value key)
{
    if (key.kind == JINJA_STRING) {
        put_string(to, key.string);
        return;
    }
    if (!jinja_is_number(key) && key.kind != JINJA_NONE) {
        jinja_fail(to->text->work, BASE_ERR_INVALID, "a %s cannot be a key in JSON",
                   jinja_type_name(key));
    }
    jinja_text_put_name(to->text, "\"");
    put_value(to, key);
    jinja_text_put_name(to->text, "\"");
}

static void put_dict(writing *to, const jinja_dict *dict)
{
    const jinja_pair *pairs = to->form->sorts ? jinja_sort_pairs(to->text->work, dict) : dict->at;
    jinja_text_put_name(to->text, "{");
    to->level++;
    for (size_t i = 0; i < dict->count; i++) {
        if (i > 0) {
            jinja_text_put(to->text, to->form->comma);
        }
        put_line(to);
        put_key(to, pairs[i].key);
        jinja_text_put(to->text, to->form->colon);
        put_value(to, pairs[i].value);
    }
    to->level--;
    if (dict->count > 0) {
        put_line(to);
    }
    jinja_text_put_name(to->text, "}");
}

static void put_value(writing *to, jinja_value value)
{
    jinja_enter(to->text->work);
    if (value.kind == JINJA_STRING) {
        put_string(to, value.string);
    } else if (jinja_is_number(value)) {
        jinja_write_number(to->text, value, true);
    } else if (value.kind == JINJA_NONE) {
        jinja_text_put_name(to->text, "null");
    } else if (value.kind == JINJA_LIST) {
        put_list(to, value.list);
    } else if (value.kind == JINJA_DICT) {
        put_dict(to, value.dict);
    } else {
        jinja_need_defined(to->text->work, value);
        jinja_fail(to->text->work, BASE_ERR_INVALID, "a %s has no form in JSON",
                   jinja_type_name(value));
    }
    jinja_leave(to->text->work);
}

void jinja_write_json(jinja_text *text, jinja_value value, const jinja_json_form *form)
{
    writing to = {.text = text, .form = form};
    put_value(&to, value);
}
