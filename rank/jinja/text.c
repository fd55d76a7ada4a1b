/* Strings that grow, and their parts. Called by all that makes values. */
#include "text.h"

#include <string.h>

#include <utf8proc.h>

#include "limits.h"

enum { ROOM_FIRST = 64, UTF8_MAX = 4 };

/* ---- a string that grows ---- */

static void make_room(jinja_text *text, size_t more)
{
    const size_t needed = text->bytes + more;
    if (needed > RANK_JINJA_TEXT_BYTES_MAX) {
        jinja_fail(text->work, BASE_ERR_LIMIT, "the template makes a text of more than %d bytes",
                   RANK_JINJA_TEXT_BYTES_MAX);
    }
    if (needed <= text->room) {
        return;
    }
    size_t room = text->room > 0 ? text->room : ROOM_FIRST;
    while (room < needed) {
        room *= 2;
    }
    char *at = jinja_alloc(text->work, room);
    uint32_t *origins =
        text->origins != NULL ? jinja_alloc(text->work, room * sizeof *origins) : NULL;
    if (text->bytes > 0) {
        memcpy(at, text->at, text->bytes);
    }
    if (text->bytes > 0 && origins != NULL) {
        memcpy(origins, text->origins, text->bytes * sizeof *origins);
    }
    text->at = at;
    text->origins = origins;
    text->room = room;
}

/* From now on each byte has an origin of its own. */
static void split_origins(jinja_text *text)
{
    if (text->origins == NULL) {
        text->origins = jinja_alloc(text->work, text->room * sizeof *text->origins);
        for (size_t i = 0; i < text->bytes; i++) {
            text->origins[i] = text->origin;
        }
    }
}

void jinja_text_put(jinja_text *text, const jinja_string *string)
{
    if (string->bytes == 0) {
        return;
    }
    jinja_step(text->work, 1);
    jinja_step_bytes(text->work, string->bytes);
    make_room(text, string->bytes);
    if (text->bytes == 0 && text->origins == NULL && string->origins == NULL) {
        text->origin = string->origin;
    }
    if (string->origins != NULL || text->origins != NULL || text->origin != string->origin) {
        split_origins(text);
        for (size_t i = 0; i < string->bytes; i++) {
            text->origins[text->bytes + i] = jinja_origin_at(string, i);
        }
    }
    memcpy(text->at + text->bytes, string->at, string->bytes);
    text->bytes += string->bytes;
}

void jinja_text_put_bytes(jinja_text *text, const char *at, size_t bytes, uint32_t origin)
{
    const jinja_string string = {.at = at, .bytes = bytes, .origin = origin};
    jinja_text_put(text, &string);
}

void jinja_text_put_name(jinja_text *text, const char *name)
{
    jinja_text_put_bytes(text, name, strlen(name), 0);
}

void jinja_text_put_point(jinja_text *text, int32_t point, uint32_t origin)
{
    utf8proc_uint8_t bytes[UTF8_MAX];
    const utf8proc_ssize_t count = utf8proc_encode_char(point, bytes);
    jinja_text_put_bytes(text, (const char *)bytes, (size_t)count, origin);
}

jinja_value jinja_text_end(jinja_text *text)
{
    return jinja_string_value(text->work,
                              (jinja_string){.at = text->bytes > 0 ? text->at : "",
                                             .bytes = text->bytes,
                                             .origins = text->bytes > 0 ? text->origins : NULL,
                                             .origin = text->origin});
}

/* ---- strings ---- */

jinja_value jinja_string_value(jinja_work *work, jinja_string string)
{
    jinja_string *kept = jinja_alloc(work, sizeof *kept);
    *kept = string;
    return (jinja_value){.kind = JINJA_STRING, .string = kept};
}

jinja_value jinja_string_of(jinja_work *work, const char *text)
{
    return jinja_string_value(work, (jinja_string){.at = text, .bytes = strlen(text)});
}

jinja_string jinja_cut(const jinja_string *string, size_t begin, size_t end)
{
    return (jinja_string){.at = string->at + begin,
                          .bytes = end - begin,
                          .origins = string->origins != NULL ? string->origins + begin : NULL,
                          .origin = string->origin,
                          .is_markup = string->is_markup};
}

uint32_t jinja_origin_at(const jinja_string *string, size_t index)
{
    return string->origins != NULL ? string->origins[index] : string->origin;
}

bool jinja_string_is(const jinja_string *string, const char *name)
{
    return string->bytes == strlen(name) && memcmp(string->at, name, string->bytes) == 0;
}

bool jinja_string_equal(const jinja_string *left, const jinja_string *right)
{
    return left->bytes == right->bytes &&
           (left->bytes == 0 || memcmp(left->at, right->at, left->bytes) == 0);
}

