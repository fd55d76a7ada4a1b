/* A rank that gets no memory, no descriptor or no mapping, at any place where it asks for one: it
 * says so, leaves none open, and whoever waits for it learns that it is gone. Ranks are threads. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "famine.h"
#include "support.h"

enum { COUNT = 50000 };

static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                            COLL_TRANSPORT_ZMQ};
enum { TRANSPORTS = sizeof transports / sizeof transports[0] };

static bool works(test_rank *rank)
{
    int32_t sum = 1;
    return coll_all_reduce(coll_context_world(rank->context), &sum, &sum, 1, COLL_INT32, COLL_SUM,
                           &rank->error) == COLL_OK &&
           sum == rank->size;
}

/* ---- contexts ---- */

static void check_refusal(test_rank *rank, const test_famine *f, coll_status status)
{
    RANK_CHECK(rank, f->refused && rank->context == NULL);
    RANK_CHECK(rank,
               f->what != TEST_WANT_MEMORY || strstr(rank->error.message, "no memory") != NULL);
    RANK_CHECK(rank, rank->error.status == status && rank->error.message[0] != '\0');
}

static void context_body(test_rank *rank)
{
    test_famine *f = rank->user;
    const coll_context_options options = test_rank_options(rank);
    if (rank->rank == 0) {
        test_famine_begin(f);
    }
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    if (rank->rank == 0) {
        test_famine_end(f);
    }
    if (status == COLL_OK) {
        RANK_CHECK(rank, works(rank) || (f->refused && rank->rank != 0));
    } else if (rank->rank == 0) {
        check_refusal(rank, f, status);
    }
    test_rank_leave(rank);
    coll_context_destroy(rank->context);
}

static void contexts_alone(void **state)
{
    (void)state;
    for (int i = 0; i < TRANSPORTS; i++) {
        for (test_want what = TEST_WANT_MEMORY; what < TEST_WANTS; what++) {
            test_famine_sweep(
                &(test_ranks_options){.size = 1, .transport = transports[i], .bare = true}, what, 0,
                context_body);
        }
    }
}

static void contexts_of_two(void **state)
{
    (void)state;
    for (int i = 0; transports[i] != COLL_TRANSPORT_ZMQ; i++) {
        for (test_want what = TEST_WANT_MEMORY; what < TEST_WANTS; what++) {
            test_famine_sweep(
                &(test_ranks_options){.size = 2, .transport = transports[i], .bare = true}, what, 0,
                context_body);
        }
    }
}

/* ---- what is made with a context, and operations ---- */

typedef struct meal {
    coll_comm *comm; /* made of the world's ranks */
    coll_arena *arena;
    int32_t *heap;
} meal;

static coll_status split(test_rank *rank, meal *m)
{
    return coll_comm_split(coll_context_world(rank->context), 0, rank->rank, &m->comm,
                           &rank->error);
}

static coll_status share(test_rank *rank, meal *m)
{
    return coll_arena_create(m->comm, (size_t)COUNT * 4, &m->arena, &rank->error);
}

static coll_status reduce_in(test_rank *rank, meal *m, int32_t *data, coll_algorithm algorithm)
{
    coll_request *request = NULL;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_REDUCE,
                               .send = data,
                               .recv = data,
                               .count = COUNT,
                               .type = COLL_INT32,
                               .reduce = COLL_SUM,
                               .algorithm = algorithm};
    data[COUNT - 1] = 1;
    coll_status status = coll_start(m->comm, &desc, &request, &rank->error);
    if (status == COLL_OK) {
        status = coll_request_wait(&request, &rank->error);
    }
    if (status == COLL_OK && data[COUNT - 1] != rank->size) {
        test_rank_fail(rank, "a sum is %d", data[COUNT - 1]);
    }
    return status;
}

static coll_status reduce_arena(test_rank *rank, meal *m)
{
    return reduce_in(rank, m, coll_arena_data(m->arena), COLL_ALGORITHM_AUTO);
}

static coll_status reduce_heap(test_rank *rank, meal *m)
{
    return reduce_in(rank, m, m->heap, COLL_ALGORITHM_RING);
}

