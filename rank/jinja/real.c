/* Numbers with a point. Called by the lexer, the writers, and the filter float. */
#include "real.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGITS_MAX = 17, /* of a double */
    FORM_BYTES = 64,
    PLAIN_MIN = -4, /* the places of the point in numbers without an exponent */
    PLAIN_MAX = 16,
    READ_BYTES = 512,
};

/* Fills in the digits, and returns the exponent of the first. */
static int digits_of(double real, char digits[DIGITS_MAX + 1])
{
    char form[FORM_BYTES];
    for (int count = 0; count < DIGITS_MAX; count++) {
        (void)snprintf(form, sizeof form, "%.*e", count, real);
        if (strtod(form, NULL) == real) {
            break;
        }
    }
    size_t used = 0;
    const char *at = form;
    for (; *at != '\0' && *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9' && used < DIGITS_MAX) {
            digits[used++] = *at;
        }
    }
    digits[used] = '\0';
    return *at == 'e' ? (int)strtol(at + 1, NULL, 10) : 0;
}

static void put_finite(char *text, size_t bytes, double real)
{
    char digits[DIGITS_MAX + 1];
    const char *sign = signbit(real) ? "-" : "";
    const int exponent = digits_of(fabs(real), digits);
    const int count = (int)strlen(digits);
    if (exponent < PLAIN_MIN || exponent >= PLAIN_MAX) {
        (void)snprintf(text, bytes, "%s%c%s%se%c%02d", sign, digits[0], count > 1 ? "." : "",
                       digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        (void)snprintf(text, bytes, "%s0.%.*s%s", sign, -exponent - 1, "0000", digits);
    } else if (exponent + 1 >= count) {
        (void)snprintf(text, bytes, "%s%s%.*s.0", sign, digits, exponent + 1 - count,
                       "0000000000000000");
    } else {
        (void)snprintf(text, bytes, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
    }
}

void jinja_real_text(char *text, size_t bytes, double real, bool json)
{
    if (isfinite(real)) {
        put_finite(text, bytes, real);
        return;
    }
    (void)snprintf(text, bytes, "%s%s", !isnan(real) && real < 0 ? "-" : "",
                   isnan(real) ? (json ? "NaN" : "nan") : (json ? "Infinity" : "inf"));
}

bool jinja_real_read(const char *text, double *real)
{
    char copy[READ_BYTES];
    const char *point = localeconv()->decimal_point;
    const size_t sign = text[0] == '-' || text[0] == '+' ? 1 : 0;
    const size_t bytes = strlen(text);
    char *end = NULL;
    if (strspn(text + sign, "0123456789.eE+-") != bytes - sign || bytes == sign ||
        bytes + strlen(point) >= sizeof copy) {
        return false;
    }
    const size_t before = strcspn(text, ".");
    (void)snprintf(copy, sizeof copy, "%.*s%s%s", (int)before, text,
                   text[before] != '\0' ? point : "",
                   text[before] != '\0' ? text + before + 1 : "");
    *real = strtod(copy, &end);
    return *end == '\0' && end != copy;
}
