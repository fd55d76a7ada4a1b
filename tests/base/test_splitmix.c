/* base/splitmix.h against the outputs of the authors' own code. */
#include "base/splitmix.h"

#include "support.h"

/* Vigna's splitmix64.c gives these for the states 0 and 1234567. */
static void outputs_are_splitmix64s(void **state)
{
    static const uint64_t from_zero[] = {UINT64_C(0xe220a8397b1dcdaf), UINT64_C(0x6e789e6aa1b965f4),
                                         UINT64_C(0x06c45d188009454f)};
    static const uint64_t from_seed[] = {UINT64_C(6457827717110365317),
                                         UINT64_C(3203168211198807973),
                                         UINT64_C(9817491932198370423)};
    uint64_t zero = 0;
    uint64_t seed = 1234567;
    (void)state;
    for (size_t i = 0; i < sizeof from_zero / sizeof from_zero[0]; i++) {
        assert_int_equal(base_splitmix_next(&zero), from_zero[i]);
        assert_int_equal(base_splitmix_next(&seed), from_seed[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_splitmix64s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
