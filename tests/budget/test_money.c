/* budget/money.h: amounts read and written, exact roundings, no overflow. */
#include "budget/money.h"

#include <string.h>

#include "support.h"

static void amounts_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t micro;
    } cases[] = {
        {"3", 3000000},
        {"3.00", 3000000},
        {"0.000001", 1},
        {"0", 0},
        {"0.5", 500000},
        {"007.250000", 7250000},
        {"1000000000", INT64_C(1000000000000000)},
        {"999999999.999999", INT64_C(999999999999999)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {0};
        int64_t micro = -1;
        assert_ok(budget_money_parse(cases[i].text, strlen(cases[i].text), &micro, &error), &error);
        assert_int_equal(micro, cases[i].micro);
    }
}

static void what_is_no_amount_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",      "3.0000001", "3.0000000", "1e3", "-1",  "NaN", "nan",  "inf",  ".5",
        "5.",    "+1",        " 1",        "1 ",  "1,0", "$3",  "0x10", "3.0.", "3..0",
        "3.0.0", "--1",       ".",         "1\n", "٣",   "1_0", "1e",   "0b1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t micro = 77;
        assert_status(budget_money_parse(texts[i], strlen(texts[i]), &micro, NULL),
                      BASE_ERR_INVALID);
        assert_int_equal(micro, 77);
    }
    static const char *const large[] = {
        "1000000000.000001",     "1000000001",
        "9223372036854",         "9223372036854775807",
        "9223372036854775808",   "18446744073709551616",
        "18446744073709.551616", "99999999999999999999999999999999999999999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        int64_t micro = 77;
        assert_status(budget_money_parse(large[i], strlen(large[i]), &micro, NULL), BASE_ERR_LIMIT);
        assert_int_equal(micro, 77);
    }
}

/* A text is its bytes, not what stands before a NUL. */
static void an_embedded_nul_is_refused(void **state)
{
    (void)state;
    int64_t micro = 0;
    assert_status(budget_money_parse("3\0"
                                     "5",
                                     3, &micro, NULL),
                  BASE_ERR_INVALID);
    assert_status(budget_money_parse_bill("3\0"
                                          "5",
                                          3, &micro, NULL),
                  BASE_ERR_INVALID);
}

static void numbers_of_bills_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t micro;
    } cases[] = {
        {"0.1", 100000},
        {"0.0000005", 1},
        {"0.00000049999999999999999999", 0},
        {"1.2e-05", 12},
        {"1E3", 1000000000},
        {"-1.5", -1500000},
        {"-0.0000006", -1},
        {"0e99", 0},
        {"1e-99", 0},
        {"123456.7890125", 123456789013},
        {".5", 500000},
        {"5.", 5000000},
        {"0.29", 290000}, /* 0.29 as a double is a little less */
        {"4.35", 4350000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {0};
        int64_t micro = -1;
        const size_t length = strlen(cases[i].text);
        assert_ok(budget_money_parse_bill(cases[i].text, length, &micro, &error), &error);
        assert_int_equal(micro, cases[i].micro);
    }
    static const char *const bad[] = {"",      "e5",  ".",     "-",     "1e",  "1e+",     "1.2.3",
                                      "1e5.0", "NaN", "1e100", "0x1p3", "1 2", "Infinity"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t micro = 0;
        assert_status(budget_money_parse_bill(bad[i], strlen(bad[i]), &micro, NULL),
                      BASE_ERR_INVALID);
    }
    int64_t micro = 0;
    assert_status(budget_money_parse_bill("1e10", 4, &micro, NULL), BASE_ERR_LIMIT);
}

static void a_formatted_amount_reads_back(void **state)
{
    (void)state;
    static const int64_t amounts[] = {0,       1,       10,        999999,
                                      1000000, 1500000, 123456789, BUDGET_MONEY_MICRO_MAX};
    char text[BUDGET_MONEY_BYTES];
    for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) {
        base_error error = {0};
        int64_t micro = -1;
        budget_money_format(amounts[i], text);
        assert_ok(budget_money_parse(text, strlen(text), &micro, &error), &error);
        assert_int_equal(micro, amounts[i]);
    }
    budget_money_format(3000000, text);
    assert_string_equal(text, "3.00");
    budget_money_format(-500000, text);
    assert_string_equal(text, "-0.50");
    budget_money_format(1234567, text);
    assert_string_equal(text, "1.234567");
    budget_money_format(INT64_MIN, text);
    assert_string_equal(text, "-9223372036854.775808");
}

static void a_cost_is_rounded_up_and_never_overflows(void **state)
{
    (void)state;
    int64_t micro = -1;
    assert_true(budget_money_cost(2000000, 2, 3600, &micro));
    assert_int_equal(micro, 4000000);
    assert_true(budget_money_cost(1, 1, 1, &micro));
    assert_int_equal(micro, 1);
    assert_true(budget_money_cost(0, 5, 100, &micro));
    assert_int_equal(micro, 0);
    assert_false(budget_money_cost(INT64_MAX, 2, 1, &micro));
    assert_false(budget_money_cost(INT64_MAX, 1, INT64_MAX, &micro));
    assert_false(budget_money_cost(-1, 1, 1, &micro));
    assert_int_equal(micro, 0);
    assert_false(budget_money_add(INT64_MAX, 1, &micro));
    assert_true(budget_money_add(INT64_MAX, -1, &micro));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amounts_are_read),
        cmocka_unit_test(what_is_no_amount_is_refused),
        cmocka_unit_test(an_embedded_nul_is_refused),
        cmocka_unit_test(numbers_of_bills_are_exact),
        cmocka_unit_test(a_formatted_amount_reads_back),
        cmocka_unit_test(a_cost_is_rounded_up_and_never_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
