/* Every operation against the reference, bit for bit, on all ranks: sizes of job, counts, types,
 * reductions, roots, algorithms, transports, placements. Buffers stand between guard bytes at odd
 * addresses; inputs are compared afterwards. */
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "reference.h"
#include "support.h"

enum { GUARD_BYTES = 32, GUARD = 0xA5, ARENA_BYTES = 4 << 20 };

typedef enum placement {
    OUT_OF_PLACE,
    IN_PLACE,
    MISALIGNED, /* out of place, at odd addresses */
    IN_ARENA,
    IN_ARENA_IN_PLACE,
    PLACEMENTS,
} placement;

typedef struct grid {
    bool long_counts;   /* the longest count as well */
    int placement_step; /* 1: all placements */
} grid;

typedef struct job {
    test_rank *rank;
    coll_comm *comm;
    coll_arena *arena;
    uint8_t *memory; /* private, ARENA_BYTES */
    unsigned salt;
} job;

/* Two buffers, of send_bytes and recv_bytes, with guards around both. */
typedef struct buffers {
    uint8_t *base;
    size_t bytes;
    uint8_t *send;
    uint8_t *recv;
} buffers;

static buffers place(const job *j, placement where, size_t send_bytes, size_t recv_bytes,
                     size_t own_offset_bytes)
{
    const bool arena = where == IN_ARENA || where == IN_ARENA_IN_PLACE;
    const bool in_place = where == IN_PLACE || where == IN_ARENA_IN_PLACE;
    buffers b = {.base = arena ? coll_arena_data(j->arena) : j->memory};
    const size_t odd = where == MISALIGNED ? 1 : 0;
    b.recv = b.base + GUARD_BYTES + odd;
    b.send = in_place ? b.recv + own_offset_bytes : b.recv + recv_bytes + GUARD_BYTES + odd;
    const uint8_t *end = in_place ? b.recv + recv_bytes : b.send + send_bytes;
    b.bytes = (size_t)(end - b.base) + GUARD_BYTES;
    memset(b.base, GUARD, b.bytes);
    return b;
}

static bool guards_hold(const buffers *b, size_t send_bytes, size_t recv_bytes)
{
    for (size_t i = 0; i < b->bytes; i++) {
        const uint8_t *at = b->base + i;
        const bool inside = (at >= b->recv && at < b->recv + recv_bytes) ||
                            (at >= b->send && at < b->send + send_bytes);
        if (!inside && *at != GUARD) {
            return false;
        }
    }
    return true;
}

static void fill(const job *j, uint8_t *data, coll_type type, int rank, size_t count)
{
    const size_t size = coll_type_size_bytes(type);
    for (size_t i = 0; i < count; i++) {
        reference_input(data + i * size, type, rank, i, j->salt);
    }
}

static base_status run(job *j, coll_op_desc desc)
{
    coll_op *op = NULL;
    base_error *error = &j->rank->error;
    base_status status = coll_op_create(j->comm, &desc, &op, error);
    if (status == BASE_OK) {
        status = coll_op_start(op, error);
    }
    if (status == BASE_OK) {
        status = coll_op_wait(op, error);
    }
    coll_op_destroy(op);
    /* Before peers lay out the next case in memory that this rank may be reading. */
    return status == BASE_OK ? coll_barrier(j->comm, error) : status;
}

#define CASE_FAIL(j, what, desc, where, at)                                                        \
    test_rank_fail((j)->rank,                                                                      \
                   "%s: kind %d type %d reduce %d algorithm %s count %zu root %d "                 \
                   "placement %d: element %zu",                                                    \
                   (what), (int)(desc)->kind, (int)(desc)->type, (int)(desc)->reduce,              \
                   coll_algorithm_name((desc)->algorithm), (desc)->count, (desc)->root,            \
                   (int)(where), (size_t)(at))