size_t jinja_find(jinja_work *work, const jinja_string *whole, const jinja_string *part,
                  size_t from)
{
    if (from > whole->bytes || part->bytes > whole->bytes - from) {
        return SIZE_MAX;
    }
    if (part->bytes == 0) {
        return from;
    }
    const char *found = memmem(whole->at + from, whole->bytes - from, part->at, part->bytes);
    const size_t at = found != NULL ? (size_t)(found - whole->at) : SIZE_MAX;
    jinja_step_bytes(work, (found != NULL ? at : whole->bytes) - from + part->bytes);
    return at;
}

const char *jinja_name_of(jinja_work *work, const jinja_string *string)
{
    return jinja_copy(work, string->at, string->bytes);
}

/* ---- characters ---- */

size_t jinja_point_at(const jinja_string *string, size_t at, int32_t *point)
{
    const unsigned char first = (unsigned char)string->at[at];
    if (first < 0x80) {
        *point = first;
        return 1;
    }
    const utf8proc_ssize_t taken = utf8proc_iterate((const utf8proc_uint8_t *)string->at + at,
                                                    (utf8proc_ssize_t)(string->bytes - at), point);
    if (taken <= 0) {
        *point = -1;
        return 1;
    }
    return (size_t)taken;
}

size_t jinja_point_count(jinja_work *work, const jinja_string *string)
{
    size_t count = 0;
    int32_t point = 0;
    jinja_step_bytes(work, string->bytes);
    for (size_t at = 0; at < string->bytes; at += jinja_point_at(string, at, &point)) {
        count++;
    }
    return count;
}

size_t jinja_point_offset(jinja_work *work, const jinja_string *string, size_t count)
{
    size_t at = 0;
    int32_t point = 0;
    for (; count > 0 && at < string->bytes; count--) {
        at += jinja_point_at(string, at, &point);
    }
    jinja_step_bytes(work, at);
    return at;
}

jinja_value *jinja_points(jinja_work *work, const jinja_string *string, size_t *count)
{
    *count = jinja_point_count(work, string);
    jinja_value *points = jinja_values(work, *count);
    int32_t point = 0;
    size_t at = 0;
    for (size_t i = 0; i < *count; i++) {
        const size_t bytes = jinja_point_at(string, at, &point);
        points[i] = jinja_string_value(work, jinja_cut(string, at, at + bytes));
        at += bytes;
    }
    return points;
}

bool jinja_is_blank(int32_t point)
{
    return point == ' ' || (point >= '\t' && point <= '\r') || (point >= 0x1c && point <= 0x1f) ||
           point == 0x85 || point == 0xa0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
           point == 0x202f || point == 0x205f || point == 0x3000;
}

static bool is_one_of(const jinja_string *characters, int32_t point)
{
    int32_t other = 0;
    if (characters == NULL) {
        return jinja_is_blank(point);
    }
    for (size_t at = 0; at < characters->bytes;) {
        at += jinja_point_at(characters, at, &other);
        if (other == point) {
            return true;
        }
    }
    return false;
}

jinja_string jinja_strip(jinja_work *work, const jinja_string *string,
                         const jinja_string *characters, jinja_ends ends)
{
    size_t begin = 0;
    size_t end = string->bytes;
    int32_t point = 0;
    const size_t each = characters != NULL ? characters->bytes : 0;
    while (ends != JINJA_ENDS_RIGHT && begin < end) {
        const size_t bytes = jinja_point_at(string, begin, &point);
        if (!is_one_of(characters, point)) {
            break;
        }
        jinja_step_bytes(work, each);
        begin += bytes;
    }
    while (ends != JINJA_ENDS_LEFT && end > begin) {
        size_t last = end - 1;
        while (last > begin && ((unsigned char)string->at[last] & 0xc0U) == 0x80U) {
            last--;
        }
        if (last + jinja_point_at(string, last, &point) != end || !is_one_of(characters, point)) {
            break;
        }
        jinja_step_bytes(work, each);
        end = last;
    }
    jinja_step_bytes(work, string->bytes - (end - begin));
    return jinja_cut(string, begin, end);
}

jinja_value jinja_replace(jinja_work *work, const jinja_string *string, const jinja_string *old,
                          const jinja_string *new, int64_t count)
{
    jinja_text text = {.work = work};
    size_t from = 0;
    int32_t point = 0;
    while (count != 0) {
        const size_t at = jinja_find(work, string, old, from);
        if (at == SIZE_MAX) {
            break;
        }
        const jinja_string before = jinja_cut(string, from, at);
        jinja_step(work, 1);
        jinja_text_put(&text, &before);
        jinja_text_put(&text, new);
        from = at + old->bytes;
        count -= count > 0 ? 1 : 0;
        if (old->bytes == 0 && from == string->bytes) {
            return jinja_text_end(&text);
        }
        if (old->bytes == 0 && count != 0) { /* before each character, and behind the last */
            const jinja_string one =
                jinja_cut(string, from, from + jinja_point_at(string, from, &point));
            jinja_text_put(&text, &one);
            from += one.bytes;
        }
    }
    const jinja_string rest = jinja_cut(string, from, string->bytes);
    jinja_text_put(&text, &rest);
    return jinja_text_end(&text);
}
