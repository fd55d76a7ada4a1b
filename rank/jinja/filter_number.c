/* Filters of numbers. Found by calls.c. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <utf8proc.h>

#include "real.h"
#include "row_tables.h"
#include "run.h"

enum { ROUNDED_BYTES = 400, PRECISION_MAX = 30, DECIMAL = 10, NUMBER_BYTES = 64 };

static jinja_value given_or(jinja_value given, jinja_value otherwise)
{
    return jinja_is_given(given) ? given : otherwise;
}

/* Whether Python may read it as a number, but nothing here does: one with _ between its digits,
 * with digits of other scripts, or of many. */
static bool is_foreign(const jinja_string *text)
{
    bool digits = false;
    bool foreign = text->bytes >= NUMBER_BYTES;
    int32_t point = 0;
    for (size_t at = 0; at < text->bytes;) {
        at += jinja_point_at(text, at, &point);
        const bool digit = utf8proc_category(point) == UTF8PROC_CATEGORY_ND;
        if (!digit && (point <= 0 || point > 'z' || strchr("_.eE+-", point) == NULL)) {
            return false;
        }
        digits = digits || digit;
        foreign = foreign || point == '_' || point > 'z';
    }
    return digits && foreign;
}

/* A string's number, without spaces around it; "": it is none. */
static const char *number_text(jinja_run *run, jinja_value value)
{
    if (value.kind != JINJA_STRING) {
        return "";
    }
    const jinja_string text = jinja_strip(run->work, value.string, NULL, JINJA_ENDS_BOTH);
    if (is_foreign(&text)) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "the number '%s' is not known here",
                   jinja_name_of(run->work, &text));
    }
    return text.bytes < NUMBER_BYTES ? jinja_name_of(run->work, &text) : "";
}

static bool fits_integer(double real)
{
    return real >= -0x1p63 && real < 0x1p63;
}

static jinja_value filter_int(jinja_run *run, const jinja_call *call)
{
    const jinja_value value = call->subject;
    const char *text = number_text(run, value);
    double real = 0;
    if (jinja_is_given(call->slots[1]) && jinja_as_int(run->work, call->slots[1]) != DECIMAL) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "int with another base is not known here");
    }
    if (value.kind == JINJA_INT || value.kind == JINJA_BOOL) {
        return jinja_int(jinja_as_int(run->work, value));
    }
    const size_t sign = text[0] == '-' || text[0] == '+' ? 1 : 0;
    if (text[sign] != '\0' && strspn(text + sign, "0123456789") == strlen(text + sign)) {
        int64_t integer = 0;
        for (const char *at = text + sign; *at != '\0'; at++) {
            if (__builtin_mul_overflow(integer, DECIMAL, &integer) ||
                __builtin_sub_overflow(integer, *at - '0', &integer)) {
                jinja_fail(run->work, BASE_ERR_LIMIT, "an integer is too great");
            }
        }
        if (text[0] != '-' && integer == INT64_MIN) {
            jinja_fail(run->work, BASE_ERR_LIMIT, "an integer is too great");
        }
        return jinja_int(text[0] == '-' ? integer : -integer);
    }
    if (value.kind == JINJA_REAL || jinja_real_read(text, &real)) {
        real = value.kind == JINJA_REAL ? value.real : real;
        if (fits_integer(real)) {
            return jinja_int((int64_t)real);
        }
        if (isfinite(real)) {
            jinja_fail(run->work, BASE_ERR_LIMIT, "an integer is too great");
        }
    }
    jinja_need_defined(run->work, value);
    return given_or(call->slots[0], jinja_int(0));
}

static jinja_value filter_float(jinja_run *run, const jinja_call *call)
{
    double real = 0;
    if (jinja_is_number(call->subject)) {
        return jinja_real(jinja_as_real(call->subject));
    }
    jinja_need_defined(run->work, call->subject);
    const char *text = number_text(run, call->subject);
    const char *word = text + (text[0] == '-' || text[0] == '+' ? 1 : 0);
    if (strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0 ||
        strcasecmp(word, "nan") == 0) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "the number '%s' is not known here", text);
    }
    return jinja_real_read(text, &real) ? jinja_real(real)
                                        : given_or(call->slots[0], jinja_real(0));
}

static void need_number(jinja_run *run, jinja_value value, const char *filter)
{
    if (!jinja_is_number(value)) {
        jinja_need_defined(run->work, value);
        jinja_fail(run->work, BASE_ERR_INVALID, "%s of a %s", filter, jinja_type_name(value));
    }
}

static jinja_value filter_abs(jinja_run *run, const jinja_call *call)
{
    const jinja_value value = call->subject;
    need_number(run, value, "abs");
    if (value.kind == JINJA_REAL) {
        return jinja_real(fabs(value.real));
    }
    const int64_t integer = jinja_as_int(run->work, value);
    return integer < 0 ? jinja_operate(run, JINJA_SUBTRACT, jinja_int(0), value)
                       : jinja_int(integer);
}

/* To so many digits behind the point, half to even where it is exact, as Python's round(). */
static double round_to(double real, int precision)
{
    char text[ROUNDED_BYTES];
    if (!isfinite(real)) {
        return real;
    }
    (void)snprintf(text, sizeof text, "%.*f", precision, real);
    return strtod(text, NULL);
}

static jinja_value filter_round(jinja_run *run, const jinja_call *call)
{
    const jinja_value value = call->subject;
    const int64_t precision = jinja_as_int(run->work, given_or(call->slots[0], jinja_int(0)));
    const jinja_value method = call->slots[1];
    need_number(run, value, "round");
    if (precision < 0 || precision > PRECISION_MAX) {
        jinja_fail(run->work, BASE_ERR_UNSUPPORTED, "round to %" PRId64 " digits is not known here",
                   precision);
    }
    if (!jinja_is_given(method) ||
        (method.kind == JINJA_STRING && jinja_string_is(method.string, "common"))) {
        return value.kind == JINJA_REAL ? jinja_real(round_to(value.real, (int)precision))
                                        : jinja_int(jinja_as_int(run->work, value));
    }
    const double scale = pow(DECIMAL, (double)precision);
    if (method.kind == JINJA_STRING && jinja_string_is(method.string, "ceil")) {
        return jinja_real(ceil(jinja_as_real(value) * scale) / scale);
    }
    if (method.kind != JINJA_STRING || !jinja_string_is(method.string, "floor")) {
        jinja_fail(run->work, BASE_ERR_INVALID, "round's method is common, ceil or floor");
    }
    return jinja_real(floor(jinja_as_real(value) * scale) / scale);
}

const jinja_row jinja_number_filters[] = {
    {.name = "int", .function = filter_int, .params = {"default", "base"}},
    {.name = "float", .function = filter_float, .params = {"default"}},
    {.name = "abs", .function = filter_abs},
    {.name = "round", .function = filter_round, .params = {"precision", "method"}},
    {.name = NULL},
};
