/* Several hosts with several ranks each: the identities of this process's ranks are made to differ,
 * and 127.0.0.1 to pass for an address that all hosts reach. Everything else is the real thing. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "common/kinds.h"
#include "grid_case.h"
#include "other_hosts.h"
#include "small_sockets.h"
#include "support.h"

enum { RANKS_MAX = 6, BYTES = 1 << 23 };

typedef struct layout {
    int size;
    int hosts[RANKS_MAX]; /* by rank */
} layout;

static coll_status join(test_rank *rank, coll_transport transport)
{
    const layout *l = rank->user;
    coll_context_options options = test_rank_options(rank);
    other_host_here = l->hosts[rank->rank];
    options.transport = transport;
    return coll_context_create(&options, &rank->context, &rank->error);
}

static bool run_kinds(grid_rank *g, size_t count, grid_placement placement, bool varies)
{
    for (int kind = COLL_ALL_REDUCE; kind <= COLL_KIND_LAST; kind++) {
        if (kind == COLL_BARRIER || kind == COLL_RECEIVE ||
            (varies && !coll_kind_is_by_rank((coll_kind)kind))) {
            continue;
        }
        for (int algorithm = COLL_ALGORITHM_AUTO; algorithm <= COLL_ALGORITHM_LAST; algorithm++) {
            /* Where hosts interleave, two_level has an order of its own. */
            const bool exact = algorithm == COLL_ALGORITHM_TWO_LEVEL;
            const grid_case c = {.kind = (coll_kind)kind,
                                 .varies = varies,
                                 .count = count,
                                 .type = exact ? COLL_INT32 : COLL_FLOAT32,
                                 .reduce = COLL_SUM,
                                 .root = g->rank->size > 2 ? 1 : 0,
                                 .algorithm = (coll_algorithm)algorithm,
                                 .placement = placement};
            if (!grid_case_run(g, &c)) {
                return false;
            }
        }
    }
    return true;
}

/* Everything on all ranks, then an arena shared inside each host. */
static void hybrid_body(test_rank *rank)
{
    const layout *l = rank->user;
    static const size_t counts[] = {1, 14, 1000, 10007, 50021};
    RANK_OK(rank, join(rank, COLL_TRANSPORT_AUTO));
    RANK_CHECK(rank, coll_context_transport(rank->context) == COLL_TRANSPORT_AUTO);
    grid_rank g = {.rank = rank, .comm = coll_context_world(rank->context), .bytes = BYTES};
    RANK_OK(rank, coll_arena_create(g.comm, BYTES, &g.arena, &rank->error));
    g.memory = malloc(BYTES);
    RANK_CHECK(rank, g.memory != NULL);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const grid_placement placement = c % 2 == 0 ? GRID_APART : GRID_ARENA_IN_PLACE;
        if (!run_kinds(&g, counts[c], placement, false) ||
            !run_kinds(&g, counts[c], placement, true)) {
            break;
        }
    }
    free(g.memory);
    coll_arena_destroy(g.arena);

    coll_comm *host = NULL;
    coll_arena *arena = NULL;
    RANK_OK(rank, coll_comm_split(coll_context_world(rank->context), l->hosts[rank->rank],
                                  rank->rank, &host, &rank->error));
    RANK_OK(rank, coll_arena_create(host, 1 << 16, &arena, &rank->error));
    int32_t *data = coll_arena_data(arena);
    for (int i = 0; i < 5000; i++) {
        data[i] = i + rank->rank;
    }
    const uint64_t before = coll_context_bytes_sent(rank->context);
    RANK_OK(rank, coll_all_reduce(host, data, data, 5000, COLL_INT32, COLL_SUM, &rank->error));
    int32_t expected = 0;
    for (int r = 0; r < rank->size; r++) {
        expected += l->hosts[r] == l->hosts[rank->rank] ? 4999 + r : 0;
    }
    RANK_CHECK(rank, data[4999] == expected);
    RANK_CHECK(rank, coll_context_bytes_sent(rank->context) >= before);
    coll_arena_destroy(arena);
    coll_comm_destroy(host);
    coll_context_destroy(rank->context);
}

static void run_layouts(test_rank_body body, const layout *layouts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        layout l = layouts[i];
        test_ranks_as_threads(&(test_ranks_options){.size = l.size, .user = &l, .bare = true},
                              body);
    }
}

static void test_all_kinds(void **state)
{
    (void)state;
    static const layout layouts[] = {
        {4, {0, 0, 1, 1}}, {4, {0, 1, 0, 1}}, {3, {0, 0, 1}}, {5, {0, 1, 2, 2, 0}}};
    run_layouts(hybrid_body, layouts, sizeof layouts / sizeof layouts[0]);
}

