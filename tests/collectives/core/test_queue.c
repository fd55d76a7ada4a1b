/* Many operations under way, on one communicator and on several: a thousand outstanding, operations
 * started again, splits, and a root that runs ahead of a slow peer. Ranks are threads. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"

enum { MANY = 1200, COUNT = 40, LONG_COUNT = 20000 };

static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                            COLL_TRANSPORT_TCP};
enum { TRANSPORTS = sizeof transports / sizeof transports[0] };

static void on_all(int size, test_rank_body body)
{
    for (int t = 0; t < TRANSPORTS; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = size, .transport = transports[t]},
                              body);
    }
}

/* The kinds in turn, short ones and some that need streams. */
static coll_op_desc nth(int i, int size, int32_t *send, int32_t *recv)
{
    static const coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_BROADCAST, COLL_REDUCE, COLL_ALL_GATHER,
                                      COLL_ALL_TO_ALL};
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = kinds[i % 5],
                          .send = send,
                          .recv = recv,
                          .count = i % 50 == 0 ? LONG_COUNT : COUNT,
                          .type = COLL_INT32,
                          .reduce = COLL_SUM,
                          .root = i % size,
                          .algorithm = (coll_algorithm)(i % 7)};
}

/* What the first element of recv must be, with inputs of i + rank. */
static int32_t expected(int i, const test_rank *rank, int32_t before)
{
    const int n = rank->size;
    const int root = i % n;
    switch (i % 5) {
    case 0:
        return n * i + n * (n - 1) / 2;
    case 1:
        return i + root;
    case 2:
        return rank->rank == root ? n * i + n * (n - 1) / 2 : before;
    default:
        return i;
    }
}

static void many_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    const size_t room = (size_t)LONG_COUNT * (size_t)rank->size;
    static int32_t *blocks[3][MANY];
    int32_t **memory = blocks[rank->rank];
    coll_request *requests[MANY] = {NULL};
    for (int i = 0; i < MANY; i++) {
        const size_t size = i % 50 == 0 ? room : (size_t)COUNT * (size_t)rank->size;
        memory[i] = calloc(2 * size, sizeof(int32_t));
        RANK_CHECK(rank, memory[i] != NULL);
        const coll_op_desc desc = nth(i, rank->size, memory[i], memory[i] + size);
        for (size_t k = 0; k < size; k++) {
            memory[i][k] = i + rank->rank;
        }
        memory[i][size] = -7;
        RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
    }
    RANK_OK(rank, coll_context_progress(rank->context, &rank->error));
    for (int i = MANY - 1; i >= 0; i -= 3) { /* some from the last on, then the rest */
        RANK_OK(rank, coll_request_wait(&requests[i], &rank->error));
    }
    RANK_OK(rank, coll_request_wait_all(requests, MANY, &rank->error));
    for (int i = 0; i < MANY; i++) {
        const size_t size = i % 50 == 0 ? room : (size_t)COUNT * (size_t)rank->size;
        RANK_CHECK(rank, memory[i][size] == expected(i, rank, -7));
        free(memory[i]);
    }
}

static void test_thousand_outstanding(void **state)
{
    (void)state;
    on_all(3, many_body);
}

/* Operations are started again as soon as they are done, in an order that differs by rank. */
static void again_body(test_rank *rank)
{
    enum { OPS = 8, ROUNDS = 100 };
    coll_comm *comm = coll_context_world(rank->context);
    int64_t data[OPS][32];
    coll_op *ops[OPS] = {NULL};
    for (int i = 0; i < OPS; i++) {
        const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                   .kind = COLL_ALL_REDUCE,
                                   .send = data[i],
                                   .recv = data[i],
                                   .count = i % 2 == 0 ? 3 : 32,
                                   .type = COLL_INT64,
                                   .reduce = COLL_MAX};
        RANK_OK(rank, coll_op_create(comm, &desc, &ops[i], &rank->error));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < OPS; i++) {
            data[i][0] = round * 10 + i + rank->rank;
            RANK_OK(rank, coll_op_start(ops[i], &rank->error));
        }
        for (int k = 0; k < OPS; k++) {
            const int i = (k * 3 + rank->rank) % OPS;
            RANK_OK(rank, coll_op_wait(ops[i], &rank->error));
            RANK_CHECK(rank, data[i][0] == round * 10 + i + rank->size - 1);
        }
    }
    for (int i = 0; i < OPS; i++) {
        coll_op_destroy(ops[i]);
    }
}