/* From rank 0 and back. */
static coll_status pass_on(test_rank *rank, meal *m)
{
    m->heap[COUNT - 1] = rank->rank == 0 ? 9 : 0;
    coll_status status = COLL_OK;
    for (int from = 0; status == COLL_OK && from < 2; from++) {
        status =
            rank->rank == from
                ? coll_send(m->comm, m->heap, COUNT, COLL_INT32, 1 - rank->rank, &rank->error)
                : coll_receive(m->comm, m->heap, COUNT, COLL_INT32, 1 - rank->rank, &rank->error);
    }
    if (status == COLL_OK && m->heap[COUNT - 1] != 9) {
        test_rank_fail(rank, "a message says %d", m->heap[COUNT - 1]);
    }
    return status;
}

/* Blocking calls of several lengths: operations are made and made again. */
static coll_status gather(test_rank *rank, meal *m)
{
    coll_status status = COLL_OK;
    for (size_t count = 1; status == COLL_OK && count <= COUNT / 4; count = count * 7 + 1) {
        m->heap[COUNT / 2] = rank->rank;
        status =
            coll_all_gather(m->comm, m->heap + COUNT / 2, m->heap, count, COLL_INT32, &rank->error);
        if (status == COLL_OK && m->heap[count] != 1) {
            test_rank_fail(rank, "%zu gathered are %d", count, m->heap[count]);
        }
    }
    return status;
}

/* Rank 0 goes without in one place, and leaves: rank 1 may learn of that as early as in the
 * barrier. Of an arena both have counted it knows better: what it calls next ends for both. */
static void meal_body(test_rank *rank)
{
    static coll_status (*const courses[])(test_rank *, meal *) = {
        split, share, reduce_arena, reduce_heap, pass_on, gather};
    enum { COURSES = sizeof courses / sizeof courses[0] };
    test_famine *f = rank->user;
    meal m = {.heap = calloc(COUNT, sizeof *m.heap)};
    coll_status status = COLL_OK;
    RANK_CHECK(rank, m.heap != NULL);
    status = coll_barrier(coll_context_world(rank->context), &rank->error);
    if (rank->rank == 0) {
        RANK_OK(rank, status);
        test_famine_begin(f);
    }
    int i = 0;
    for (; status == COLL_OK && i < COURSES; i++) {
        status = courses[i](rank, &m);
    }
    if (rank->rank == 0) {
        test_famine_end(f);
        RANK_CHECK(rank, status == COLL_OK || f->refused);
        RANK_CHECK(rank, status == COLL_OK || rank->error.message[0] != '\0');
        RANK_CHECK(rank, status == COLL_OK || f->what != TEST_WANT_MEMORY ||
                             strstr(rank->error.message, "no memory") != NULL);
    }
    RANK_CHECK(rank, status != COLL_ERR_TIMEOUT);
    RANK_CHECK(rank, status == COLL_OK || strstr(rank->error.message, "broke") == NULL);
    if (status != COLL_OK && i > 0 && courses[i - 1] == share) {
        status = coll_barrier(m.comm, &rank->error);
        RANK_CHECK(rank, status != COLL_OK && status != COLL_ERR_TIMEOUT);
    }
    coll_arena_destroy(m.arena);
    coll_comm_destroy(m.comm);
    free(m.heap);
}

/* Without links being measured, which contexts_of_two has tried. */
static void operations_over(coll_transport transport, test_want last)
{
    const test_ranks_options options = {
        .size = 2, .transport = transport, .algorithm = COLL_ALGORITHM_DIRECT};
    for (test_want what = TEST_WANT_MEMORY; what <= last; what++) {
        test_famine_sweep(&options, what, 0, meal_body);
    }
}

static void operations_over_shm(void **state)
{
    (void)state;
    operations_over(COLL_TRANSPORT_SHM, TEST_WANT_MAPPING);
}

static void operations_over_tcp(void **state)
{
    (void)state;
    operations_over(COLL_TRANSPORT_TCP, TEST_WANT_MAPPING);
}

static void operations_over_zmq(void **state)
{
    (void)state;
    operations_over(COLL_TRANSPORT_ZMQ, TEST_WANT_MEMORY);
}

/* ---- what is made by all ranks, where rank 0 cannot and stays ---- */

static coll_status make_comm(test_rank *rank, meal *m)
{
    static const int both[] = {0, 1};
    return coll_comm_create(rank->context, both, 2, &m->comm, &rank->error);
}

static coll_status make_arena(test_rank *rank, meal *m)
{
    return coll_arena_create(coll_context_world(rank->context), (size_t)COUNT * 4, &m->arena,
                             &rank->error);
}

/* Neither rank goes on before both have come. */
static void meet(void)
{
    static atomic_int comings;
    const int wanted = (atomic_fetch_add(&comings, 1) / 2 + 1) * 2;
    while (atomic_load(&comings) < wanted) {
        (void)sched_yield();
    }
}

