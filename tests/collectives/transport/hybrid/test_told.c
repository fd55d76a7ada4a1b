/* One of three ranks gets no memory, no descriptor or no mapping, at any place where it asks for one,
 * and stays: the others learn of it at once, and who lacks what. Ranks are threads; over "hybrid" the
 * last one passes for another host's. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "famine.h"
#include "other_hosts.h"
#include "support.h"

enum { RANKS = 3, COUNT = 50000 };

typedef struct way {
    coll_transport transport;
    int host_of_last;
    test_want last;
} way;

static const way over_shm = {COLL_TRANSPORT_SHM, 0, TEST_WANT_MAPPING};
static const way over_tcp = {COLL_TRANSPORT_TCP, 0, TEST_WANT_MAPPING};
static const way over_zmq = {COLL_TRANSPORT_ZMQ, 0, TEST_WANT_DESCRIPTOR};
static const way over_both = {COLL_TRANSPORT_AUTO, 1, TEST_WANT_MAPPING};

static const way *tried;
static atomic_bool lacked; /* the starved rank has failed */

/* Nobody goes on before all have come: nobody is told by another's leaving. */
static void meet(void)
{
    static atomic_int comings;
    const int wanted = (atomic_fetch_add(&comings, 1) / RANKS + 1) * RANKS;
    while (atomic_load(&comings) < wanted) {
        (void)sched_yield();
    }
}

static bool is_starved(const test_rank *rank)
{
    const test_famine *f = rank->user;
    return rank->rank == f->rank;
}

/* Whether the error says who lacks what; late: who. */
static bool is_told(const test_rank *rank, bool late)
{
    const test_famine *f = rank->user;
    char name[16];
    (void)snprintf(name, sizeof name, "rank %d ", f->rank);
    return (late || f->what != TEST_WANT_MEMORY ||
            strstr(rank->error.message, "no memory") != NULL) &&
           (is_starved(rank) || strstr(rank->error.message, name) != NULL);
}

static void check(test_rank *rank, coll_status status, bool late)
{
    if (is_starved(rank)) {
        atomic_store(&lacked, status != COLL_OK);
    }
    meet();
    const bool all = atomic_load(&lacked);
    meet();
    RANK_CHECK(rank, status != COLL_ERR_TIMEOUT);
    RANK_CHECK(rank, (status != COLL_OK) == all);
    RANK_CHECK(rank, status == COLL_OK || is_told(rank, late));
}

static void begin(const test_rank *rank)
{
    if (is_starved(rank)) {
        test_famine_begin(rank->user);
    }
}

static void end(const test_rank *rank)
{
    if (is_starved(rank)) {
        test_famine_end(rank->user);
    }
}

static coll_status make_context(test_rank *rank)
{
    const coll_context_options options = test_rank_options(rank);
    other_host_here = rank->rank == RANKS - 1 ? tried->host_of_last : 0;
    return coll_context_create(&options, &rank->context, &rank->error);
}

static void context_body(test_rank *rank)
{
    begin(rank);
    coll_status status = make_context(rank);
    end(rank);
    const bool made = status == COLL_OK; /* the starved rank may fail in the last step, and go */
    if (made) {
        status = coll_barrier(coll_context_world(rank->context), &rank->error);
    }
    check(rank, status, made);
    coll_context_destroy(rank->context);
}

/* ---- what is made on a context ---- */

typedef struct meal {
    coll_comm *comm; /* of all ranks */
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

/* By requests, of algorithms with scratch and without. */
static coll_status reduce(test_rank *rank, meal *m)
{
    static const coll_algorithm algorithms[] = {COLL_ALGORITHM_DIRECT, COLL_ALGORITHM_RING,
                                                COLL_ALGORITHM_TREE,
                                                COLL_ALGORITHM_HALVING_DOUBLING};
    coll_status status = COLL_OK;
    for (size_t i = 0; status == COLL_OK && i < sizeof algorithms / sizeof algorithms[0]; i++) {
        coll_request *request = NULL;
        const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                                   .kind = i % 2 == 0 ? COLL_SCAN : COLL_ALL_REDUCE,
                                   .send = m->heap,
                                   .recv = m->heap + COUNT,
                                   .count = COUNT,
                                   .type = COLL_INT32,
                                   .reduce = COLL_SUM,
                                   .algorithm = algorithms[i]};
        status = coll_start(m->comm, &desc, &request, &rank->error);
        if (status == COLL_OK) {
            status = coll_request_wait(&request, &rank->error);
        }
    }
    return status;
}

/* Round the ring. */
static coll_status pass_on(test_rank *rank, meal *m)
{
    coll_status status = COLL_OK;
    for (int turn = 0; status == COLL_OK && turn < RANKS; turn++) {
        const int next = (turn + 1) % RANKS;
        if (rank->rank == turn) {
            status = coll_send(m->comm, m->heap, COUNT, COLL_INT32, next, &rank->error);
        } else if (rank->rank == next) {
            status = coll_receive(m->comm, m->heap, COUNT, COLL_INT32, turn, &rank->error);
        }
    }
    return status;
}

/* Blocking calls of several lengths: operations are made and made again. */
static coll_status gather(test_rank *rank, meal *m)
{
    coll_status status = COLL_OK;
    for (size_t count = 1; status == COLL_OK && count <= COUNT / RANKS; count = count * 7 + 1) {
        status =
            coll_all_gather(m->comm, m->heap + COUNT, m->heap, count, COLL_INT32, &rank->error);
    }
    return status;
}

static coll_status end_together(test_rank *rank, meal *m)
{
    return coll_barrier(m->comm, &rank->error);
}

static void meal_body(test_rank *rank)
{
    static coll_status (*const courses[])(test_rank *, meal *) = {split,   share,  reduce,
                                                                  pass_on, gather, end_together};
    meal m = {.heap = calloc((size_t)2 * COUNT, sizeof *m.heap)};
    RANK_CHECK(rank, m.heap != NULL);
    RANK_OK(rank, make_context(rank));
    meet();
    begin(rank);
    coll_status status = COLL_OK;
    for (size_t i = 0; status == COLL_OK && i < sizeof courses / sizeof courses[0]; i++) {
        status = courses[i](rank, &m);
    }
    end(rank);
    check(rank, status, false);
    coll_arena_destroy(m.arena);
    coll_comm_destroy(m.comm);
    coll_context_destroy(rank->context);
    free(m.heap);
}

/* Of each of the two ends of the list: the lowest rank is connected to by all, the highest connects to
 * all. */
static void try_all(void **state, coll_algorithm algorithm, test_rank_body body)
{
    tried = *state;
    const test_ranks_options options = {
        .size = RANKS, .transport = tried->transport, .algorithm = algorithm, .bare = true};
    for (test_want what = TEST_WANT_MEMORY; what <= tried->last; what++) {
        test_famine_sweep(&options, what, 0, body);
        test_famine_sweep(&options, what, RANKS - 1, body);
    }
}

static void contexts(void **state)
{
    try_all(state, COLL_ALGORITHM_AUTO, context_body);
}

static void operations(void **state)
{
    try_all(state, COLL_ALGORITHM_DIRECT, meal_body);
}

#define OVER(way_)                                                                                 \
    {"contexts_" #way_, contexts, NULL, NULL, (void *)(uintptr_t) & (way_)},                       \
    {                                                                                              \
        "operations_" #way_, operations, NULL, NULL, (void *)(uintptr_t) & (way_)                  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {OVER(over_shm), OVER(over_tcp), OVER(over_zmq),
                                       OVER(over_both)};
    return cmocka_run_group_tests_name("coll-told", tests, NULL, NULL);
}
