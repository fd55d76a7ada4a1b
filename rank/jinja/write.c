/* Values as the text that a template writes. Called by output, filters and operators. */
#include "write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <utf8proc.h>

#include "limits.h"
#include "real.h"

enum { NUMBER_BYTES = 48 };

void jinja_write_number(jinja_text *text, jinja_value value, bool json)
{
    char number[NUMBER_BYTES];
    if (value.kind == JINJA_BOOL) {
        static const char *const words[][2] = {{"False", "True"}, {"false", "true"}};
        jinja_text_put_name(text, words[json][value.flag]);
        return;
    }
    if (value.kind == JINJA_INT) {
        (void)snprintf(number, sizeof number, "%" PRId64, value.integer);
    } else {
        jinja_step(text->work, RANK_JINJA_REAL_STEPS);
        jinja_real_text(number, sizeof number, value.real, json);
    }
    jinja_text_put_name(text, number);
}

static bool is_printable(int32_t point)
{
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return point == ' ';
    default:
        return true;
    }
}

/* How repr() and JSON write this character; "": as it is. */
static const char *short_escape(int32_t point)
{
    return point == '\\'   ? "\\\\"
           : point == '\n' ? "\\n"
           : point == '\r' ? "\\r"
           : point == '\t' ? "\\t"
                           : "";
}

static void put_quoted(jinja_text *text, const jinja_string *string)
{
    const bool single = string->bytes > 0 && memchr(string->at, '\'', string->bytes) != NULL;
    const bool pair = string->bytes > 0 && memchr(string->at, '"', string->bytes) != NULL;
    const char *quote = single && !pair ? "\"" : "'";
    int32_t point = 0;
    if (string->is_markup) {
        jinja_fail(text->work, BASE_ERR_UNSUPPORTED,
                   "a str that is safe or escaped is not written within a list or a dict here");
    }
    jinja_text_put_name(text, quote);
    for (size_t at = 0; at < string->bytes;) {
        char escape[16];
        const size_t bytes = jinja_point_at(string, at, &point);
        const uint32_t origin = jinja_origin_at(string, at);
        const char *known =
            point == quote[0] ? (quote[0] == '"' ? "\\\"" : "\\'") : short_escape(point);
        if (known[0] != '\0') {
            jinja_text_put_bytes(text, known, strlen(known), origin);
        } else if (point >= 0 && is_printable(point)) {
            jinja_text_put_bytes(text, string->at + at, bytes, origin);
        } else {
            const uint32_t code = point >= 0 ? (uint32_t)point : (unsigned char)string->at[at];
            const int length = code > 0xffff ? snprintf(escape, sizeof escape, "\\U%08x", code)
                               : code > 0xff ? snprintf(escape, sizeof escape, "\\u%04x", code)
                                             : snprintf(escape, sizeof escape, "\\x%02x", code);
            jinja_text_put_bytes(text, escape, (size_t)length, origin);
        }
        at += bytes;
    }
    jinja_text_put_name(text, quote);
}

static void put_inside(jinja_text *text, jinja_value value);

static void put_list(jinja_text *text, const jinja_list *list)
{
    const bool tuple = list->form == JINJA_FORM_TUPLE;
    if (list->form > JINJA_FORM_TUPLE) {
        jinja_fail(text->work, BASE_ERR_UNSUPPORTED, "a %s is not written as text here",
                   jinja_type_name((jinja_value){.kind = JINJA_LIST, .list = (jinja_list *)list}));
    }
    jinja_text_put_name(text, tuple ? "(" : "[");
    for (size_t i = 0; i < list->count; i++) {
        jinja_text_put_name(text, i > 0 ? ", " : "");
        put_inside(text, list->at[i]);
    }
    jinja_text_put_name(text, tuple && list->count == 1 ? ",)" : tuple ? ")" : "]");
}

static void put_dict(jinja_text *text, const jinja_dict *dict)
{
    jinja_text_put_name(text, "{");
    for (size_t i = 0; i < dict->count; i++) {
        jinja_text_put_name(text, i > 0 ? ", " : "");
        put_inside(text, dict->at[i].key);
        jinja_text_put_name(text, ": ");
        put_inside(text, dict->at[i].value);
    }
    jinja_text_put_name(text, "}");
}

/* As repr(). */
static void put_inside(jinja_text *text, jinja_value value)
{
    jinja_enter(text->work);
    if (value.kind == JINJA_STRING) {
        put_quoted(text, value.string);
    } else if (value.kind == JINJA_UNDEFINED) {
        jinja_text_put_name(text, "Undefined");
    } else {
        jinja_write(text, value);
    }
    jinja_leave(text->work);
}

void jinja_write(jinja_text *text, jinja_value value)
{
    jinja_enter(text->work);
    if (value.kind == JINJA_STRING) {
        jinja_text_put(text, value.string);
    } else if (jinja_is_number(value)) {
        jinja_write_number(text, value, false);
    } else if (value.kind == JINJA_NONE) {
        jinja_text_put_name(text, "None");
    } else if (value.kind == JINJA_LIST) {
        put_list(text, value.list);
    } else if (value.kind == JINJA_DICT) {
        put_dict(text, value.dict);
    } else if (value.kind != JINJA_UNDEFINED) {
        jinja_fail(text->work, BASE_ERR_UNSUPPORTED, "a %s is not written as text here",
                   jinja_type_name(value));
    }
    jinja_leave(text->work);
}

const jinja_string *jinja_to_string(jinja_work *work, jinja_value value)
{
    jinja_text text = {.work = work};
    if (value.kind == JINJA_STRING) {
        return value.string;
    }
    jinja_write(&text, value);
    return jinja_text_end(&text).string;
}