static void alone_body(test_rank *rank)
{
    RANK_OK(rank, join(rank, COLL_TRANSPORT_AUTO));
    RANK_CHECK(rank, coll_context_transport(rank->context) == COLL_TRANSPORT_TCP);
    RANK_OK(rank, coll_barrier(coll_context_world(rank->context), &rank->error));
    coll_context_destroy(rank->context);
}

static void test_one_rank_per_host(void **state)
{
    (void)state;
    static const layout layouts[] = {{2, {0, 1}}, {3, {0, 1, 2}}};
    run_layouts(alone_body, layouts, sizeof layouts / sizeof layouts[0]);
}

static void shm_body(test_rank *rank)
{
    RANK_CHECK(rank, join(rank, COLL_TRANSPORT_SHM) == COLL_ERR_UNSUPPORTED);
    RANK_CHECK(rank, strstr(rank->error.message, "is elsewhere") != NULL);
}

static void test_shm_is_refused(void **state)
{
    (void)state;
    static const layout layouts[] = {{2, {0, 1}}};
    run_layouts(shm_body, layouts, 1);
}

/* Rank 2 leaves before the barrier that the others are in: each host says so. */
static void left_body(test_rank *rank)
{
    RANK_OK(rank, join(rank, COLL_TRANSPORT_AUTO));
    coll_comm *comm = coll_context_world(rank->context);
    if (rank->rank != 2) {
        const coll_status status = coll_barrier(comm, &rank->error);
        RANK_CHECK(rank, status == COLL_ERR_PEER);
        RANK_CHECK(rank, strstr(rank->error.message, "rank 2 (host host1") != NULL);
    }
    coll_context_destroy(rank->context);
}

static void test_a_rank_that_leaves_is_named(void **state)
{
    (void)state;
    static const layout layouts[] = {{4, {0, 0, 1, 1}}};
    run_layouts(left_body, layouts, 1);
}

/* The root of a few broadcasts has destroyed its context before the others begin with them. */
static void gone_body(test_rank *rank)
{
    static atomic_int gone;
    enum { OPS = 10, COUNT = 600 };
    int32_t values[COUNT] = {0};
    RANK_OK(rank, join(rank, COLL_TRANSPORT_AUTO));
    coll_comm *comm = coll_context_world(rank->context);
    const int root = rank->size - 1;
    atomic_store(&gone, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    while (rank->rank != root && atomic_load(&gone) == 0) {
        (void)sched_yield();
    }
    for (int i = 0; i < OPS; i++) {
        values[COUNT - 1] = rank->rank == root ? i + 1 : 0;
        RANK_OK(rank, coll_broadcast(comm, values, COUNT, COLL_INT32, root, &rank->error));
        RANK_CHECK(rank, values[COUNT - 1] == i + 1);
    }
    coll_context_destroy(rank->context);
    atomic_store(&gone, 1); /* no matter who comes first */
}

static void test_root_is_gone(void **state)
{
    (void)state;
    static const layout layouts[] = {{3, {0, 0, 1}}, {3, {0, 1, 1}}, {4, {0, 0, 1, 1}}};
    run_layouts(gone_body, layouts, sizeof layouts / sizeof layouts[0]);
}

/* Rank 0 sends a message to another host, one to its own, and is elsewhere until both are there. */
static void sent_body(test_rank *rank)
{
    enum { COUNT = 22000 }; /* more than the sockets hold, and less than a stream */
    static int32_t data[3][COUNT];
    static atomic_int taken;
    RANK_OK(rank, join(rank, COLL_TRANSPORT_AUTO));
    coll_comm *comm = coll_context_world(rank->context);
    int32_t *mine = data[rank->rank];
    atomic_store(&taken, 0);
    mine[COUNT - 1] = rank->rank == 0 ? 7 : 0;
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 0) {
        RANK_OK(rank, coll_send(comm, mine, COUNT, COLL_INT32, 1, &rank->error));
        RANK_OK(rank, coll_send(comm, mine, COUNT, COLL_INT32, 2, &rank->error));
        const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
        while (atomic_load(&taken) < 2 && base_now_ns() < deadline_ns) {
            (void)sched_yield();
        }
        RANK_CHECK(rank, atomic_load(&taken) == 2);
    } else {
        RANK_OK(rank, coll_receive(comm, mine, COUNT, COLL_INT32, 0, &rank->error));
        RANK_CHECK(rank, mine[COUNT - 1] == 7);
        (void)atomic_fetch_add(&taken, 1);
    }
    coll_context_destroy(rank->context);
}

static void test_what_was_sent_arrives(void **state)
{
    (void)state;
    static const layout layouts[] = {{3, {0, 0, 1}}};
    test_small_sockets = true;
    run_layouts(sent_body, layouts, 1);
    test_small_sockets = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds),      cmocka_unit_test(test_one_rank_per_host),
        cmocka_unit_test(test_shm_is_refused), cmocka_unit_test(test_a_rank_that_leaves_is_named),
        cmocka_unit_test(test_root_is_gone),   cmocka_unit_test(test_what_was_sent_arrives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
