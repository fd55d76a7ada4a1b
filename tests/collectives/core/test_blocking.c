/* Each blocking call of coll.h with its own arguments. Ranks are threads. */
#include <string.h>

#include "ranks.h"
#include "support.h"

enum { RANKS = 3, COUNT = 5 };

static void over_all(int size, test_rank_body body)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    for (int i = 0; i < 3; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = size, .transport = transports[i]},
                              body);
    }
}

static bool says(const test_rank *rank, const char *message)
{
    return strstr(rank->error.message, message) != NULL;
}

/* Element i of what a rank gives; no two are alike. */
static int32_t element(int rank, int i)
{
    return 1000 * (rank + 1) + i;
}

static void blocking_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    const int me = rank->rank;
    int32_t given[RANKS * COUNT];
    int32_t taken[RANKS * COUNT];
    for (int i = 0; i < RANKS * COUNT; i++) {
        given[i] = element(me, i);
    }
    memset(taken, 0, sizeof taken);
    RANK_OK(rank, coll_all_to_all(comm, given, taken, COUNT, COLL_INT32, &rank->error));
    for (int i = 0; i < RANKS * COUNT; i++) {
        RANK_CHECK(rank, taken[i] == element(i / COUNT, me * COUNT + i % COUNT));
    }
    memset(taken, 0, sizeof taken);
    RANK_OK(rank,
            coll_reduce_scatter(comm, given, taken, COUNT, COLL_INT32, COLL_MIN, &rank->error));
    for (int i = 0; i < COUNT; i++) {
        RANK_CHECK(rank, taken[i] == element(0, me * COUNT + i));
    }
    memset(taken, 0, sizeof taken);
    RANK_OK(rank, coll_all_reduce(comm, given, taken, COUNT, COLL_INT32, COLL_MAX, &rank->error));
    for (int i = 0; i < COUNT; i++) {
        RANK_CHECK(rank, taken[i] == element(RANKS - 1, i));
    }
    memset(taken, 0, sizeof taken);
    RANK_OK(rank, coll_scan(comm, given, taken, COUNT, COLL_INT32, COLL_MAX, &rank->error));
    for (int i = 0; i < COUNT; i++) {
        RANK_CHECK(rank, taken[i] == element(me, i));
    }
    RANK_OK(rank, coll_exscan(comm, given, taken, COUNT, COLL_INT32, COLL_MAX, &rank->error));
    for (int i = 0; i < COUNT; i++) {
        RANK_CHECK(rank, taken[i] == (me == 0 ? INT32_MIN : element(me - 1, i)));
    }
    RANK_CHECK(rank, coll_scan(comm, given, taken, COUNT, COLL_INT32, COLL_AVERAGE, &rank->error) ==
                         COLL_ERR_INVALID);
    RANK_CHECK(rank, says(rank, "scan has no averages"));
    memset(taken, 0, sizeof taken);
    RANK_OK(rank, coll_all_gather(comm, given, taken, COUNT, COLL_INT32, &rank->error));
    for (int i = 0; i < RANKS * COUNT; i++) {
        RANK_CHECK(rank, taken[i] == element(i / COUNT, i % COUNT));
        RANK_CHECK(rank, given[i] == element(me, i)); /* as it was */
    }
    RANK_OK(rank, coll_broadcast(comm, given, COUNT, COLL_INT32, 2, &rank->error));
    RANK_CHECK(rank, given[0] == element(2, 0) && given[COUNT - 1] == element(2, COUNT - 1));
    RANK_CHECK(rank, given[COUNT] == element(me, COUNT));
    if (me == 1) {
        RANK_OK(rank, coll_send(comm, given + COUNT, COUNT, COLL_INT32, 2, &rank->error));
    } else if (me == 2) {
        RANK_OK(rank, coll_receive(comm, taken, COUNT, COLL_INT32, 1, &rank->error));
        RANK_CHECK(rank, taken[0] == element(1, COUNT));
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void blocking_calls_do_what_they_say(void **state)
{
    (void)state;
    over_all(RANKS, blocking_body);
}

/* Rank r's part has r + 1 elements, and lies behind those of the ranks before it. */
static void rooted_body(test_rank *rank)
{
    static const size_t counts[RANKS] = {1, 2, 3};
    enum { ROOT = 1, PARTS = 1 + 2 + 3 };
    coll_comm *comm = coll_context_world(rank->context);
    const int me = rank->rank;
    const int first = me * (me + 1) / 2;
    int32_t given[RANKS * COUNT];
    int32_t taken[RANKS * COUNT] = {0};
    for (int i = 0; i < RANKS * COUNT; i++) {
        given[i] = element(me, i);
    }
    RANK_OK(rank, coll_reduce(comm, given, taken, COUNT, COLL_INT32, COLL_MAX, ROOT, &rank->error));
    RANK_CHECK(rank, taken[COUNT - 1] == (me == ROOT ? element(RANKS - 1, COUNT - 1) : 0));
    RANK_OK(rank, coll_gather(comm, given, me == ROOT ? taken : NULL, COUNT, COLL_INT32, ROOT,
                              &rank->error));
    for (int i = 0; me == ROOT && i < RANKS * COUNT; i++) {
        RANK_CHECK(rank, taken[i] == element(i / COUNT, i % COUNT));
    }
    RANK_OK(rank, coll_scatter(comm, me == ROOT ? given : NULL, taken, COUNT, COLL_INT32, ROOT,
                               &rank->error));
    for (int i = 0; i < COUNT; i++) {
        RANK_CHECK(rank, taken[i] == element(ROOT, me * COUNT + i));
    }
    RANK_OK(rank, coll_all_gather_v(comm, given, taken, counts, COLL_INT32, &rank->error));
    RANK_CHECK(rank, taken[0] == element(0, 0) && taken[2] == element(1, 1));
    RANK_CHECK(rank, taken[PARTS - 1] == element(2, 2));
    memset(taken, 0, sizeof taken);
    RANK_OK(rank, coll_gather_v(comm, given, taken, counts, COLL_INT32, ROOT, &rank->error));
    RANK_CHECK(rank, taken[2] == (me == ROOT ? element(1, 1) : 0));
    RANK_OK(rank, coll_scatter_v(comm, given, taken, counts, COLL_INT32, ROOT, &rank->error));
    RANK_CHECK(rank, taken[0] == element(ROOT, first) && taken[me] == element(ROOT, first + me));
    RANK_OK(rank,
            coll_reduce_scatter_v(comm, given, taken, counts, COLL_INT32, COLL_MIN, &rank->error));
    RANK_CHECK(rank, taken[me] == element(0, first + me));
}

static void blocking_calls_with_a_root_or_counts_do_what_they_say(void **state)
{
    (void)state;
    over_all(RANKS, rooted_body);
}

/* Calls that differ in one thing only, from the same memory into the same: each is what it says,
 * not what the one before it was. */
static void alike_body(test_rank *rank)
{
    static const struct {
        coll_type type;
        coll_reduce_op reduce;
        uint8_t expected; /* of 0x10 and 0xf0 */
    } calls[] = {{COLL_UINT8, COLL_MAX, 0xf0},
                 {COLL_INT8, COLL_MAX, 0x10},
                 {COLL_UINT8, COLL_MIN, 0x10},
                 {COLL_INT8, COLL_MIN, 0xf0},
                 {COLL_INT8, COLL_SUM, 0x00}};
    enum { CALLS = sizeof calls / sizeof calls[0], ROUNDS = 4 * CALLS };
    coll_comm *comm = coll_context_world(rank->context);
    uint8_t given[COUNT];
    uint8_t taken[COUNT];
    memset(given, rank->rank == 0 ? 0x10 : 0xf0, COUNT);
    for (int i = 0; i < ROUNDS; i++) {
        const int call = i < ROUNDS / 2 ? i % CALLS : i * i % CALLS;
        memset(taken, 0xee, COUNT);
        RANK_OK(rank, coll_all_reduce(comm, given, taken, COUNT, calls[call].type,
                                      calls[call].reduce, &rank->error));
        RANK_CHECK(rank, taken[0] == calls[call].expected);
        RANK_CHECK(rank, taken[COUNT - 1] == calls[call].expected);
    }
}

static void calls_that_are_alike_are_not_the_same(void **state)
{
    (void)state;
    over_all(2, alike_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocking_calls_do_what_they_say),
        cmocka_unit_test(blocking_calls_with_a_root_or_counts_do_what_they_say),
        cmocka_unit_test(calls_that_are_alike_are_not_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
