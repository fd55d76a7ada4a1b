/* strftime_now: the date that a chat is given, as Python's datetime.strftime writes it. Called by calls.c. */
#include <string.h>
#include <time.h>

#include "row_tables.h"
#include "run.h"

enum { CONVERSION_BYTES = 64 }; /* the longest is %c, of 24 */

/* What the C library has, in the C locale: nothing here calls setlocale. A - before it leaves out leading zeros and
 * spaces. */
static const char KNOWN[] = "aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%";

/* Bytes of the conversion at the % there, or up to the format's end. */
static size_t conversion_bytes(const jinja_string *format, size_t at)
{
    const size_t bytes = at + 1 < format->bytes && format->at[at + 1] == '-' ? 3 : 2;
    return at + bytes <= format->bytes ? bytes : format->bytes - at;
}

#pragma GCC diagnostic push /* it is one of those above */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* What the conversion of (bytes) at `at` writes; of a date there are no microseconds, and no time zone. */
static size_t convert(jinja_run *run, const jinja_string *format, size_t at, size_t bytes,
                      char made[CONVERSION_BYTES])
{
    const char last = format->at[at + bytes - 1];
    char one[sizeof "%-d"] = "";
    if (bytes == 2 && (last == 'z' || last == 'Z')) {
        return 0;
    }
    if (bytes == 2 && last == 'f') {
        memcpy(made, "000000", 6);
        return 6;
    }
    if (last == '\0' || strchr(KNOWN, last) == NULL) {
        int32_t point = 0;
        const size_t end = at + bytes - 1 + jinja_point_at(format, at + bytes - 1, &point);
        const jinja_string unknown = jinja_cut(format, at, end);
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "strftime_now does not know '%s' here",
                   jinja_name_of(run->work, &unknown));
    }
    memcpy(one, format->at + at, bytes);
    return strftime(made, CONVERSION_BYTES, one, run->now);
}
#pragma GCC diagnostic pop

static jinja_value strftime_now(jinja_run *run, const jinja_call *call)
{
    jinja_text text = {.work = run->work};
    if (call->slots[0].kind != JINJA_STRING) {
        jinja_need_defined(run->work, call->slots[0]);
        jinja_fail(run->work, BASE_ERR_INVALID, "strftime_now formats by a str, not by a %s",
                   jinja_type_name(call->slots[0]));
    }
    const jinja_string *format = call->slots[0].string;
    jinja_step_bytes(run->work, format->bytes);
    for (size_t at = 0; at < format->bytes;) {
        char made[CONVERSION_BYTES];
        const bool converts = format->at[at] == '%';
        const size_t bytes = converts ? conversion_bytes(format, at) : 1;
        const size_t count = converts ? convert(run, format, at, bytes, made) : 1;
        jinja_text_put_bytes(&text, converts ? made : format->at + at, count,
                             jinja_origin_at(format, at));
        at += bytes;
    }
    return jinja_text_end(&text);
}

const jinja_row jinja_strftime_now = {
    .name = "strftime_now", .function = strftime_now, .params = {"format"}, .needed = 1};
