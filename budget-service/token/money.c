/* Parses, formats, adds and rounds micro-dollars. Called wherever an amount is read or shown, and
 * for costs and sums. */
#include "budget/money.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MICRO_DIGITS = 6, EXPONENT_MAX = 99 };

/* A decimal number as it stands: digits × 10^(exponent), the point taken out. */
typedef struct decimal {
    bool negative;
    int digit_count; /* without leading zeros */
    int exponent;
    char digits[BUDGET_MONEY_TEXT_BYTES];
} decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static base_status not_an_amount(const char *text, size_t text_bytes, base_error *reterr)
{
    char shown[BUDGET_MONEY_TEXT_BYTES + 1] = "";
    for (size_t i = 0; i < text_bytes && i < sizeof shown - 1; i++) {
        shown[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "'%s' is no amount of dollars: digits, and at most %d of them behind a point",
                     shown, MICRO_DIGITS);
}

base_status budget_money_parse(const char *text, size_t text_bytes, int64_t *micro,
                               base_error *reterr)
{
    int64_t value = 0;
    int behind_point = -1; /* no point yet */
    if (text_bytes == 0 || text_bytes > BUDGET_MONEY_TEXT_BYTES || !is_digit(text[0]) ||
        !is_digit(text[text_bytes - 1])) {
        return not_an_amount(text, text_bytes, reterr);
    }
    for (size_t i = 0; i < text_bytes; i++) {
        if (text[i] == '.' && behind_point < 0) {
            behind_point = 0;
            continue;
        }
        if (!is_digit(text[i]) || behind_point >= MICRO_DIGITS) {
            return not_an_amount(text, text_bytes, reterr);
        }
        behind_point += behind_point >= 0 ? 1 : 0;
        value = value * 10 + (text[i] - '0');
        if (value > BUDGET_MONEY_MICRO_MAX) {
            return base_fail(reterr, BASE_ERR_LIMIT, "more than %" PRId64 " dollars",
                             BUDGET_MONEY_MICRO_MAX / BUDGET_MICRO_PER_USD);
        }
    }
    for (int i = behind_point < 0 ? 0 : behind_point; i < MICRO_DIGITS; i++) {
        value *= 10; /* at most 1e15 × 1e6 */
        if (value > BUDGET_MONEY_MICRO_MAX) {
            return base_fail(reterr, BASE_ERR_LIMIT, "more than %" PRId64 " dollars",
                             BUDGET_MONEY_MICRO_MAX / BUDGET_MICRO_PER_USD);
        }
    }
    *micro = value;
    return BASE_OK;
}

/* "e-5" or "E+12" up to the end; false when it is not that. */
static bool read_exponent(const char *at, const char *end, int *exponent)
{
    int value = 0;
    bool negative = false;
    at++; /* the e */
    if (at < end && (*at == '+' || *at == '-')) {
        negative = *at == '-';
        at++;
    }
    if (at == end) {
        return false;
    }
    for (; at < end; at++) {
        if (!is_digit(*at)) {
            return false;
        }
        value = value * 10 + (*at - '0');
        if (value > EXPONENT_MAX) {
            return false;
        }
    }
    *exponent += negative ? -value : value;
    return true;
}

static bool read_decimal(const char *text, size_t text_bytes, decimal *number)
{
    const char *at = text;
    const char *end = text + text_bytes;
    int digits_seen = 0;
    bool point = false;
    *number = (decimal){0};
    if (at < end && (*at == '-' || *at == '+')) {
        number->negative = *at == '-';
        at++;
    }
    for (; at < end && (is_digit(*at) || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        digits_seen++;
        number->exponent -= point ? 1 : 0;
        if (number->digit_count > 0 || *at != '0') {
            number->digits[number->digit_count++] = *at;
        }
    }
    if (digits_seen == 0) {
        return false;
    }
    if (at < end) {
        return (*at == 'e' || *at == 'E') && read_exponent(at, end, &number->exponent);
    }
    return true;
}

/* number × 10^6, rounded; false when it is too large. */
static bool decimal_to_micro(const decimal *number, int64_t *micro)
{
    const int whole = number->digit_count + number->exponent + MICRO_DIGITS; /* digits kept */
    int64_t value = 0;
    for (int i = 0; i < whole; i++) {
        if (number->digit_count == 0) {
            break;
        }
        value = value * 10 + (i < number->digit_count ? number->digits[i] - '0' : 0);
        if (value > BUDGET_MONEY_MICRO_MAX) {
            return false;
        }
    }
    const bool half = whole >= 0 && whole < number->digit_count && number->digits[whole] - '0' >= 5;
    value += half ? 1 : 0;
    *micro = number->negative ? -value : value;
    return value <= BUDGET_MONEY_MICRO_MAX;
}

base_status budget_money_parse_bill(const char *text, size_t text_bytes, int64_t *micro,
                                    base_error *reterr)
{
    decimal number;
    int64_t value = 0;
    if (text_bytes == 0 || text_bytes > BUDGET_MONEY_TEXT_BYTES ||
        !read_decimal(text, text_bytes, &number)) {
        return base_fail(
            reterr, BASE_ERR_INVALID, "'%.*s' is no amount of dollars",
            (int)(text_bytes < BUDGET_MONEY_TEXT_BYTES ? text_bytes : BUDGET_MONEY_TEXT_BYTES),
            text);
    }
    if (!decimal_to_micro(&number, &value)) {
        return base_fail(reterr, BASE_ERR_LIMIT, "more than %" PRId64 " dollars",
                         BUDGET_MONEY_MICRO_MAX / BUDGET_MICRO_PER_USD);
    }
    *micro = value;
    return BASE_OK;
}

void budget_money_format(int64_t micro, char text[BUDGET_MONEY_BYTES])
{
    const uint64_t size = micro < 0 ? -(uint64_t)micro : (uint64_t)micro;
    (void)snprintf(text, BUDGET_MONEY_BYTES, "%s%" PRIu64 ".%06" PRIu64, micro < 0 ? "-" : "",
                   size / (uint64_t)BUDGET_MICRO_PER_USD, size % (uint64_t)BUDGET_MICRO_PER_USD);
    const size_t length = strlen(text);
    for (size_t cut = 1; cut <= MICRO_DIGITS - 2 && text[length - cut] == '0'; cut++) {
        text[length - cut] = '\0';
    }
}

void budget_money_show(int64_t micro, char text[BUDGET_MONEY_BYTES])
{
    char amount[BUDGET_MONEY_BYTES];
    const bool negative = micro < 0;
    budget_money_format(micro, amount);
    (void)snprintf(text, BUDGET_MONEY_BYTES, "%s$%s", negative ? "-" : "",
                   amount + (negative ? 1 : 0));
}

bool budget_money_add(int64_t a, int64_t b, int64_t *sum)
{
    int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) {
        return false;
    }
    *sum = result;
    return true;
}

bool budget_money_cost(int64_t price_micro_per_hour, int64_t instances, int64_t seconds,
                       int64_t *micro)
{
    const int64_t hour_s = 3600;
    int64_t total = 0;
    if (price_micro_per_hour < 0 || instances < 0 || seconds < 0 ||
        __builtin_mul_overflow(price_micro_per_hour, instances, &total) ||
        __builtin_mul_overflow(total, seconds, &total)) {
        return false; /* what leaves the int64 is above the largest amount, too */
    }
    const int64_t rounded = total / hour_s + (total % hour_s > 0 ? 1 : 0);
    if (rounded > BUDGET_MONEY_MICRO_MAX) {
        return false;
    }
    *micro = rounded;
    return true;
}
