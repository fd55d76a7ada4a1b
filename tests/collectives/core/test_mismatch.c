/* Ranks that call different operations: every rank fails, and its error names both sides. Ranks are
 * threads. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"

enum { COUNT = 1000, LONG_COUNT = 50000, FLAGS = 32, MISMATCH_RANKS = 3 };

typedef enum difference {
    DIFFERENT_COUNT,
    DIFFERENT_TYPE,
    DIFFERENT_REDUCE,
    DIFFERENT_ROOT,
    DIFFERENT_KIND,
    DIFFERENT_SCAN, /* exclusive, and the others' not */
    DIFFERENT_ALGORITHM,
    DIFFERENT_OWN_NAME, /* of reductions of the program's own, */
    DIFFERENT_OWN_SIZE, /* and what an element has */
    DIFFERENCES,
} difference;

typedef struct mismatch {
    difference which;
    atomic_int agreed; /* ranks that have ended all calls which agree */
} mismatch;

/* Waits outside the library until all ranks have ended the calls that agree: a rank that were still
 * in one would learn of the mismatch there. */
static void await_agreed(test_rank *rank, mismatch *m)
{
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    (void)atomic_fetch_add(&m->agreed, 1);
    while (atomic_load(&m->agreed) < MISMATCH_RANKS && base_now_ns() < deadline_ns) {
        (void)sched_yield();
    }
    RANK_CHECK(rank, atomic_load(&m->agreed) == MISMATCH_RANKS);
}

static void keep_left(void *left, const void *right, size_t count, void *user)
{
    (void)left;
    (void)right;
    (void)count;
    (void)user;
}

static void make_different(difference which, coll_op_desc *desc, coll_reduction *own)
{
    desc->count -= which == DIFFERENT_COUNT ? 1 : 0;
    desc->type = which == DIFFERENT_TYPE ? COLL_INT32 : desc->type;
    desc->reduce = which == DIFFERENT_REDUCE ? COLL_MAX : desc->reduce;
    desc->root = which == DIFFERENT_ROOT ? 1 : 0;
    desc->algorithm = which == DIFFERENT_ALGORITHM ? COLL_ALGORITHM_RING : desc->algorithm;
    desc->kind = which == DIFFERENT_SCAN ? COLL_EXSCAN : desc->kind;
    own->name = which == DIFFERENT_OWN_NAME ? "argmin" : own->name;
    own->element_bytes = which == DIFFERENT_OWN_SIZE ? 2 : own->element_bytes;
    if (which == DIFFERENT_KIND) {
        desc->kind = COLL_ALL_GATHER;
        desc->send = (const float *)desc->send + COUNT;
    }
}

