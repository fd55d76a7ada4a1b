/* base/number.h: which texts are numbers. */
#include "base/number.h"

#include <inttypes.h>

#include "support.h"

static void numbers_in_range_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } CASES[] = {{"0", 0},
                 {"-7", -7},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        int64_t value = 1;
        assert_true(base_parse_int(CASES[i].text, CASES[i].value, CASES[i].value, &value));
        assert_true(value == CASES[i].value);
    }
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    static const char *const CASES[] = {
        "", " ", "-", "x", "1x", "1 ", "1.0", "0x1", "9223372036854775808", "-9223372036854775809"};
    int64_t value = 1;
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        if (base_parse_int(CASES[i], INT64_MIN, INT64_MAX, &value)) {
            fail_msg("'%s' became %" PRId64, CASES[i], value);
        }
    }
    assert_false(base_parse_int("0", 1, 5, &value));
    assert_false(base_parse_int("6", 1, 5, &value));
    assert_true(value == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_in_range_are_taken),
        cmocka_unit_test(anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
