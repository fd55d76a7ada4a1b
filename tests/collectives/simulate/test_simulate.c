/* Schedules on a paper network: every one completes, moves the bytes it should, and takes about the
 * time that the cost model's formula says. */
#include "common/kinds.h"
#include "network.h"
#include "support.h"

static const coll_costs prices = {
    .inside = {1, 0.3, 0.1}, .between = {20, 3, 0.8}, .reduce_byte_ns = 0.02, .start_us = 5};

static simulate_result run(coll_algorithm algorithm, coll_kind kind, int ranks, int per_host,
                           size_t bytes)
{
    uint16_t host_of[SIMULATE_RANKS_MAX];
    uint16_t tables[COLL_HOSTS_WORDS(SIMULATE_RANKS_MAX)];
    coll_hosts hosts;
    simulate_result result;
    coll_error error;
    for (int rank = 0; rank < ranks; rank++) {
        host_of[rank] = (uint16_t)(rank / per_host);
    }
    coll_hosts_make(&hosts, host_of, ranks, tables);
    const coll_plan plan = {
        .algorithm = algorithm, .kind = kind, .ranks = ranks, .root = ranks / 3, .hosts = &hosts};
    assert_ok(simulate_run(&plan, &prices, bytes, &result, &error), &error);
    return result;
}

/* Past the 64 ranks of a job, too. */
static void test_all_complete(void **state)
{
    static const int sizes[] = {1, 2, 3, 5, 7, 8, 31, 64, 65, 100, 127, 256};
    (void)state;
    for (int kind = COLL_ALL_REDUCE; kind <= COLL_KIND_LAST; kind++) {
        for (int a = COLL_ALGORITHM_RING;
             coll_kind_has_plans((coll_kind)kind) && a <= COLL_ALGORITHM_LAST; a++) {
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                const simulate_result result =
                    run((coll_algorithm)a, (coll_kind)kind, sizes[i], 8, 100000);
                assert_true(sizes[i] == 1 || (result.time_us > 5 && result.messages > 0));
            }
        }
    }
}

/* The ring sends 2 (n-1) blocks from each rank and no byte more; direct sends as many in 2 (n-1)
 * messages; doubling log2 n whole vectors. */
static void test_traffic(void **state)
{
    (void)state;
    for (int n = 2; n <= 64; n *= 2) {
        const double least = 2.0 * (n - 1) * 1e6;
        int rounds = 0;
        while (1 << rounds < n) {
            rounds++;
        }
        const simulate_result ring = run(COLL_ALGORITHM_RING, COLL_ALL_REDUCE, n, 64, 1000000);
        assert_true(ring.bytes > least * 0.999 && ring.bytes < least * 1.001);
        assert_true(ring.messages == 2.0 * n * (n - 1));
        const simulate_result halving =
            run(COLL_ALGORITHM_HALVING_DOUBLING, COLL_ALL_REDUCE, n, 64, 1000000);
        assert_true(halving.bytes > least * 0.999 && halving.bytes < least * 1.001);
        assert_true(halving.messages == 2.0 * n * rounds);
        const simulate_result doubling =
            run(COLL_ALGORITHM_RECURSIVE_DOUBLING, COLL_ALL_REDUCE, n, 64, 1000000);
        assert_true(doubling.messages == (double)n * rounds);
    }
}

/* What `auto` chooses among: the formula is within a factor of two of the simulation. */
static void test_formulas_hold(void **state)
{
    static const size_t vectors[] = {64, 65536, 1 << 20, 1 << 26};
    (void)state;
    for (int a = COLL_ALGORITHM_RING; a <= COLL_ALGORITHM_LAST; a++) {
        const coll_algorithm algorithm = (coll_algorithm)a;
        for (int v = 0; v < 4; v++) {
            for (int hosts = 1; hosts <= 16; hosts *= 2) {
                const int ranks = 8 * hosts;
                const coll_layout layout = {.ranks = ranks,
                                            .hosts = hosts,
                                            .host_ranks_max = 8,
                                            .host_ranks_min = 8,
                                            .contiguous = true,
                                            .aligned = true};
                if (!coll_cost_is_eligible(&layout, COLL_ALL_REDUCE, algorithm)) {
                    continue;
                }
                const double formula =
                    coll_cost_us(&prices, &layout, COLL_ALL_REDUCE, algorithm, vectors[v]);
                const double simulated =
                    run(algorithm, COLL_ALL_REDUCE, ranks, 8, vectors[v]).time_us;
                if (formula < simulated / 2 || formula > simulated * 2) {
                    fail_msg("%s, %d ranks, %zu bytes: formula %.1f us, simulated %.1f us",
                             coll_algorithm_name(algorithm), ranks, vectors[v], formula, simulated);
                }
            }
        }
    }
}

/* Of `ranks` on hosts of `per_host`, but for the last. */
static coll_layout odd_layout(int ranks, int per_host)
{
    const int hosts = (ranks + per_host - 1) / per_host;
    return (coll_layout){.ranks = ranks,
                         .hosts = hosts,
                         .host_ranks_max = per_host,
                         .host_ranks_min = ranks - (hosts - 1) * per_host,
                         .contiguous = true};
}

/* Where a host's ranks are no power of two, partners are on other hosts in early rounds already. The
 * formulas are within 1.6 times of the simulation, and what `auto` chooses is the fastest. */
