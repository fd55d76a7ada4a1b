/* base/ports.h: ranges of ports, as users write them. */
#include "base/ports.h"

#include "support.h"

static void a_range_is_read(void **state)
{
    base_ports ports = {7, 7};
    (void)state;
    assert_true(base_ports_parse("29500-29599", &ports));
    assert_int_equal(ports.low, 29500);
    assert_int_equal(ports.high, 29599);
    assert_true(base_ports_parse("1-65535", &ports));
    assert_true(base_ports_parse("80-80", &ports));
    assert_int_equal(ports.low, 80);
    assert_int_equal(ports.high, 80);
    assert_true(base_ports_parse("", &ports)); /* any */
    assert_int_equal(ports.low, 0);
    assert_int_equal(ports.high, 0);
}

static void anything_else_is_refused(void **state)
{
    static const char *const wrong[] = {"29500",  "-",       "29500-",       "-29500", "0-10",
                                        "10-9",   "1-65536", "29500-29599x", "a-b",    "1--2",
                                        "1 - 2 ", "1-2-3",   "29500,29501"};
    base_ports ports = {7, 8};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (base_ports_parse(wrong[i], &ports)) {
            fail_msg("'%s' was read as a range", wrong[i]);
        }
    }
    assert_int_equal(ports.low, 7);
    assert_int_equal(ports.high, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_is_read),
        cmocka_unit_test(anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