static void test_started_again(void **state)
{
    (void)state;
    on_all(3, again_body);
}

/* Rows and columns of a grid of ranks, split from the world, used at once and in any order. */
static void split_body(test_rank *rank)
{
    enum { WIDTH = 3, ROUNDS = 40 };
    coll_comm *world = coll_context_world(rank->context);
    coll_comm *row = NULL;
    coll_comm *column = NULL;
    coll_comm *none = NULL;
    const int x = rank->rank % WIDTH;
    const int y = rank->rank / WIDTH;
    RANK_OK(rank, coll_comm_split(world, y, -x, &row, &rank->error));
    RANK_OK(rank, coll_comm_split(world, x, 0, &column, &rank->error));
    RANK_OK(rank, coll_comm_split(world, -1, 5, &none, &rank->error));
    RANK_CHECK(rank, none == NULL);
    RANK_CHECK(rank, coll_comm_size(row) == WIDTH && coll_comm_rank(row) == WIDTH - 1 - x);
    RANK_CHECK(rank, coll_comm_size(column) == 2 && coll_comm_rank(column) == y);
    for (int i = 0; i < ROUNDS; i++) {
        int32_t in_row[600];
        int32_t in_column[600];
        int32_t in_world = 1;
        coll_request *requests[3] = {NULL};
        coll_op_desc desc = {.size = sizeof(coll_op_desc),
                             .kind = COLL_ALL_REDUCE,
                             .send = in_row,
                             .recv = in_row,
                             .count = 600,
                             .type = COLL_INT32,
                             .reduce = COLL_SUM};
        memset(in_row, 0, sizeof in_row);
        memset(in_column, 0, sizeof in_column);
        in_row[0] = x;
        in_column[599] = y + i;
        const int first = (rank->rank + i) % 2; /* ranks differ in which they start first */
        for (int k = 0; k < 2; k++) {
            const bool by_row = (k + first) % 2 == 0;
            desc.send = by_row ? in_row : in_column;
            desc.recv = by_row ? in_row : in_column;
            RANK_OK(rank, coll_start(by_row ? row : column, &desc, &requests[k], &rank->error));
        }
        RANK_OK(rank, coll_all_reduce(world, &in_world, &in_world, 1, COLL_INT32, COLL_SUM,
                                      &rank->error));
        RANK_OK(rank, coll_request_wait_all(requests, 3, &rank->error));
        RANK_CHECK(rank, in_world == rank->size);
        RANK_CHECK(rank, in_row[0] == 0 + 1 + 2 && in_column[599] == 1 + 2 * i);
    }
    coll_comm_destroy(column);
    coll_comm_destroy(row);
    RANK_OK(rank, coll_barrier(world, &rank->error));
}

static void test_split(void **state)
{
    (void)state;
    on_all(6, split_body);
}

/* Parts of the same sum, but not the same: named as such on every rank. */
static void parts_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    const size_t mine[3] = {4, 5, rank->rank == 1 ? 7 : 6};
    const size_t other[3] = {5, 4, 6};
    int32_t send[8] = {0};
    int32_t recv[16];
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_GATHER,
                               .send = send,
                               .recv = recv,
                               .counts = rank->rank == 2 ? other : mine,
                               .type = COLL_INT32};
    RANK_CHECK(rank, coll_run(comm, &desc, &rank->error) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, strstr(rank->error.message, "calls all_gather int32 × 15 in parts") != NULL);
}

static void test_parts_mismatch(void **state)
{
    (void)state;
    on_all(3, parts_body);
}

/* A root with hundreds of broadcasts and a peer that does nothing: what the root puts out stays
 * within its credit, however often it tries. Then the peer goes on, and all ends well. */
