/* coll_comm_operations and coll_comm_operation_bytes: every operation is counted once, by whatever
 * path it goes. coll_context_bytes_sent: so is what it sends. Ranks are threads. */
#include <stdlib.h>

#include "ranks.h"
#include "support.h"

enum { LARGE = 50000, STARTED = 40 };

/* How often each kind was called. */
typedef struct calls {
    uint64_t of[COLL_RECEIVE + 1];
    uint64_t bytes[COLL_RECEIVE + 1];
} calls;

static void expect(calls *expected, coll_kind kind, uint64_t count, uint64_t bytes_each)
{
    expected->of[kind] += count;
    expected->bytes[kind] += count * bytes_each;
}

static bool counted(const coll_comm *comm, const calls *expected)
{
    for (int kind = COLL_ALL_REDUCE; kind <= COLL_RECEIVE; kind++) {
        if (coll_comm_operations(comm, (coll_kind)kind) != expected->of[kind]) {
            return false;
        }
        if (coll_comm_operation_bytes(comm, (coll_kind)kind) != expected->bytes[kind]) {
            return false;
        }
    }
    return true;
}

/* Blocking calls: in flags, in the arena, and from plain memory. */
static void call_blocking(test_rank *rank, coll_comm *comm, float *shared, float *own,
                          calls *expected)
{
    const int peer = 1 - rank->rank;
    for (int i = 0; i < 3; i++) {
        RANK_OK(rank, coll_all_reduce(comm, own, own, 1, COLL_FLOAT32, COLL_SUM, &rank->error));
        RANK_OK(rank,
                coll_all_reduce(comm, shared, shared, LARGE, COLL_FLOAT32, COLL_SUM, &rank->error));
        RANK_OK(rank, coll_all_reduce(comm, own, own, LARGE, COLL_FLOAT32, COLL_MAX, &rank->error));
        expect(expected, COLL_ALL_REDUCE, 1, sizeof *own);
        expect(expected, COLL_ALL_REDUCE, 2, LARGE * sizeof *own);
    }
    RANK_OK(rank, coll_broadcast(comm, own, LARGE, COLL_FLOAT32, 1, &rank->error));
    RANK_OK(rank, coll_all_gather(comm, own, shared, 8, COLL_FLOAT32, &rank->error));
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    RANK_OK(rank, rank->rank == 0
                      ? coll_send(comm, own, LARGE, COLL_FLOAT32, peer, &rank->error)
                      : coll_receive(comm, own, LARGE, COLL_FLOAT32, peer, &rank->error));
    expect(expected, COLL_BROADCAST, 1, LARGE * sizeof *own);
    expect(expected, COLL_ALL_GATHER, 1, 2 * 8 * sizeof *own);
    expect(expected, COLL_BARRIER, 1, 0);
    expect(expected, rank->rank == 0 ? COLL_SEND : COLL_RECEIVE, 1, LARGE * sizeof *own);
}

/* One operation started again and again, more at a time than may be posted. */
static void call_queued(test_rank *rank, coll_comm *comm, float *shared, calls *expected)
{
    coll_request *requests[STARTED] = {NULL};
    coll_op *op = NULL;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_REDUCE,
                               .send = shared,
                               .recv = shared,
                               .count = LARGE,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_MAX};
    for (int i = 0; i < STARTED; i++) {
        RANK_OK(rank, coll_start(
                          comm, &(coll_op_desc){.size = sizeof(coll_op_desc), .kind = COLL_BARRIER},
                          &requests[i], &rank->error));
    }
    expect(expected, COLL_BARRIER, STARTED, 0);
    RANK_CHECK(rank, counted(comm, expected)); /* under way, too */
    RANK_OK(rank, coll_request_wait_all(requests, STARTED, &rank->error));
    RANK_OK(rank, coll_op_create(comm, &desc, &op, &rank->error));
    RANK_CHECK(rank, counted(comm, expected));
    for (int i = 0; i < 5; i++) {
        RANK_OK(rank, coll_op_start(op, &rank->error));
        RANK_OK(rank, coll_op_wait(op, &rank->error));
    }
    coll_op_destroy(op);
    expect(expected, COLL_ALL_REDUCE, 5, LARGE * sizeof *shared);
}

static void count_body(test_rank *rank)
{
    coll_comm *world = coll_context_world(rank->context);
    coll_comm *split = NULL;
    coll_arena *arena = NULL;
    calls expected = {.of = {0}};
    float *own = calloc(LARGE, sizeof *own);
    RANK_CHECK(rank, own != NULL && counted(world, &expected)); /* links may have been measured */
    RANK_OK(rank, coll_comm_split(world, 0, -rank->rank, &split, &rank->error));
    RANK_OK(rank, coll_arena_create(world, LARGE * sizeof(float), &arena, &rank->error));
    RANK_CHECK(rank, counted(world, &expected) && counted(split, &expected));
    call_blocking(rank, world, coll_arena_data(arena), own, &expected);
    RANK_CHECK(rank, counted(world, &expected));
    call_queued(rank, world, coll_arena_data(arena), &expected);
    RANK_CHECK(rank, counted(world, &expected));
    RANK_CHECK(rank, counted(split, &(calls){.of = {0}}));
    RANK_CHECK(rank,
               coll_all_reduce(world, NULL, NULL, 1, COLL_FLOAT32, COLL_SUM, NULL) != COLL_OK);
    RANK_CHECK(rank, counted(world, &expected)); /* refused, and not begun */
    RANK_CHECK(rank, coll_comm_operations(world, (coll_kind)0) == 0);
    coll_arena_destroy(arena);
    coll_comm_destroy(split);
    free(own);
}

