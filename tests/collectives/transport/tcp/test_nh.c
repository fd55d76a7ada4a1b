/* The hash below the MAC on every kind of processor: two ranks of which one has wider instructions
 * than the other must agree on each frame. What chooses among them is not asked here, so the source
 * itself is part of this program. */
/* NOLINTNEXTLINE(bugprone-suspicious-include) */
#include "transport/tcp/nh.c"

#include "random.h"
#include "support.h"

enum { BYTES = 2 * COLL_NH_UNIT_BYTES + 700, DIGEST_BYTES = 3 * COLL_NH_DIGEST_BYTES };

static uint32_t key[COLL_NH_KEY_WORDS];
static uint8_t data[BYTES];

static void agree(nh_sum sum)
{
    test_random_bytes(key, sizeof key, 1);
    test_random_bytes(data, sizeof data, 2);
    for (size_t i = 0; i < sizeof data; i += 3) {
        data[i] = 0xff; /* carries as well */
    }
    for (size_t size = 1; size + 1 < BYTES; size += size < 300 ? 1 : 61) {
        uint8_t wide[DIGEST_BYTES] = {0};
        uint8_t plain[DIGEST_BYTES] = {0};
        hash(sum, key, data + size % 2, size, wide);
        coll_nh_plain(key, data + size % 2, size, plain);
        assert_memory_equal(wide, plain, DIGEST_BYTES);
    }
}

static void the_best_agrees(void **state)
{
    (void)state;
    agree(best());
}

static void avx2_agrees(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        agree(sum_avx2);
        return;
    }
#endif
    skip();
}

static void avx512_agrees(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        agree(sum_avx512);
        return;
    }
#endif
    skip();
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_agrees),
        cmocka_unit_test(avx2_agrees),
        cmocka_unit_test(avx512_agrees),
    };
    return cmocka_run_group_tests_name("coll-nh", tests, NULL, NULL);
}