static void credit_body(test_rank *rank)
{
    enum { OPS = 300, CREDIT_BYTES = 2 << 20 };
    static atomic_bool tried;
    coll_comm *comm = coll_context_world(rank->context);
    static int32_t memory[2][OPS][5000];
    coll_request *requests[OPS] = {NULL};
    if (rank->rank == 0) {
        atomic_store(&tried, false);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    while (rank->rank == 1 && !atomic_load(&tried)) {
        sched_yield(); /* a peer that is elsewhere */
    }
    const uint64_t before = coll_context_bytes_sent(rank->context);
    for (int i = 0; i < OPS; i++) {
        int32_t *data = memory[rank->rank][i];
        const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                   .kind = COLL_BROADCAST,
                                   .send = data,
                                   .recv = data,
                                   .count = 5000,
                                   .type = COLL_INT32};
        data[4999] = rank->rank == 0 ? i : -1;
        RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
    }
    for (int i = 0; rank->rank == 0 && i < 2000; i++) {
        RANK_OK(rank, coll_context_progress(rank->context, &rank->error));
    }
    if (rank->rank == 0) {
        RANK_CHECK(rank, coll_context_bytes_sent(rank->context) - before <= CREDIT_BYTES);
        atomic_store(&tried, true);
    }
    RANK_OK(rank, coll_request_wait_all(requests, OPS, &rank->error));
    for (int i = 0; i < OPS; i++) {
        RANK_CHECK(rank, memory[rank->rank][i][4999] == i);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void test_credit(void **state)
{
    (void)state;
    on_all(2, credit_body);
}

typedef enum other {
    OTHER_REDUCE,  /* on another communicator */
    OTHER_MESSAGE, /* the same */
    OWN_MESSAGE,   /* on the communicator itself */
    OTHERS,
} other;

static bool await(atomic_int *value, int wanted)
{
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    while (atomic_load(value) < wanted && base_now_ns() < deadline_ns) {
        (void)sched_yield();
    }
    return atomic_load(value) >= wanted;
}

/* What ranks 1 and 2 do when rank 0 has started its part. */
static coll_status answer(test_rank *rank, other which, coll_comm *comm, int32_t *values,
                          coll_request **request)
{
    const coll_op_desc reduce = {.size = sizeof(coll_op_desc),
                                 .kind = COLL_ALL_REDUCE,
                                 .send = values,
                                 .recv = &values[1],
                                 .count = 1,
                                 .type = COLL_INT32,
                                 .reduce = COLL_SUM};
    coll_status status = COLL_OK;
    if (rank->rank == 1 && which == OTHER_REDUCE) {
        status = coll_start(comm, &reduce, request, &rank->error);
    } else if (rank->rank == (which == OWN_MESSAGE ? 2 : 1)) {
        status = coll_send(comm, values, 1, COLL_INT32, 0, &rank->error);
    }
    if (status == COLL_OK && rank->rank == 2) {
        int32_t given = 9;
        status = coll_broadcast(comm, &given, 1, COLL_INT32, 1, &rank->error);
    }
    return status;
}

/* Rank 0 starts something that ranks 1 and 2 answer later; rank 2 gives a broadcast as well, which
 * is all that rank 0 calls then. What was started must have ended with it. */
static void others_body(test_rank *rank)
{
    static const int32_t wanted[OTHERS] = {11, 6, 7};
    static const int pairs[][2] = {{0, 1}, {0, 2}};
    static atomic_int started;
    static atomic_int answered;
    const other which = *(const other *)rank->user;
    coll_comm *comms[2] = {NULL, NULL};
    coll_request *request = NULL;
    int32_t values[2] = {rank->rank + 5, -1};
    int32_t given = 0;
    atomic_store(&started, 0);
    atomic_store(&answered, 0);
    for (int i = 0; i < 2; i++) {
        if (rank->rank == 0 || rank->rank == i + 1) {
            RANK_OK(rank, coll_comm_create(rank->context, pairs[i], 2, &comms[i], &rank->error));
        }
    }
    RANK_OK(rank, coll_barrier(coll_context_world(rank->context), &rank->error));
    if (rank->rank == 0) {
        const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                   .kind = which == OTHER_REDUCE ? COLL_ALL_REDUCE : COLL_RECEIVE,
                                   .send = values,
                                   .recv = &values[1],
                                   .count = 1,
                                   .type = COLL_INT32,
                                   .reduce = COLL_SUM,
                                   .root = 1};
        RANK_OK(rank, coll_start(comms[which == OWN_MESSAGE], &desc, &request, &rank->error));
        atomic_store(&started, 1);
        RANK_CHECK(rank, await(&answered, 2));
        RANK_OK(rank, coll_broadcast(comms[1], &given, 1, COLL_INT32, 1, &rank->error));
        RANK_CHECK(rank, given == 9 && values[1] == wanted[which]);
    } else {
        RANK_CHECK(rank, await(&started, 1));
        RANK_OK(rank, answer(rank, which, comms[rank->rank - 1], values, &request));
        (void)atomic_fetch_add(&answered, 1);
    }
    RANK_OK(rank, coll_request_wait(&request, &rank->error));
    coll_comm_destroy(comms[0]);
    coll_comm_destroy(comms[1]);
}

static void test_blocking_moves_others(void **state)
{
    (void)state;
    for (int i = 0; i < OTHERS; i++) {
        other which = (other)i;
        test_ranks_as_threads(
            &(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_SHM, .user = &which},
            others_body);
    }
}

/* Rank 0 starts its newest operation again while an older one still waits for its peer, which reads
 * from this rank's arena: both are done, and so is what comes behind them. */
static void newest_body(test_rank *rank)
{
    static atomic_int posted;
    static atomic_int again;
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    coll_op *ops[2] = {NULL};
    int32_t given = rank->rank == 0 ? 1 : -1;
    RANK_OK(rank, coll_arena_create(comm, 3 * LONG_COUNT * sizeof given, &arena, &rank->error));
    int32_t *data = coll_arena_data(arena);
    data[0] = rank->rank + 5;
    const coll_op_desc descs[2] = {{.size = sizeof(coll_op_desc),
                                    .kind = COLL_GATHER,
                                    .send = data,
                                    .recv = data + LONG_COUNT,
                                    .count = LONG_COUNT,
                                    .type = COLL_INT32,
                                    .root = 1},
                                   {.size = sizeof(coll_op_desc),
                                    .kind = COLL_BROADCAST,
                                    .send = &given,
                                    .recv = &given,
                                    .count = 1,
                                    .type = COLL_INT32}};
    atomic_store(rank->rank == 0 ? &again : &posted, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    for (int i = 0; i < 2; i++) {
        RANK_OK(rank, coll_op_create(comm, &descs[i], &ops[i], &rank->error));
        RANK_OK(rank, coll_op_start(ops[i], &rank->error));
    }
    if (rank->rank == 0) {
        RANK_CHECK(rank, await(&posted, 1));
    } else {
        atomic_store(&posted, 1);
        RANK_CHECK(rank, await(&again, 1));
    }
    RANK_OK(rank, coll_op_wait(ops[1], &rank->error));
    RANK_CHECK(rank, given == 1);
    given += 1 - rank->rank;
    RANK_OK(rank, coll_op_start(ops[1], &rank->error));
    atomic_store(&again, 1);
    RANK_OK(rank, coll_op_wait(ops[0], &rank->error));
    RANK_OK(rank, coll_op_wait(ops[1], &rank->error));
    RANK_CHECK(rank, given == 2 && (rank->rank == 0 || data[LONG_COUNT] == 5));
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    coll_op_destroy(ops[1]);
    coll_op_destroy(ops[0]);
}

static void test_newest_again(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          newest_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thousand_outstanding),
        cmocka_unit_test(test_started_again),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_parts_mismatch),
        cmocka_unit_test(test_credit),
        cmocka_unit_test(test_blocking_moves_others),
        cmocka_unit_test(test_newest_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
