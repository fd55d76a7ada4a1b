/* budget/time.h: RFC 3339 times read, refused and written. */
#include "budget/time.h"

#include <string.h>

#include "support.h"

static void times_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t time_s;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2000-02-29T12:00:00Z", 951825600},
        {"2026-11-21T12:39:08Z", 1795264748},
        {"2026-11-21T12:39:08.999999999Z", 1795264748},
        {"2026-11-21T14:39:08+02:00", 1795264748},
        {"2026-11-21T07:09:08.5-05:30", 1795264748},
        {"9999-12-31T23:59:59Z", BUDGET_TIME_S_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {0};
        int64_t time_s = -1;
        assert_ok(budget_time_parse(cases[i].text, strlen(cases[i].text), &time_s, &error), &error);
        assert_int_equal(time_s, cases[i].time_s);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "2026-11-21",
        "2026-11-21T12:39:08",
        "2026-11-21 12:39:08Z",
        "2026-11-21T12:39:08z",
        "2026-11-21T12:39:60Z",
        "2026-11-21T24:00:00Z",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-00T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+00:01",
        "2026-11-21T12:39:08.Z",
        "2026-11-21T12:39:08.1234567890Z",
        "2026-11-21T12:39:08+0200",
        "2026-11-21T12:39:08+24:00",
        "2026-11-21T12:39:08+00:60",
        "2026-11-21T12:39:08Z ",
        "+026-11-21T12:39:08Z",
        "99999-01-01T00:00:00Z",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t time_s = 77;
        assert_status(budget_time_parse(texts[i], strlen(texts[i]), &time_s, NULL),
                      BASE_ERR_INVALID);
        assert_int_equal(time_s, 77);
    }
}

/* Every day from 1970 to 2500, and the library's calendar agrees. */
static void a_formatted_time_reads_back(void **state)
{
    (void)state;
    for (int64_t time_s = 12345; time_s < INT64_C(530) * 366 * 86400; time_s += 86400 + 7) {
        char text[BUDGET_TIME_BYTES];
        int64_t again = -1;
        budget_time_format(time_s, text);
        assert_status(budget_time_parse(text, strlen(text), &again, NULL), BASE_OK);
        assert_int_equal(again, time_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(a_formatted_time_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
