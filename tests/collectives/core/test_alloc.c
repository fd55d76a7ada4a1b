/* No allocation in the repeated start of an operation, and a context that moves from one thread to
 * another. The build sends libcoll's malloc, calloc, realloc and aligned_alloc through the counters
 * here. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ranks.h"
#include "support.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static atomic_int allocations;

void *__wrap_malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __real_aligned_alloc(alignment, size);
}

enum { KINDS = 10, COUNTS = 2, ALGORITHMS = 7, OPS = KINDS * COUNTS * ALGORITHMS, ROOM = 60000 };

static coll_op_desc nth(int i, uint8_t *send, uint8_t *recv)
{
    static const coll_kind kinds[KINDS] = {
        COLL_ALL_REDUCE, COLL_BROADCAST,      COLL_ALL_GATHER, COLL_REDUCE, COLL_GATHER,
        COLL_SCATTER,    COLL_REDUCE_SCATTER, COLL_ALL_TO_ALL, COLL_SCAN,   COLL_EXSCAN};
    static const size_t counts[COUNTS] = {3, 20000};
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = kinds[i % KINDS],
                          .send = send,
                          .recv = recv,
                          .count = counts[i / KINDS % COUNTS],
                          .type = COLL_UINT8,
                          .reduce = COLL_SUM,
                          .algorithm = (coll_algorithm)(i / KINDS / COUNTS)};
}

static void run_all(test_rank *rank, coll_op **ops)
{
    for (int i = 0; i < OPS; i++) {
        RANK_OK(rank, coll_op_start(ops[i], &rank->error));
    }
    for (int i = 0; i < OPS; i++) {
        RANK_OK(rank, coll_op_wait(ops[i], &rank->error));
    }
    RANK_OK(rank, coll_barrier(coll_context_world(rank->context), &rank->error));
}

static void repeat_body(test_rank *rank)
{
    static uint8_t memory[3][2][ROOM];
    coll_comm *comm = coll_context_world(rank->context);
    coll_op *ops[OPS] = {NULL};
    for (int i = 0; i < OPS; i++) {
        const coll_op_desc desc = nth(i, memory[rank->rank][0], memory[rank->rank][1]);
        RANK_OK(rank, coll_op_create(comm, &desc, &ops[i], &rank->error));
    }
    run_all(rank, ops); /* scratch memory is made now, and stays */
    run_all(rank, ops);
    const int before = atomic_load(&allocations);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    run_all(rank, ops);
    run_all(rank, ops);
    RANK_CHECK(rank, atomic_load(&allocations) == before && before > 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    for (int i = 0; i < OPS; i++) {
        coll_op_destroy(ops[i]);
    }
}

static void test_no_allocation(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_SHM},
                          repeat_body);
}

/* With counts, the blocking calls allocate nothing either. */
static void counts_body(test_rank *rank)
{
    static uint8_t memory[3][2][ROOM];
    coll_comm *comm = coll_context_world(rank->context);
    uint8_t *send = memory[rank->rank][0];
    uint8_t *recv = memory[rank->rank][1];
    size_t to[3];
    size_t from[3];
    coll_op *op = NULL;
    int before = 0;
    for (int r = 0; r < 3; r++) {
        to[r] = (size_t)((rank->rank + 2 * r) % 3) * 9000;
        from[r] = (size_t)((r + 2 * rank->rank) % 3) * 9000;
    }
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_TO_ALL,
                               .send = send,
                               .counts = to,
                               .recv = recv,
                               .recv_counts = from,
                               .type = COLL_UINT8};
    RANK_OK(rank, coll_op_create(comm, &desc, &op, &rank->error));
    for (int i = 0; i < 12; i++) {
        before = i == 6 ? atomic_load(&allocations) : before; /* by now all recent ones are made */
        RANK_OK(rank, coll_op_start(op, &rank->error));
        RANK_OK(rank, coll_op_wait(op, &rank->error));
        RANK_OK(rank, coll_all_to_all_v(comm, send, to, recv, from, COLL_UINT8, &rank->error));
        RANK_OK(rank, coll_barrier(comm, &rank->error));
    }
    RANK_CHECK(rank, atomic_load(&allocations) == before && before > 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    coll_op_destroy(op);
}

static void test_no_allocation_with_counts(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_SHM},
                          counts_body);
}

static void *reduce_elsewhere(void *argument)
{
    test_rank *rank = argument;
    int32_t sum[100] = {0};
    sum[99] = rank->rank;
    if (coll_all_reduce(coll_context_world(rank->context), sum, sum, 100, COLL_INT32, COLL_SUM,
                        &rank->error) != COLL_OK ||
        sum[99] != rank->size * (rank->size - 1) / 2) {
        test_rank_fail(rank, "in another thread: %s", rank->error.message);
    }
    return NULL;
}

/* One thread at a time: each call in a thread of its own, one after the other. */
static void threads_body(test_rank *rank)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        RANK_CHECK(rank, pthread_create(&thread, NULL, reduce_elsewhere, rank) == 0);
        RANK_CHECK(rank, pthread_join(thread, NULL) == 0);
        (void)reduce_elsewhere(rank);
    }
}

static void test_one_thread_after_another(void **state)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                                COLL_TRANSPORT_TCP};
    (void)state;
    for (int t = 0; t < 3; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = transports[t]},
                              threads_body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_no_allocation_with_counts),
        cmocka_unit_test(test_one_thread_after_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
