/* Operations over time: several under way at once, started again and again, on several
 * communicators, and results that depend on order and on special values. Ranks are threads. */
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "reference.h"
#include "support.h"

enum { BUCKETS = 4, BUCKET_COUNT = 5000, ROUNDS = 20, ARENA_BYTES = 1 << 20 };

/* What a trainer does: in each step the buckets' all-reduces are started one by one in an arena,
 * polled between other work, and waited for in the end. */
static void trainer_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    coll_op *ops[BUCKETS] = {NULL};
    RANK_OK(rank, coll_arena_create(comm, ARENA_BYTES, &arena, &rank->error));
    RANK_CHECK(rank, coll_arena_size_bytes(arena) == ARENA_BYTES);
    float *gradients = coll_arena_data(arena);
    RANK_CHECK(rank, (uintptr_t)gradients % 4096 == 0 && gradients[0] == 0.0f);
    for (int b = 0; b < BUCKETS; b++) {
        float *bucket = gradients + b * BUCKET_COUNT;
        const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                   .kind = COLL_ALL_REDUCE,
                                   .send = bucket,
                                   .recv = bucket,
                                   .count = b == 2 ? 3 : BUCKET_COUNT,
                                   .type = COLL_FLOAT32,
                                   .reduce = COLL_SUM};
        RANK_OK(rank, coll_op_create(comm, &desc, &ops[b], &rank->error));
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (int b = 0; b < BUCKETS; b++) {
            bool done = false;
            for (int i = 0; i < BUCKET_COUNT; i++) {
                reference_input(&gradients[b * BUCKET_COUNT + i], COLL_FLOAT32, rank->rank,
                                (size_t)i, round * BUCKETS + (unsigned)b);
            }
            RANK_OK(rank, coll_op_start(ops[b], &rank->error));
            RANK_OK(rank, coll_op_test(ops[0], &done, &rank->error));
        }
        for (int b = BUCKETS - 1; b >= 0; b--) { /* any order of waiting is fine */
            RANK_OK(rank, coll_op_wait(ops[b], &rank->error));
        }
        for (int i = 0; i < BUCKETS * BUCKET_COUNT; i += 7) {
            const int b = i / BUCKET_COUNT;
            float expected = 0;
            if (b == 2 && i % BUCKET_COUNT >= 3) {
                continue;
            }
            const reference_reduction reduction = {.type = COLL_FLOAT32,
                                                   .reduce = COLL_SUM,
                                                   .algorithm = COLL_ALGORITHM_DIRECT,
                                                   .ranks = rank->size,
                                                   .count = BUCKET_COUNT,
                                                   .salt = round * BUCKETS + (unsigned)b};
            reference_all_reduce(&reduction, (size_t)(i % BUCKET_COUNT), &expected);
            RANK_CHECK(rank, memcmp(&expected, &gradients[i], sizeof expected) == 0);
        }
    }
    for (int b = 0; b < BUCKETS; b++) {
        coll_op_destroy(ops[b]);
    }
    RANK_CHECK(rank, coll_context_bytes_sent(rank->context) > 0);
    coll_arena_destroy(arena);
}

static void test_buckets_under_way(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) {
        test_ranks_as_threads(&(test_ranks_options){.size = size, .transport = COLL_TRANSPORT_SHM},
                              trainer_body);
    }
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_ZMQ},
                          trainer_body);
}

/* More started operations than a communicator holds under way: start waits for room. Mixed kinds,
 * and memory of the rank's own, so that streams must keep the order. */
