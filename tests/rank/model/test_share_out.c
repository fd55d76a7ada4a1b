/* Work shared out among threads: each element is done once, and weights have the same bits. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "model/normal.h"
#include "model/share_out.h"
#include "support.h"

enum { MANY = 1000 };

static _Atomic int done[MANY];
static _Atomic int calls;

static void count_them(void *user, size_t first, size_t end)
{
    assert_ptr_equal(user, done);
    calls++;
    for (size_t i = first; i < end; i++) {
        done[i]++;
    }
}

static void each_element_is_done_once(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 15, 16, 17, 31, 999, MANY};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        memset((void *)done, 0, sizeof done);
        calls = 0;
        rank_share_out(counts[c], 1, count_them, (void *)done);
        for (size_t i = 0; i < MANY; i++) {
            assert_int_equal(done[i], i < counts[c]);
        }
        assert_in_range(calls, 1, 16);
    }
}

static void a_thread_has_some_at_least(void **state)
{
    (void)state;
    calls = 0;
    rank_share_out(MANY, MANY, count_them, (void *)done);
    assert_int_equal(calls, 1);
    calls = 0;
    rank_share_out(MANY, MANY / 2, count_them, (void *)done);
    assert_in_range(calls, 1, 2);
}

/* So many that there are threads for them, beside the first few, which one thread draws; and all have
 * the distribution. */
static void weights_are_those_of_one_thread(void **state)
{
    (void)state;
    const size_t many = (size_t)(1 << 20) + 7;
    const size_t few = 1 << 10;
    float *all = malloc(many * sizeof *all);
    float *some = malloc(few * sizeof *some);
    assert_non_null(all);
    assert_non_null(some);
    rank_fill_normal(3, 5, 0.02f, all, many);
    rank_fill_normal(3, 5, 0.02f, some, few);
    assert_memory_equal(all, some, few * sizeof *some);
    double squares = 0.0;
    for (size_t i = 0; i < many; i++) {
        assert_true(all[i] > -0.12001f && all[i] < 0.12001f);
        squares += (double)all[i] * all[i];
    }
    assert_true(squares / (double)many > 0.99 * 0.0004 && squares / (double)many < 1.01 * 0.0004);
    free(all);
    free(some);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_element_is_done_once),
        cmocka_unit_test(a_thread_has_some_at_least),
        cmocka_unit_test(weights_are_those_of_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