static void each_operation_is_counted_once(void **state)
{
    (void)state;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    for (int i = 0; i < 3; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = transports[i]},
                              count_body);
    }
}

/* ---- bytes that are sent ---- */

enum { RANKS = 3, SHORT = 8, MIDDLE = 500, LONG = RANKS * 16 * 1000 }; /* elements */

/* What a rank sends over shared memory in an operation of `bytes`: once to each peer that takes it,
 * but in reductions of long vectors each rank combines a third. */
static uint64_t sent_of(coll_kind kind, uint64_t bytes, bool is_long, int rank)
{
    const bool is_root = rank == 1;
    switch (kind) {
    case COLL_ALL_REDUCE:
        return is_long ? 2 * (RANKS - 1) * bytes / RANKS : (RANKS - 1) * bytes;
    case COLL_REDUCE:
        return is_long ? bytes - (is_root ? bytes / RANKS : 0) : (is_root ? 0 : bytes);
    case COLL_GATHER:
        return is_root ? 0 : bytes;
    case COLL_BROADCAST:
    case COLL_SCATTER:
        return is_root ? (RANKS - 1) * bytes : 0;
    case COLL_BARRIER:
        return 0;
    case COLL_SCAN:
    case COLL_EXSCAN: /* to the ranks above */
        return (uint64_t)(RANKS - 1 - rank) * bytes;
    default:
        return (RANKS - 1) * bytes;
    }
}

static void sends(test_rank *rank, coll_kind kind, float *data, size_t count)
{
    const uint64_t before = coll_context_bytes_sent(rank->context);
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = kind,
                               .send = data,
                               .recv = data + RANKS * LONG,
                               .count = kind == COLL_BARRIER ? 0 : count,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM,
                               .root = 1};
    RANK_OK(rank, coll_run(coll_context_world(rank->context), &desc, &rank->error));
    const uint64_t wanted = sent_of(kind, count * sizeof *data, count == LONG, rank->rank);
    const uint64_t sent = coll_context_bytes_sent(rank->context) - before;
    if (sent != wanted) {
        test_rank_fail(rank, "%s of %zu: %llu bytes and not %llu", coll_kind_name(kind), count,
                       (unsigned long long)sent, (unsigned long long)wanted);
    }
}

static void sent_body(test_rank *rank)
{
    static const size_t counts[] = {SHORT, MIDDLE, LONG};
    coll_arena *arena = NULL;
    const size_t bytes = 2 * RANKS * LONG * sizeof(float);
    float *own = calloc(1, bytes);
    RANK_CHECK(rank, own != NULL);
    RANK_OK(rank,
            coll_arena_create(coll_context_world(rank->context), bytes, &arena, &rank->error));
    for (int kind = COLL_ALL_REDUCE; kind <= COLL_BARRIER; kind++) {
        for (int i = 0; i < 2 * 3; i++) {
            sends(rank, (coll_kind)kind, i < 3 ? own : coll_arena_data(arena), counts[i % 3]);
        }
    }
    coll_arena_destroy(arena);
    free(own);
}

/* Over sockets it depends on the algorithm; of these it does not. */
static void sent_over_sockets_body(test_rank *rank)
{
    float *data = calloc(2 * RANKS * LONG, sizeof *data);
    RANK_CHECK(rank, data != NULL);
    sends(rank, COLL_ALL_REDUCE, data, SHORT);
    sends(rank, COLL_ALL_REDUCE, data, MIDDLE);
    for (coll_kind kind = COLL_SCAN; kind <= COLL_EXSCAN; kind++) {
        sends(rank, kind, data, SHORT);
        sends(rank, kind, data, MIDDLE);
    }
    sends(rank, COLL_ALL_GATHER, data, SHORT);
    sends(rank, COLL_ALL_GATHER, data, LONG);
    free(data);
}

static void what_is_sent_is_counted(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = RANKS, .transport = COLL_TRANSPORT_SHM},
                          sent_body);
    test_ranks_as_threads(&(test_ranks_options){.size = RANKS, .transport = COLL_TRANSPORT_TCP},
                          sent_over_sockets_body);
    test_ranks_as_threads(&(test_ranks_options){.size = RANKS, .transport = COLL_TRANSPORT_ZMQ},
                          sent_over_sockets_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operation_is_counted_once),
        cmocka_unit_test(what_is_sent_is_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