static void many_body(test_rank *rank)
{
    enum { OPS = 50, COUNT = 700 };
    coll_comm *comm = coll_context_world(rank->context);
    int32_t *data = calloc(OPS * COUNT, sizeof *data);
    coll_op *ops[OPS] = {NULL};
    RANK_CHECK(rank, data != NULL);
    for (int i = 0; i < OPS; i++) {
        int32_t *at = data + i * COUNT;
        const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                   .kind = i % 5 == 4   ? COLL_BARRIER
                                           : i % 5 == 3 ? COLL_BROADCAST
                                                        : COLL_ALL_REDUCE,
                                   .send = at,
                                   .recv = at,
                                   .count = i % 2 == 0 ? COUNT : 2,
                                   .type = COLL_INT32,
                                   .reduce = COLL_SUM,
                                   .root = i % rank->size,
                                   .algorithm = (coll_algorithm)(COLL_ALGORITHM_RING + i % 6)};
        for (int k = 0; k < COUNT; k++) {
            at[k] = i * 1000 + k + rank->rank;
        }
        RANK_OK(rank, coll_op_create(comm, &desc, &ops[i], &rank->error));
        RANK_OK(rank, coll_op_start(ops[i], &rank->error));
    }
    for (int i = 0; i < OPS; i++) {
        RANK_OK(rank, coll_op_wait(ops[i], &rank->error));
        const int count = i % 2 == 0 ? COUNT : 2;
        for (int k = 0; k < count; k++) {
            const int n = rank->size;
            const int base = i * 1000 + k;
            const int32_t expected = i % 5 == 4   ? base + rank->rank
                                     : i % 5 == 3 ? base + i % n
                                                  : n * base + n * (n - 1) / 2;
            RANK_CHECK(rank, data[i * COUNT + k] == expected);
        }
        coll_op_destroy(ops[i]);
    }
    free(data);
}

static void test_many_under_way(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_SHM},
                          many_body);
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_ZMQ},
                          many_body);
}

/* One rank begins as much as many communicators hold under way, while another does nothing: what
 * waits in the sockets is no sign that it is gone. */
static void idle_peer_body(test_rank *rank)
{
    enum { COMMS = 350, UNDER_WAY = 16, COUNT = 3000 };
    static atomic_bool begun;
    static const int32_t zeros[COUNT];
    static int32_t results[2][COUNT];
    static coll_comm *comms[2][COMMS];
    static coll_request *requests[2][COMMS * UNDER_WAY];
    coll_comm **own = comms[rank->rank];
    coll_request **under_way = requests[rank->rank];
    coll_status status = COLL_OK;
    for (int i = 0; i < COMMS; i++) {
        RANK_OK(rank, coll_comm_split(coll_context_world(rank->context), 0, rank->rank, &own[i],
                                      &rank->error));
    }
    while (rank->rank == 1 && !atomic_load(&begun)) {
        (void)sched_yield();
    }
    for (int i = 0; status == COLL_OK && i < COMMS * UNDER_WAY; i++) {
        const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                   .kind = COLL_ALL_REDUCE,
                                   .send = zeros,
                                   .recv = results[rank->rank],
                                   .count = COUNT,
                                   .type = COLL_INT32,
                                   .reduce = COLL_SUM};
        status = coll_start(own[i / UNDER_WAY], &desc, &under_way[i], &rank->error);
    }
    atomic_store(&begun, true);
    RANK_OK(rank, status);
    RANK_OK(rank, coll_request_wait_all(under_way, COMMS * UNDER_WAY, &rank->error));
    for (int i = 0; i < COMMS; i++) {
        coll_comm_destroy(own[i]);
    }
}

static void test_idle_peer(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_ZMQ},
                          idle_peer_body);
}