/* Rank 1 calls something else; everybody must learn it, with both sides named, and stay failed. */
static void mismatch_body(test_rank *rank)
{
    static const char *const texts[] = {"× 999",
                                        "int32",
                                        "max",
                                        "root 1",
                                        "all_gather",
                                        "exscan",
                                        "ring",
                                        "4-byte × 1000 argmin",
                                        "2-byte × 1000 argmax"};
    mismatch *m = rank->user;
    const difference which = m->which;
    static float memory[8][4 * COUNT];
    coll_comm *comm = coll_context_world(rank->context);
    coll_op_desc desc = {.size = sizeof(coll_op_desc),
                         .kind = which == DIFFERENT_ROOT   ? COLL_BROADCAST
                                 : which == DIFFERENT_SCAN ? COLL_SCAN
                                                           : COLL_ALL_REDUCE,
                         .send = memory[rank->rank],
                         .recv = memory[rank->rank],
                         .count = COUNT,
                         .type = COLL_FLOAT32,
                         .reduce = COLL_SUM,
                         .algorithm = COLL_ALGORITHM_DIRECT};
    coll_reduction own = {
        .size = sizeof own, .name = "argmax", .element_bytes = 4, .combine = keep_left};
    if (which == DIFFERENT_OWN_NAME || which == DIFFERENT_OWN_SIZE) {
        desc.type = 0;
        desc.reduce = 0;
        desc.reduction = &own;
    }
    for (int i = 0; i < FLAGS; i++) { /* so that all have shown the same by name, */
        RANK_OK(rank, coll_run(comm, &desc, &rank->error));
    }
    await_agreed(rank, m);
    desc.algorithm = COLL_ALGORITHM_AUTO; /* and then by AUTO, which chooses it */
    if (rank->rank == 1) {
        make_different(which, &desc, &own);
    }
    coll_op *op = NULL;
    RANK_OK(rank, coll_op_create(comm, &desc, &op, &rank->error));
    coll_status status = coll_op_start(op, &rank->error); /* may know already */
    if (status == COLL_OK) {
        status = coll_op_wait(op, &rank->error);
    }
    if (status == COLL_OK && which == DIFFERENT_ROOT) {
        status = coll_barrier(comm, &rank->error); /* who waits for nobody learns it now */
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, texts[which]));
    RANK_CHECK(rank, test_has(rank->error.message, " auto (")); /* as rank 0, and 2, has said */
    RANK_CHECK(rank, test_has(rank->error.message, "rank 1 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "rank 0 (host") ||
                         test_has(rank->error.message, "rank 2 (host"));
    coll_op_destroy(op);
    coll_error again;
    RANK_CHECK(rank, coll_barrier(comm, &again) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, strcmp(again.message, rank->error.message) == 0);
    RANK_CHECK(rank, coll_op_create(comm, &desc, &op, &again) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, strcmp(again.message, rank->error.message) == 0);
}

static void mismatches(coll_transport transport)
{
    for (int which = 0; which < DIFFERENCES; which++) {
        mismatch m = {.which = (difference)which};
        test_ranks_as_threads(
            &(test_ranks_options){.size = MISMATCH_RANKS, .transport = transport, .user = &m},
            mismatch_body);
    }
}

/* Rank 1 has other parts than the others: the same number of them for itself and in all. */
static void parts_body(test_rank *rank)
{
    static const size_t parts[][3] = {{10, 20, 30}, {30, 20, 10}};
    static float whole[3][60];
    static float part[3][30];
    const coll_kind kind = *(const coll_kind *)rank->user;
    const bool gathers = kind == COLL_ALL_GATHER || kind == COLL_GATHER;
    coll_comm *comm = coll_context_world(rank->context);
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = kind,
                               .send = gathers ? part[rank->rank] : whole[rank->rank],
                               .recv = gathers ? whole[rank->rank] : part[rank->rank],
                               .counts = parts[rank->rank == 1],
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM};
    coll_status status = coll_run(comm, &desc, &rank->error);
    if (status == COLL_OK) { /* a rank that only gives waits for nobody */
        status = coll_barrier(comm, &rank->error);
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 1 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "× 60 in parts "));
}

static void test_parts_of_equal_sum_are_told_apart(void **state)
{
    (void)state;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    for (size_t t = 0; t < sizeof transports / sizeof transports[0]; t++) {
        coll_kind kinds[] = {COLL_ALL_GATHER, COLL_REDUCE_SCATTER, COLL_GATHER, COLL_SCATTER};
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            test_ranks_as_threads(
                &(test_ranks_options){.size = 3, .transport = transports[t], .user = &kinds[k]},
                parts_body);
        }
    }
}

/* Two ranks, and each takes itself for the root: neither waits for the other, but both learn it by
 * the next operation. */
static void two_roots_body(test_rank *rank)
{
    static float memory[2][LONG_COUNT];
    const size_t count = *(const size_t *)rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    coll_status status =
        coll_broadcast(comm, memory[rank->rank], count, COLL_FLOAT32, rank->rank, &rank->error);
    if (status == COLL_OK) {
        status = coll_barrier(comm, &rank->error);
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, "ranks disagree on operation #2: "));
    RANK_CHECK(rank, test_has(rank->error.message, "rank 0 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "rank 1 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "root 0"));
    RANK_CHECK(rank, test_has(rank->error.message, "root 1"));
}

static void test_two_roots(void **state)
{
    (void)state;
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    static const size_t counts[] = {1, LONG_COUNT};
    for (int t = 0; t < 3; t++) {
        for (int c = 0; c < 2; c++) {
            size_t count = counts[c];
            test_ranks_as_threads(
                &(test_ranks_options){.size = 2, .transport = transports[t], .user = &count},
                two_roots_body);
        }
    }
}

static void test_mismatch_shm(void **state)
{
    (void)state;
    mismatches(COLL_TRANSPORT_SHM);
}