static bool all_reduce_case(job *j, coll_op_desc desc, placement where)
{
    const size_t size = coll_type_size_bytes(desc.type);
    const size_t bytes = desc.count * size;
    const int ranks = j->rank->size;
    const buffers b = place(j, where, bytes, bytes, 0);
    j->salt++;
    fill(j, b.send, desc.type, j->rank->rank, desc.count);
    desc.kind = COLL_ALL_REDUCE;
    desc.send = b.send;
    desc.recv = b.recv;
    if (run(j, desc) != BASE_OK) {
        CASE_FAIL(j, j->rank->error.message, &desc, where, 0);
        return false;
    }
    for (size_t i = 0; i < desc.count; i++) {
        uint8_t expected[8];
        uint8_t sent[8];
        reference_all_reduce(expected, desc.type, desc.reduce, desc.algorithm, ranks, i, desc.count,
                             j->salt);
        reference_input(sent, desc.type, j->rank->rank, i, j->salt);
        if (memcmp(expected, b.recv + i * size, size) != 0) {
            CASE_FAIL(j, "wrong result", &desc, where, i);
            return false;
        }
        if (b.send != b.recv && memcmp(sent, b.send + i * size, size) != 0) {
            CASE_FAIL(j, "input changed", &desc, where, i);
            return false;
        }
    }
    if (!guards_hold(&b, bytes, bytes)) {
        CASE_FAIL(j, "guard bytes written", &desc, where, 0);
        return false;
    }
    return true;
}

static bool broadcast_case(job *j, coll_op_desc desc, placement where)
{
    const size_t size = coll_type_size_bytes(desc.type);
    const size_t bytes = desc.count * size;
    const bool root = j->rank->rank == desc.root;
    const buffers b = place(j, where, bytes, bytes, 0);
    j->salt++;
    if (root) {
        fill(j, b.send, desc.type, desc.root, desc.count);
    }
    desc.kind = COLL_BROADCAST;
    desc.send = b.send;
    desc.recv = b.recv;
    if (run(j, desc) != BASE_OK) {
        CASE_FAIL(j, j->rank->error.message, &desc, where, 0);
        return false;
    }
    for (size_t i = 0; i < desc.count; i++) {
        uint8_t expected[8];
        reference_input(expected, desc.type, desc.root, i, j->salt);
        if (memcmp(expected, b.recv + i * size, size) != 0) {
            CASE_FAIL(j, "wrong result", &desc, where, i);
            return false;
        }
    }
    if (!guards_hold(&b, bytes, bytes)) {
        CASE_FAIL(j, "guard bytes written", &desc, where, 0);
        return false;
    }
    return true;
}

static bool all_gather_case(job *j, coll_op_desc desc, placement where)
{
    const size_t size = coll_type_size_bytes(desc.type);
    const size_t bytes = desc.count * size;
    const size_t all_bytes = bytes * (size_t)j->rank->size;
    const buffers b = place(j, where, bytes, all_bytes, bytes * (size_t)j->rank->rank);
    j->salt++;
    fill(j, b.send, desc.type, j->rank->rank, desc.count);
    desc.kind = COLL_ALL_GATHER;
    desc.send = b.send;
    desc.recv = b.recv;
    if (run(j, desc) != BASE_OK) {
        CASE_FAIL(j, j->rank->error.message, &desc, where, 0);
        return false;
    }
    for (size_t i = 0; i < desc.count * (size_t)j->rank->size; i++) {
        uint8_t expected[8];
        reference_input(expected, desc.type, (int)(i / desc.count), i % desc.count, j->salt);
        if (memcmp(expected, b.recv + i * size, size) != 0) {
            CASE_FAIL(j, "wrong result", &desc, where, i);
            return false;
        }
    }
    if (!guards_hold(&b, bytes, all_bytes)) {
        CASE_FAIL(j, "guard bytes written", &desc, where, 0);
        return false;
    }
    return true;
}

enum { ALGORITHMS = COLL_ALGORITHM_TWO_LEVEL };

/* The a-th from 0 on. */
static coll_algorithm algorithm_at(int a)
{
    return (coll_algorithm)(COLL_ALGORITHM_RING + a);
}

/* A part of the product in which every pair of values meets; `turn` goes through the others. */
static bool cases_of_count(job *j, size_t count, int placement_step, unsigned *turn)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        for (int where = 0; where < PLACEMENTS; where += placement_step) {
            const unsigned t = (*turn)++;
            const coll_op_desc desc = {
                .count = count,
                .type = (coll_type)(COLL_FLOAT32 + t % 5),
                .reduce = (coll_reduce)(COLL_SUM + t / 5 % 3),
                .algorithm = algorithm_at(a),
                .root = (int)(t % (unsigned)j->rank->size),
            };
            coll_op_desc sum = desc;
            sum.type = COLL_FLOAT32;
            sum.reduce = COLL_SUM;
            if (!all_reduce_case(j, desc, (placement)where) ||
                !all_reduce_case(j, sum, (placement)where) ||
                !broadcast_case(j, desc, (placement)where) ||
                !all_gather_case(j, desc, (placement)where)) {
                return false;
            }
        }
    }
    return true;
}