/* The world, its even ranks in reverse order, and a pair, used side by side. */
static void communicators_body(test_rank *rank)
{
    coll_comm *world = coll_context_world(rank->context);
    coll_comm *evens = NULL;
    coll_comm *pair = NULL;
    const int even_ranks[] = {4, 2, 0};
    const int pair_ranks[] = {0, 3};
    for (int round = 0; round < 2; round++) { /* the same list twice gives a new communicator */
        if (rank->rank % 2 == 0) {
            RANK_OK(rank, coll_comm_create(rank->context, even_ranks, 3, &evens, &rank->error));
            RANK_CHECK(rank, coll_comm_size(evens) == 3);
            RANK_CHECK(rank, coll_comm_rank(evens) == 2 - rank->rank / 2);
        }
        if (rank->rank % 3 == 0) {
            RANK_OK(rank, coll_comm_create(rank->context, pair_ranks, 2, &pair, &rank->error));
        }
        for (int i = 0; i < 30; i++) {
            int64_t sum = rank->rank + 1;
            RANK_OK(rank,
                    coll_all_reduce(world, &sum, &sum, 1, COLL_INT64, COLL_SUM, &rank->error));
            RANK_CHECK(rank, sum == 15);
            if (evens != NULL) {
                int64_t all[3] = {0};
                const int64_t mine = rank->rank;
                RANK_OK(rank, coll_all_gather(evens, &mine, all, 1, COLL_INT64, &rank->error));
                RANK_CHECK(rank, all[0] == 4 && all[1] == 2 && all[2] == 0);
            }
            if (pair != NULL) {
                uint8_t data[300] = {0};
                memset(data, rank->rank == 3 ? 7 : 0, sizeof data);
                RANK_OK(rank, coll_broadcast(pair, data, sizeof data, COLL_UINT8, 1, &rank->error));
                RANK_CHECK(rank, data[0] == 7 && data[299] == 7);
            }
        }
        coll_comm_destroy(evens);
        coll_comm_destroy(pair);
        evens = NULL;
        pair = NULL;
    }
    RANK_OK(rank, coll_barrier(world, &rank->error));
}

static void test_communicators(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 5, .transport = COLL_TRANSPORT_SHM},
                          communicators_body);
    test_ranks_as_threads(&(test_ranks_options){.size = 5, .transport = COLL_TRANSPORT_ZMQ},
                          communicators_body);
}

typedef struct special {
    uint32_t bits[8][64]; /* each rank's result */
    size_t count;
    coll_reduce_op reduce;
    coll_algorithm algorithm;
} special;

/* NaNs with payloads, infinities and zeros of both signs, different on each rank. */
static void special_body(test_rank *rank)
{
    static const uint32_t inputs[] = {0x7fc00001, 0x80000000, 0x00000000, 0x7f800000, 0xff800000,
                                      0xffc12345, 0x3f800000, 0x00000001, 0x7fc0beef};
    special *s = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    uint32_t data[64];
    for (size_t i = 0; i < s->count; i++) {
        data[i] = inputs[(i * 5 + (size_t)rank->rank * 7 + i * i * (size_t)rank->rank) % 9];
    }
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_REDUCE,
                               .send = data,
                               .recv = data,
                               .count = s->count,
                               .type = COLL_FLOAT32,
                               .reduce = s->reduce,
                               .algorithm = s->algorithm};
    coll_op *op = NULL;
    RANK_OK(rank, coll_op_create(comm, &desc, &op, &rank->error));
    RANK_OK(rank, coll_op_start(op, &rank->error));
    RANK_OK(rank, coll_op_wait(op, &rank->error));
    memcpy(s->bits[rank->rank], data, s->count * sizeof data[0]);
    coll_op_destroy(op);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void test_special_values(void **state)
{
    (void)state;
    special s;
    for (int reduce = COLL_SUM; reduce <= COLL_MAX; reduce++) {
        for (int algorithm = COLL_ALGORITHM_RING; algorithm <= COLL_ALGORITHM_DIRECT; algorithm++) {
            for (int tiny = 0; tiny < 2; tiny++) {
                s = (special){.count = tiny ? 13 : 64,
                              .reduce = (coll_reduce_op)reduce,
                              .algorithm = (coll_algorithm)algorithm};
                test_ranks_as_threads(
                    &(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_SHM, .user = &s},
                    special_body);
                assert_memory_equal(s.bits[0], s.bits[1], s.count * sizeof s.bits[0][0]);
                assert_memory_equal(s.bits[0], s.bits[2], s.count * sizeof s.bits[0][0]);
            }
        }
    }
}

