/* Lines of strings. Called by filters and methods. */
#include "lines.h"

void jinja_parts_add(jinja_work *work, jinja_parts *parts, jinja_string part)
{
    jinja_step(work, 1);
    parts->at = jinja_grow(work, parts->at, parts->count, &parts->room, sizeof *parts->at);
    parts->at[parts->count++] = jinja_string_value(work, part);
}

static bool ends_line(int32_t point)
{
    return (point >= '\n' && point <= '\r') || (point >= 0x1c && point <= 0x1e) || point == 0x85 ||
           point == 0x2028 || point == 0x2029;
}

jinja_value *jinja_lines_of(jinja_work *work, const jinja_string *string, bool keeps, size_t *count)
{
    jinja_parts lines = {.count = 0};
    size_t begin = 0;
    int32_t point = 0;
    for (size_t at = 0; at < string->bytes;) {
        const size_t line_end = at;
        at += jinja_point_at(string, at, &point);
        if (!ends_line(point)) {
            continue;
        }
        at += point == '\r' && at < string->bytes && string->at[at] == '\n' ? 1 : 0;
        jinja_parts_add(work, &lines, jinja_cut(string, begin, keeps ? at : line_end));
        begin = at;
    }
    if (begin < string->bytes) {
        jinja_parts_add(work, &lines, jinja_cut(string, begin, string->bytes));
    }
    jinja_step_bytes(work, string->bytes);
    *count = lines.count;
    return lines.at;
}