/* Both make something, rank 0 with too little. */
static coll_status make_together(test_rank *rank, meal *m,
                                 coll_status (*make)(test_rank *rank, meal *m))
{
    test_famine *f = rank->user;
    meet();
    if (rank->rank == 0) {
        test_famine_begin(f);
    }
    const coll_status status = make(rank, m);
    if (rank->rank == 0) {
        test_famine_end(f);
    }
    meet();
    return status;
}

/* Rank 1 learns of it at once, with the cause, and the same list can be tried again. */
static void comm_body(test_rank *rank)
{
    const test_famine *f = rank->user;
    meal m = {.comm = NULL};
    const coll_status status = make_together(rank, &m, make_comm);
    RANK_CHECK(rank, status != COLL_ERR_TIMEOUT && (status == COLL_OK || f->refused));
    RANK_CHECK(rank, status == COLL_OK || f->what != TEST_WANT_MEMORY ||
                         strstr(rank->error.message, "no memory") != NULL);
    RANK_CHECK(rank, status == COLL_OK || rank->rank == 0 ||
                         strstr(rank->error.message, "rank 0 (") != NULL);
    coll_comm_destroy(m.comm);
    RANK_OK(rank, make_comm(rank, &m));
    RANK_OK(rank, coll_barrier(m.comm, &rank->error));
    coll_comm_destroy(m.comm);
}

/* Without any memory, twice: rank 1 learns of it each time. (Over zmq rank 0 cannot even send that, and
 * rank 1 waits in vain; but both have counted it.) */
static void long_famine_body(test_rank *rank)
{
    meal m = {.comm = NULL};
    for (int i = 0; i < 2; i++) {
        const coll_status status = make_together(rank, &m, make_comm);
        RANK_CHECK(rank, status != COLL_OK);
        RANK_CHECK(rank, coll_context_transport(rank->context) == COLL_TRANSPORT_ZMQ ||
                             strstr(rank->error.message, "no memory for ") != NULL);
    }
    RANK_OK(rank, make_comm(rank, &m));
    RANK_OK(rank, coll_barrier(m.comm, &rank->error));
    coll_comm_destroy(m.comm);
}

static void arena_body(test_rank *rank)
{
    const test_famine *f = rank->user;
    meal m = {.arena = NULL};
    const coll_status status = make_together(rank, &m, make_arena);
    RANK_CHECK(rank, status != COLL_ERR_TIMEOUT && (status == COLL_OK || f->refused));
    coll_arena_destroy(m.arena);
}

static void communicators_of_two(void **state)
{
    (void)state;
    for (int i = 0; i < TRANSPORTS; i++) {
        const test_ranks_options options = {
            .size = 2, .transport = transports[i], .algorithm = COLL_ALGORITHM_DIRECT};
        const test_want last =
            transports[i] == COLL_TRANSPORT_ZMQ ? TEST_WANT_MEMORY : TEST_WANT_MAPPING;
        for (test_want what = TEST_WANT_MEMORY; what <= last; what++) {
            test_famine_sweep(&options, what, 0, comm_body);
        }
    }
}

static void a_list_outlasts_a_famine(void **state)
{
    (void)state;
    for (int i = 0; i < TRANSPORTS; i++) {
        test_famine f = {.what = TEST_WANT_MEMORY, .lasts = true};
        test_ranks_as_threads(
            &(test_ranks_options){
                .size = 2, .transport = transports[i], .timeout_ns = 2 * BASE_NS_PER_S, .user = &f},
            long_famine_body);
    }
}

static void arenas_of_two(void **state)
{
    const test_ranks_options options = {.size = 2, .transport = COLL_TRANSPORT_SHM};
    (void)state;
    test_famine_sweep(&options, TEST_WANT_DESCRIPTOR, 0, arena_body);
    test_famine_sweep(&options, TEST_WANT_MAPPING, 0, arena_body);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_alone),           cmocka_unit_test(contexts_of_two),
        cmocka_unit_test(operations_over_shm),      cmocka_unit_test(operations_over_tcp),
        cmocka_unit_test(operations_over_zmq),      cmocka_unit_test(communicators_of_two),
        cmocka_unit_test(a_list_outlasts_a_famine), cmocka_unit_test(arenas_of_two),
    };
    return cmocka_run_group_tests_name("coll-starved", tests, NULL, NULL);
}