/* -0 + -0 is -0, and -0 + 0 is 0, whoever holds which. */
static void zeros_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    float data[2] = {-0.0f, rank->rank == 0 ? -0.0f : 0.0f};
    RANK_OK(rank, coll_all_reduce(comm, data, data, 2, COLL_FLOAT32, COLL_SUM, &rank->error));
    RANK_CHECK(rank, data[0] == 0.0f && signbit(data[0]));
    RANK_CHECK(rank, data[1] == 0.0f && !signbit(data[1]));
}

static void test_zeros(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          zeros_body);
}

/* A rank with an empty part may have ordinary memory where the others' lies in arenas, and still
 * all is read from arenas; nothing that it did for another way may be left
 * for the next operation. */
static void empty_part_body(test_rank *rank)
{
    enum { COUNT = 32768, TIMES = 50 };
    coll_comm *comm = coll_context_world(rank->context);
    const size_t counts[] = {COUNT, 0};
    coll_arena *arena = NULL;
    RANK_OK(rank, coll_arena_create(comm, COUNT * sizeof(int32_t), &arena, &rank->error));
    int32_t *shared = coll_arena_data(arena);
    int32_t *own = calloc(2, COUNT * sizeof *own);
    RANK_CHECK(rank, own != NULL);
    const coll_op_desc gather = {.size = sizeof(coll_op_desc),
                                 .kind = COLL_ALL_GATHER,
                                 .send = rank->rank == 0 ? shared : NULL,
                                 .recv = own,
                                 .counts = counts,
                                 .type = COLL_INT32};
    int32_t *sums = rank->rank == 0 ? own + COUNT : shared; /* one rank is not early */
    for (int i = 0; i < TIMES; i++) {
        RANK_OK(rank, coll_run(comm, &gather, &rank->error));
        for (int k = 0; k < COUNT; k++) {
            own[k] = i + rank->rank;
        }
        RANK_OK(rank, coll_all_reduce(comm, own, sums, COUNT, COLL_INT32, COLL_SUM, &rank->error));
        for (int k = 0; k < COUNT; k += 5) {
            RANK_CHECK(rank, sums[k] == 2 * i + 1);
        }
    }
    coll_arena_destroy(arena);
    free(own);
}

static void test_empty_part(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          empty_part_body);
}

/* In place, a rank of a scan must not write its prefix over an operand that ranks above it still read. */
static void scan_in_place_body(test_rank *rank)
{
    enum { SCANNED = 300000, TIMES = 5 };
    coll_comm *comm = coll_context_world(rank->context);
    coll_arena *arena = NULL;
    RANK_OK(rank, coll_arena_create(comm, SCANNED * sizeof(int32_t), &arena, &rank->error));
    int32_t *data = coll_arena_data(arena);
    for (int round = 0; round < TIMES; round++) {
        int wrong = 0;
        for (int i = 0; i < SCANNED; i++) {
            data[i] = i + rank->rank;
        }
        RANK_OK(rank, coll_scan(comm, data, data, SCANNED, COLL_INT32, COLL_SUM, &rank->error));
        for (int i = 0; i < SCANNED; i++) {
            wrong += data[i] != (rank->rank + 1) * i + rank->rank * (rank->rank + 1) / 2;
        }
        RANK_CHECK(rank, wrong == 0);
    }
    coll_arena_destroy(arena);
}

static void test_scan_in_place(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 4, .transport = COLL_TRANSPORT_SHM},
                          scan_in_place_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_under_way), cmocka_unit_test(test_many_under_way),
        cmocka_unit_test(test_idle_peer),         cmocka_unit_test(test_communicators),
        cmocka_unit_test(test_special_values),    cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_empty_part),        cmocka_unit_test(test_scan_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
