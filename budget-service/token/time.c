/* RFC 3339 times, parsed and formatted. Called for claims, receipts, bills and evidence, and to
 * show times. */
#include "budget/time.h"

#include <stdbool.h>
#include <time.h>

enum { DAY_S = 86400, FRACTION_DIGITS_MAX = 9 };

/* Days from 1970-01-01 to the given day of the proleptic Gregorian calendar. */
static int64_t days_before(int64_t year, int month, int day)
{
    const int64_t shifted = month > 2 ? year : year - 1; /* years that begin in March */
    const int64_t era_year = shifted % 400;
    const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    const int64_t day_of_era = era_year * 365 + era_year / 4 - era_year / 100 + day_of_year;
    return shifted / 400 * 146097 + day_of_era - 719468;
}

static int days_in(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

/* Exactly `count` digits; -1 when they are not there. */
static int digits(const char *text, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

/* What follows the seconds: a fraction, then Z or an offset. */
static bool read_zone(const char *at, const char *end, int *offset_s)
{
    if (at < end && *at == '.') {
        const char *first = ++at;
        while (at < end && *at >= '0' && *at <= '9') {
            at++;
        }
        if (at == first || at - first > FRACTION_DIGITS_MAX) {
            return false;
        }
    }
    if (end - at == 1 && *at == 'Z') {
        *offset_s = 0;
        return true;
    }
    if (end - at != 6 || (*at != '+' && *at != '-') || at[3] != ':') {
        return false;
    }
    const int hours = digits(at + 1, 2);
    const int minutes = digits(at + 4, 2);
    *offset_s = (*at == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
    return hours >= 0 && hours < 24 && minutes >= 0 && minutes < 60;
}

static bool read_time(const char *text, size_t text_bytes, int64_t *time_s)
{
    int offset_s = 0;
    if (text_bytes < sizeof "2026-01-02T03:04:05Z" - 1 || text[4] != '-' || text[7] != '-' ||
        text[10] != 'T' || text[13] != ':' || text[16] != ':' ||
        !read_zone(text + 19, text + text_bytes, &offset_s)) {
        return false;
    }
    const int year = digits(text, 4);
    const int month = digits(text + 5, 2);
    const int day = digits(text + 8, 2);
    const int hour = digits(text + 11, 2);
    const int minute = digits(text + 14, 2);
    const int second = digits(text + 17, 2);
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_in(year, month) ||
        hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) {
        return false;
    }
    *time_s = days_before(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset_s;
    return *time_s >= 0 && *time_s <= BUDGET_TIME_S_MAX;
}

base_status budget_time_parse(const char *text, size_t text_bytes, int64_t *time_s,
                              base_error *reterr)
{
    int64_t value = 0;
    if (text_bytes > 64 || !read_time(text, text_bytes, &value)) {
        return base_fail(reterr, BASE_ERR_INVALID, "'%.*s' is no time such as 2026-01-02T03:04:05Z",
                         (int)(text_bytes < 64 ? text_bytes : 64), text);
    }
    *time_s = value;
    return BASE_OK;
}

void budget_time_format(int64_t time_s, char text[BUDGET_TIME_BYTES])
{
    struct tm parts;
    const time_t clamped =
        time_s < 0 ? 0 : (time_s > BUDGET_TIME_S_MAX ? BUDGET_TIME_S_MAX : time_s);
    (void)gmtime_r(&clamped, &parts);
    (void)strftime(text, BUDGET_TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

int64_t budget_time_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}