static void test_hosts_of_any_size(void **state)
{
    static const int per_host[] = {3, 6, 12, 20};
    static const int sizes[] = {4, 8, 16, 24, 32, 48, 64};
    const size_t bytes = 1 << 20;
    (void)state;
    for (size_t i = 0; i < sizeof per_host / sizeof per_host[0]; i++) {
        for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
            const coll_layout layout = odd_layout(sizes[n], per_host[i]);
            double simulated[COLL_ALGORITHM_LAST + 1];
            double least = 1e30;
            for (int a = COLL_ALGORITHM_RING; a <= COLL_ALGORITHM_LAST; a++) {
                const coll_algorithm algorithm = (coll_algorithm)a;
                if (layout.hosts == 1 ||
                    !coll_cost_is_eligible(&layout, COLL_ALL_REDUCE, algorithm)) {
                    continue;
                }
                const double us =
                    run(algorithm, COLL_ALL_REDUCE, sizes[n], per_host[i], bytes).time_us;
                const double formula =
                    coll_cost_us(&prices, &layout, COLL_ALL_REDUCE, algorithm, bytes);
                simulated[algorithm] = us;
                least = us < least ? us : least;
                if (formula < us / 1.6 || formula > us * 1.6) {
                    fail_msg("%s, %d ranks, %d per host: formula %.1f us, simulated %.1f us",
                             coll_algorithm_name(algorithm), sizes[n], per_host[i], formula, us);
                }
            }
            assert_true(layout.hosts == 1 ||
                        simulated[coll_cost_choose(&prices, &layout, COLL_ALL_REDUCE, bytes)] <=
                            least);
        }
    }
}

/* Hosts of 2^k ranks, and a last one that may have fewer: 12 ranks on hosts of 8. The formulas are
 * within 1.6 times of the simulation. */
static void test_last_host_of_any_size(void **state)
{
    static const int per_host[] = {2, 4, 8, 16};
    const size_t bytes = 1 << 20;
    (void)state;
    for (size_t i = 0; i < sizeof per_host / sizeof per_host[0]; i++) {
        for (int ranks = per_host[i] + 1; ranks <= 64; ranks++) {
            coll_layout layout = odd_layout(ranks, per_host[i]);
            layout.aligned = true;
            for (int a = COLL_ALGORITHM_RING; a <= COLL_ALGORITHM_LAST; a++) {
                const coll_algorithm algorithm = (coll_algorithm)a;
                if (!coll_cost_is_eligible(&layout, COLL_ALL_REDUCE, algorithm)) {
                    continue;
                }
                const double us =
                    run(algorithm, COLL_ALL_REDUCE, ranks, per_host[i], bytes).time_us;
                const double formula =
                    coll_cost_us(&prices, &layout, COLL_ALL_REDUCE, algorithm, bytes);
                if (formula < us / 1.6 || formula > us * 1.6) {
                    fail_msg("%s, %d ranks, %d per host: formula %.1f us, simulated %.1f us",
                             coll_algorithm_name(algorithm), ranks, per_host[i], formula, us);
                }
            }
        }
    }
}

/* Small vectors, where latencies decide, of any number of ranks on hosts of any size: halving and doubling of
 * segments that wait for each other is within 1.25 times of the simulation. */
static void test_segments_of_small_vectors(void **state)
{
    static const int per_host[] = {1, 2, 3, 4, 6, 8, 64};
    static const size_t vectors[] = {64, 1024};
    (void)state;
    for (size_t i = 0; i < sizeof per_host / sizeof per_host[0]; i++) {
        for (int ranks = 2; ranks <= 2 * 64 + 1; ranks++) {
            const size_t bytes = vectors[ranks % 2];
            const coll_layout layout = odd_layout(ranks, per_host[i]);
            const double us =
                run(COLL_ALGORITHM_HALVING_DOUBLING, COLL_ALL_REDUCE, ranks, per_host[i], bytes)
                    .time_us;
            const double formula = coll_cost_us(&prices, &layout, COLL_ALL_REDUCE,
                                                COLL_ALGORITHM_HALVING_DOUBLING, bytes);
            if (formula < us / 1.25 || formula > us * 1.25) {
                fail_msg("%d ranks, %d per host: formula %.1f us, simulated %.1f us", ranks,
                         per_host[i], formula, us);
            }
        }
    }
}

/* Hosts of the same 2^k ranks, 2^k of them: what `auto` chooses takes at most 1.2 times as long as the fastest. */
static void test_the_choice_on_whole_hosts(void **state)
{
    static const size_t vectors[] = {1024, 65536, 1 << 20, 1 << 26};
    (void)state;
    for (int ranks = 4; ranks <= 64; ranks *= 2) {
        for (int per_host = 2; per_host < ranks; per_host *= 2) {
            coll_layout layout = odd_layout(ranks, per_host);
            layout.aligned = true;
            for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
                double us[COLL_ALGORITHM_LAST + 1];
                double least = 1e30;
                for (int a = COLL_ALGORITHM_RING; a <= COLL_ALGORITHM_LAST; a++) {
                    if (!coll_cost_is_eligible(&layout, COLL_ALL_REDUCE, (coll_algorithm)a)) {
                        continue;
                    }
                    us[a] = run((coll_algorithm)a, COLL_ALL_REDUCE, ranks, per_host, vectors[v])
                                .time_us;
                    least = us[a] < least ? us[a] : least;
                }
                const coll_algorithm chosen =
                    coll_cost_choose(&prices, &layout, COLL_ALL_REDUCE, vectors[v]);
                if (us[chosen] > 1.2 * least) {
                    fail_msg("%s, %d ranks, %d per host, %zu bytes: %.1f us, not %.1f",
                             coll_algorithm_name(chosen), ranks, per_host, vectors[v], us[chosen],
                             least);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_complete),
        cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_formulas_hold),
        cmocka_unit_test(test_hosts_of_any_size),
        cmocka_unit_test(test_last_host_of_any_size),
        cmocka_unit_test(test_segments_of_small_vectors),
        cmocka_unit_test(test_the_choice_on_whole_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
