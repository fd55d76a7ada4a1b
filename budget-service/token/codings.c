/* Times, digests, money and names as texts, by the rows of base/fields.h. Called through the tables
 * of claims.c, receipt.c and keyring.c, and of the command lines. */
#include "budget/codings.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "budget/claims.h"
#include "budget/money.h"
#include "budget/time.h"

enum { SECONDS_PER_HOUR = 3600, HOURS_MAX = 24 * 400, DECIMALS_PER_HOUR = 1000000 };

static base_status parse_time(const base_field *field, const char *text, void *member,
                              base_error *reterr)
{
    (void)field;
    return budget_time_parse(text, strlen(text), member, reterr);
}

static void format_time(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    (void)field;
    budget_time_format(*(const int64_t *)member, text);
}

static base_status check_time(const base_field *field, const void *member, base_error *reterr)
{
    const int64_t time_s = *(const int64_t *)member;
    (void)field;
    return time_s >= 0 && time_s <= BUDGET_TIME_S_MAX
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "must be in the years 1970 to 9999");
}

const base_coding budget_time_coding = {parse_time, format_time, check_time};

static base_status parse_hex(const base_field *field, const char *text, void *member,
                             base_error *reterr)
{
    const size_t length = strlen(text);
    if (length != 2 * field->size_bytes || strspn(text, "0123456789abcdef") != length ||
        sodium_hex2bin(member, field->size_bytes, text, length, NULL, NULL, NULL) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "must be %zu lower-case hex digits",
                         2 * field->size_bytes);
    }
    return BASE_OK;
}

static void format_hex(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    (void)sodium_bin2hex(text, BASE_CODED_BYTES, member, field->size_bytes);
}

const base_coding budget_hex_coding = {parse_hex, format_hex, NULL};

static base_status parse_usd(const base_field *field, const char *text, void *member,
                             base_error *reterr)
{
    (void)field;
    return budget_money_parse(text, strlen(text), member, reterr);
}

static void format_usd(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    (void)field;
    budget_money_format(*(const int64_t *)member, text);
}

const base_coding budget_usd_coding = {parse_usd, format_usd, NULL};

static base_status parse_price(const base_field *field, const char *text, void *member,
                               base_error *reterr)
{
    const base_status status = parse_usd(field, text, member, reterr);
    return status == BASE_OK && *(const int64_t *)member <= 0
               ? base_fail(reterr, BASE_ERR_INVALID, "'%.64s': must be above 0", text)
               : status;
}

const base_coding budget_price_coding = {parse_price, format_usd, NULL};

/* Reads decimal hours with the parser of money: exact to a millionth, rounded up to a second. */
static base_status parse_hours(const base_field *field, const char *text, void *member,
                               base_error *reterr)
{
    int64_t micro = 0;
    (void)field;
    if (budget_money_parse(text, strlen(text), &micro, NULL) != BASE_OK || micro <= 0 ||
        micro > (int64_t)HOURS_MAX * DECIMALS_PER_HOUR) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%.64s': must be hours, as in 2 or 0.5", text);
    }
    *(int64_t *)member = (micro * SECONDS_PER_HOUR + DECIMALS_PER_HOUR - 1) / DECIMALS_PER_HOUR;
    return BASE_OK;
}

static void format_hours(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    (void)field;
    (void)snprintf(text, BASE_CODED_BYTES, "%g",
                   (double)*(const int64_t *)member / SECONDS_PER_HOUR);
}

const base_coding budget_hours_coding = {parse_hours, format_hours, NULL};

static bool name_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._-+@:", c) != NULL);
}

bool budget_name_ok(const char *name, size_t size_bytes, bool slash)
{
    const size_t length = strnlen(name, size_bytes);
    int parts = 1;
    if (length == 0 || length == size_bytes || name[0] == '/' || name[length - 1] == '/') {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '/' && slash && name[i - 1] != '/') {
            parts++;
        } else if (!name_character(name[i])) {
            return false;
        }
    }
    return parts <= BUDGET_ACCOUNT_DEPTH_MAX;
}

bool budget_word_ok(const char *text, size_t size_bytes)
{
    return budget_name_ok(text, size_bytes, false);
}

bool budget_path_ok(const char *text, size_t size_bytes)
{
    return budget_name_ok(text, size_bytes, true);
}

bool budget_text_ok(const char *text, size_t size_bytes)
{
    const size_t length = strnlen(text, size_bytes);
    for (size_t i = 0; i < length; i++) {
        if (text[i] < ' ' || text[i] > '~' || strchr("\"'\\", text[i]) != NULL) {
            return false;
        }
    }
    return length < size_bytes;
}