static bool cases_of_type(job *j, coll_type type)
{
    for (int a = 0; a < ALGORITHMS; a++) {
        for (int reduce = COLL_SUM; reduce <= COLL_MAX; reduce++) {
            const coll_op_desc desc = {.count = 129,
                                       .type = type,
                                       .reduce = (coll_reduce)reduce,
                                       .algorithm = algorithm_at(a)};
            if (!all_reduce_case(j, desc, OUT_OF_PLACE) ||
                !all_reduce_case(j, desc, IN_ARENA_IN_PLACE)) {
                return false;
            }
        }
    }
    return true;
}

static bool cases_of_root(job *j)
{
    for (int root = 0; root < j->rank->size; root++) {
        for (int a = 0; a < ALGORITHMS; a++) {
            for (size_t count = 3; count <= 300; count += 297) {
                const coll_op_desc desc = {
                    .count = count, .type = COLL_INT32, .root = root, .algorithm = algorithm_at(a)};
                if (!broadcast_case(j, desc, IN_PLACE) || !broadcast_case(j, desc, IN_ARENA)) {
                    return false;
                }
            }
        }
    }
    return true;
}

static void grid_body(test_rank *rank)
{
    const grid *g = rank->user;
    const size_t n = (size_t)rank->size;
    const size_t counts[] = {0, 1, n - 1, n, n + 1, 7, 14, 15, 100, 1000, 10007};
    job j = {.rank = rank, .comm = coll_context_world(rank->context)};
    unsigned turn = 0;
    RANK_OK(rank, coll_arena_create(j.comm, ARENA_BYTES, &j.arena, &rank->error));
    j.memory = calloc(1, ARENA_BYTES);
    bool good = j.memory != NULL;
    for (size_t c = 0; good && c < sizeof counts / sizeof counts[0] - (g->long_counts ? 0 : 1);
         c++) {
        good = cases_of_count(&j, counts[c], g->placement_step, &turn);
    }
    for (int type = COLL_FLOAT32; good && type <= COLL_UINT64; type++) {
        good = cases_of_type(&j, (coll_type)type);
    }
    if (good) {
        (void)cases_of_root(&j);
    }
    free(j.memory);
    coll_arena_destroy(j.arena);
}

static void run_grid(coll_transport transport, const int *sizes, size_t size_count)
{
    for (size_t s = 0; s < size_count; s++) {
        grid g = {.long_counts = sizes[s] <= 4,
                  .placement_step = transport == COLL_TRANSPORT_SHM ? 1 : 2};
        test_ranks_as_threads(
            &(test_ranks_options){.size = sizes[s], .transport = transport, .user = &g}, grid_body);
    }
}

static void test_grid_shm(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 4, 5, 8};
    run_grid(COLL_TRANSPORT_SHM, sizes, sizeof sizes / sizeof sizes[0]);
}

static void test_grid_zmq(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5};
    run_grid(COLL_TRANSPORT_ZMQ, sizes, sizeof sizes / sizeof sizes[0]);
}

static void test_grid_tcp(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5};
    run_grid(COLL_TRANSPORT_TCP, sizes, sizeof sizes / sizeof sizes[0]);
}

/* Past every chunk and piece size: a million elements and three, on three ranks. */
static void large_body(test_rank *rank)
{
    job j = {.rank = rank, .comm = coll_context_world(rank->context)};
    const size_t bytes = 3 * ((1 << 20) + 3) * sizeof(float);
    RANK_OK(rank, coll_arena_create(j.comm, bytes, &j.arena, &rank->error));
    j.memory = calloc(1, bytes);
    bool good = j.memory != NULL;
    for (int a = 0; good && a < ALGORITHMS; a++) {
        const coll_op_desc desc = {.count = (1 << 20) + 3,
                                   .type = COLL_FLOAT32,
                                   .reduce = COLL_SUM,
                                   .algorithm = algorithm_at(a)};
        good = all_reduce_case(&j, desc, OUT_OF_PLACE) && all_reduce_case(&j, desc, IN_ARENA);
    }
    free(j.memory);
    coll_arena_destroy(j.arena);
}

static void test_large_shm(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_SHM},
                          large_body);
}

static void test_large_zmq(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_ZMQ},
                          large_body);
}

static void test_large_tcp(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_TCP},
                          large_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid_shm),  cmocka_unit_test(test_grid_zmq),
        cmocka_unit_test(test_large_shm), cmocka_unit_test(test_large_zmq),
        cmocka_unit_test(test_grid_tcp),  cmocka_unit_test(test_large_tcp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