static void test_mismatch_tcp(void **state)
{
    (void)state;
    mismatches(COLL_TRANSPORT_TCP);
}

static void test_mismatch_zmq(void **state)
{
    (void)state;
    mismatches(COLL_TRANSPORT_ZMQ);
}

/* Rank 1 calls the operations of two communicators in another order than the others: all name the
 * communicator that they wait in. */
static void crossed_body(test_rank *rank)
{
    enum { COMMS = 2, LONG = 100000 };
    static float memory[MISMATCH_RANKS][LONG];
    coll_comm *comms[COMMS] = {NULL};
    coll_comm *world = coll_context_world(rank->context);
    float *values = memory[rank->rank];
    for (int i = 0; i < COMMS; i++) {
        RANK_OK(rank, coll_comm_split(world, 0, rank->rank, &comms[i], &rank->error));
    }
    const int mine = rank->rank == 1 ? 1 : 0;
    /* one more where the cost model was measured, with a communicator of its own */
    const bool is_shared = coll_context_transport(rank->context) == COLL_TRANSPORT_SHM;
    char text[128];
    (void)snprintf(text, sizeof text,
                   "all_reduce float × 100000 sum direct #2 of communicator %d of ranks 0-2 "
                   "(400000 bytes over ",
                   (is_shared ? 2 : 3) + mine);
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_REDUCE,
                               .send = values,
                               .recv = values,
                               .count = LONG,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM,
                               .algorithm = COLL_ALGORITHM_DIRECT};
    RANK_CHECK(rank, coll_run(comms[mine], &desc, &rank->error) == COLL_ERR_TIMEOUT);
    RANK_CHECK(rank, test_has(rank->error.message, text));
    RANK_OK(rank, coll_barrier(world, &rank->error)); /* nobody leaves before all have waited */
    for (int i = 0; i < COMMS; i++) {
        coll_comm_destroy(comms[i]);
    }
}

static void test_crossed_communicators_are_named(void **state)
{
    static const coll_transport over[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                          COLL_TRANSPORT_TCP};
    (void)state;
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = MISMATCH_RANKS,
                                                    .transport = over[i],
                                                    .timeout_ns = 2 * BASE_NS_PER_S},
                              crossed_body);
    }
}

/* So does a mismatch, of an operation and of a message. */
static void mismatch_inside_body(test_rank *rank)
{
    coll_comm *world = coll_context_world(rank->context);
    coll_comm *comm = NULL;
    int32_t values[4] = {0};
    const size_t count = rank->rank == 0 ? 1 : 2;
    RANK_OK(rank, coll_comm_split(world, rank->rank % 2, rank->rank, &comm, &rank->error));
    if (rank->rank == 1) {
        coll_comm_destroy(comm);
        return;
    }
    const bool *is_message = rank->user;
    const coll_status status =
        !*is_message
            ? coll_all_reduce(comm, values, values, count, COLL_INT32, COLL_SUM, &rank->error)
        : rank->rank == 0 ? coll_receive(comm, values, count, COLL_INT32, 1, &rank->error)
                          : coll_send(comm, values, count, COLL_INT32, 0, &rank->error);
    if (*is_message && rank->rank == 2) { /* who sends need not wait */
        coll_comm_destroy(comm);
        return;
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message,
                              *is_message ? "message #1 of communicator 1 of ranks 0 2: "
                                          : "operation #2 of communicator 1 of ranks 0 2"));
    coll_comm_destroy(comm);
}

static void test_a_mismatch_names_its_communicator(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool is_message = i == 1;
        test_ranks_as_threads(&(test_ranks_options){.size = MISMATCH_RANKS,
                                                    .transport = COLL_TRANSPORT_SHM,
                                                    .user = &is_message},
                              mismatch_inside_body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mismatch_shm),
        cmocka_unit_test(test_mismatch_zmq),
        cmocka_unit_test(test_mismatch_tcp),
        cmocka_unit_test(test_parts_of_equal_sum_are_told_apart),
        cmocka_unit_test(test_two_roots),
        cmocka_unit_test(test_crossed_communicators_are_named),
        cmocka_unit_test(test_a_mismatch_names_its_communicator),
    };
    return cmocka_run_group_tests_name("coll-mismatch", tests, NULL, NULL);
}
