/* Broadcast, scatter, gather and reduce of what travels with a flag, over sockets: a rank ends
 * as soon as it has what it takes. Givers that have ended wait for nobody, run ahead by no more
 * than there are flags for, and still learn who disagrees with them. Ranks are threads, and as many
 * processors as the tests want. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "processors.h"
#include "ranks.h"
#include "support.h"

enum { RANKS_MAX = 3, COUNT = 16, UNDERWAY_MAX = 16 };

#define SHORT_NS (300 * BASE_NS_PER_MS)

static const coll_transport transports[] = {COLL_TRANSPORT_TCP, COLL_TRANSPORT_ZMQ};
enum { TRANSPORTS = sizeof transports / sizeof transports[0] };

/* With a processor for each rank, where flags are put off, and without. */
static void on_all(int size, int64_t timeout_ns, void *user, test_rank_body body)
{
    for (int i = 0; i < 2 * TRANSPORTS; i++) {
        test_processors_claim(i % 2 == 0 ? size : 1);
        test_ranks_as_threads(&(test_ranks_options){.size = size,
                                                    .transport = transports[i / 2],
                                                    .timeout_ns = timeout_ns,
                                                    .user = user},
                              body);
    }
}

/* Not in the library meanwhile. False: it takes too long. */
static bool await(atomic_int *word, int value)
{
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    while (atomic_load(word) < value && base_now_ns() < deadline_ns) {
        (void)sched_yield();
    }
    return atomic_load(word) >= value;
}

/* ---- ending early ---- */

static const coll_kind rooted[] = {COLL_BROADCAST, COLL_SCATTER, COLL_GATHER, COLL_REDUCE};
enum { ROOTED = sizeof rooted / sizeof rooted[0] };

static coll_op_desc make_desc(coll_kind kind, int root, size_t count, int32_t *memory)
{
    return (coll_op_desc){.size = sizeof(coll_op_desc),
                          .kind = kind,
                          .send = memory,
                          .recv = kind == COLL_BROADCAST ? memory : memory + RANKS_MAX * COUNT,
                          .count = count,
                          .type = COLL_INT32,
                          .reduce = COLL_SUM,
                          .root = root};
}

/* Whoever gives has ended before anybody who takes has begun, and those find all there is. */
static void early_body(test_rank *rank)
{
    static atomic_int given[ROOTED][COUNT];
    coll_comm *comm = coll_context_world(rank->context);
    for (int k = 0; k < ROOTED; k++) {
        const coll_kind kind = rooted[k];
        const bool from_root = kind == COLL_BROADCAST || kind == COLL_SCATTER;
        const bool gives = (rank->rank == 0) == from_root;
        const int givers = from_root ? 1 : rank->size - 1;
        for (int i = 0; i < COUNT; i++) {
            int32_t memory[2 * RANKS_MAX * COUNT] = {0};
            const coll_op_desc desc = make_desc(kind, 0, 1, memory);
            if (i == 0 && rank->rank == 0) {
                for (int j = 0; j < COUNT; j++) {
                    atomic_store(&given[k][j], 0);
                }
            }
            if (i == 0) {
                RANK_OK(rank, coll_barrier(comm, &rank->error));
            }
            for (int r = 0; r < rank->size; r++) {
                memory[r] = gives ? 100 * i + 10 * rank->rank + r : -1;
            }
            RANK_CHECK(rank, gives || await(&given[k][i], givers));
            RANK_OK(rank, coll_run(comm, &desc, &rank->error));
            (void)atomic_fetch_add(&given[k][i], gives ? 1 : 0);
            const int32_t *got = desc.recv;
            const int32_t last = 100 * i + 10 * (rank->size - 1);
            RANK_CHECK(rank, kind != COLL_BROADCAST || got[0] == 100 * i);
            RANK_CHECK(rank, gives || kind != COLL_SCATTER || got[0] == 100 * i + rank->rank);
            RANK_CHECK(rank, gives || kind != COLL_GATHER || got[rank->size - 1] == last);
            RANK_CHECK(rank, gives || kind != COLL_REDUCE ||
                                 got[0] == (rank->size == 2 ? last - 1 : 2 * last - 11));
        }
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void givers_wait_for_nobody(void **state)
{
    (void)state;
    on_all(2, 0, NULL, early_body);
    on_all(3, 0, NULL, early_body);
}

/* A root with a hundred broadcasts, blocking or not, and a peer that does nothing: it ends as many
 * as there are flags for and not one more, and the peer then finds every value. */
static void ahead_body(test_rank *rank)
{
    enum { OPS = 100 };
    static atomic_bool tried;
    const int away = rank->size - 1;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t values[OPS];
    coll_request *requests[OPS] = {NULL};
    int done_count = 0;
    atomic_store(&tried, false);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    while (rank->rank == away && !atomic_load(&tried)) {
        (void)sched_yield(); /* a peer that is elsewhere */
    }
    for (int i = 0; i < OPS; i++) {
        const coll_op_desc desc = make_desc(COLL_BROADCAST, 0, 1, &values[i]);
        values[i] = rank->rank == 0 ? i + 1 : 0;
        RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
    }
    if (rank->rank == 0) {
        for (int i = 0; i < 2000; i++) {
            RANK_OK(rank, coll_context_progress(rank->context, &rank->error));
        }
        for (bool done = true; done && done_count < OPS;) {
            RANK_OK(rank, coll_request_test(&requests[done_count], &done, &rank->error));
            done_count += done;
        }
        RANK_CHECK(rank, done_count == UNDERWAY_MAX);
        atomic_store(&tried, true);
    }
    RANK_OK(rank,
            coll_request_wait_all(requests + done_count, OPS - (size_t)done_count, &rank->error));
    for (int i = 0; i < OPS; i++) {
        RANK_CHECK(rank, values[i] == i + 1);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void roots_run_ahead_so_far(void **state)
{
    (void)state;
    on_all(2, 0, NULL, ahead_body);
    on_all(3, 0, NULL, ahead_body);
}

/* The same with blocking calls: who does not come is named. */
static void absent_body(test_rank *rank)
{
    static atomic_int over;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t value = 1;
    atomic_store(&over, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 1) {
        RANK_CHECK(rank, await(&over, 1));
        return;
    }
    coll_status status = COLL_OK;
    int i = 0;
    for (; status == COLL_OK && i <= UNDERWAY_MAX; i++) {
        status = coll_broadcast(comm, &value, 1, COLL_INT32, 0, &rank->error);
    }
    atomic_store(&over, 1);
    RANK_CHECK(rank, status == COLL_ERR_TIMEOUT && i == UNDERWAY_MAX + 1);
    RANK_CHECK(rank,
               test_has(rank->error.message, "broadcast int32 × 1 root 0 direct #19 (4 bytes"));
    RANK_CHECK(rank, test_has(rank->error.message, "waiting for rank 1 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "; not arrived: rank 1 (host"));
    RANK_CHECK(rank,
               test_has(rank->error.message, "), whose last is #2 barrier; arrived: rank 0 (host"));
}

static void a_rank_that_holds_a_root_back_is_named(void **state)
{
    (void)state;
    on_all(2, SHORT_NS, NULL, absent_body);
}

/* Flags that wait to be coalesced leave when there is nothing else to do: the root gets its credit
 * back from a peer that has gone on to wait for something else. */
static void idle_body(test_rank *rank)
{
    enum { FIRST = 3, OPS = 40 };
    coll_comm *comm = coll_context_world(rank->context);
    int32_t values[FIRST + OPS] = {0};
    coll_request *requests[OPS] = {NULL};
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    for (int i = 0; i < FIRST; i++) {
        RANK_OK(rank, coll_broadcast(comm, &values[i], 1, COLL_INT32, 0, &rank->error));
    }
    if (rank->rank == 1) {
        RANK_OK(rank, coll_receive(comm, values, 1, COLL_INT32, 0, &rank->error));
    }
    for (int i = 0; i < OPS; i++) {
        const coll_op_desc desc = make_desc(COLL_BROADCAST, 0, 1, &values[FIRST + i]);
        RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
    }
    if (rank->rank == 0) {
        for (int i = 0; i < UNDERWAY_MAX; i++) {
            RANK_OK(rank, coll_request_wait(&requests[i], &rank->error));
        }
        RANK_OK(rank, coll_send(comm, values, 1, COLL_INT32, 1, &rank->error));
    }
    RANK_OK(rank, coll_request_wait_all(requests, OPS, &rank->error));
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void kept_lines_leave_in_time(void **state)
{
    (void)state;
    on_all(2, 0, NULL, idle_body);
}

/* What a rank has taken is reported to its peer before it goes elsewhere, even if flags in between
 * that wait to be coalesced say so as well. */
static void credit_body(test_rank *rank)
{
    enum { AMONG = 3, FRAMES = 4, ALL = 7 };
    static atomic_int sent;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t value = 0;
    atomic_store(&sent, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    for (int i = 0; i < ALL; i++) {
        RANK_CHECK(rank, i != FRAMES || rank->rank == 1 || await(&sent, ALL));
        if (rank->rank == 1) {
            value = i;
            RANK_OK(rank, coll_send(comm, &value, 1, COLL_INT32, 0, &rank->error));
            (void)atomic_fetch_add(&sent, 1);
        } else {
            RANK_OK(rank, coll_receive(comm, &value, 1, COLL_INT32, 1, &rank->error));
        }
        RANK_CHECK(rank, value == i);
        if (i < AMONG) {
            RANK_OK(rank, coll_broadcast(comm, &value, 1, COLL_INT32, 1, &rank->error));
        }
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void credit_is_not_kept_back(void **state)
{
    (void)state;
    on_all(2, 5 * BASE_NS_PER_S, NULL, credit_body);
}

/* Who leaves while a root waits for it is named at once. */
static void left_body(test_rank *rank)
{
    enum { OPS = 40 };
    static atomic_int ahead;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t values[OPS] = {0};
    coll_request *requests[OPS] = {NULL};
    atomic_store(&ahead, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 1) {
        RANK_CHECK(rank, await(&ahead, 1));
        return;
    }
    for (int i = 0; i < OPS; i++) {
        const coll_op_desc desc = make_desc(COLL_BROADCAST, 0, 1, &values[i]);
        RANK_OK(rank, coll_start(comm, &desc, &requests[i], &rank->error));
    }
    for (int i = 0; i < UNDERWAY_MAX; i++) {
        RANK_OK(rank, coll_request_wait(&requests[i], &rank->error));
    }
    atomic_store(&ahead, 1);
    RANK_CHECK(rank, coll_request_wait_all(requests, OPS, &rank->error) == COLL_ERR_PEER);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 1 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "has left the job before broadcast int32"));
}

static void a_rank_that_leaves_a_root_waiting_is_named(void **state)
{
    (void)state;
    on_all(2, 5 * BASE_NS_PER_S, NULL, left_body);
}

/* ---- disagreement ---- */

static bool is_named(const test_rank *rank, int first, int second, const char *what)
{
    char names[2][32];
    (void)snprintf(names[0], sizeof names[0], "rank %d (host", first);
    (void)snprintf(names[1], sizeof names[1], "rank %d (host", second);
    return test_has(rank->error.message, what) && test_has(rank->error.message, names[0]) &&
           test_has(rank->error.message, names[1]);
}

typedef enum then_call {
    THEN_BARRIER,
    THEN_BROADCAST,
    THEN_RECEIVE,
    THEN_ELSEWHERE,
    THEN_CALLS,
} then_call;

/* What a root calls that has returned from a broadcast of another length than its peer's. */
static coll_status call_then(test_rank *rank, then_call call, coll_comm *comm, coll_comm *other)
{
    coll_status status = COLL_OK;
    int32_t value = 0;
    switch (call) {
    case THEN_BROADCAST:
        for (int i = 0; status == COLL_OK && i <= UNDERWAY_MAX; i++) {
            status = coll_broadcast(comm, &value, 1, COLL_INT32, 0, &rank->error);
        }
        return status;
    case THEN_RECEIVE:
        return coll_receive(comm, &value, 1, COLL_INT32, 1, &rank->error);
    case THEN_ELSEWHERE:
        status = coll_barrier(other, &rank->error);
        return status == COLL_OK ? coll_broadcast(comm, &value, 1, COLL_INT32, 0, &rank->error)
                                 : status;
    default:
        return coll_barrier(comm, &rank->error);
    }
}

static void count_body(test_rank *rank)
{
    static atomic_int returned;
    const then_call call = *(const then_call *)rank->user;
    const int ranks[] = {0, 1};
    coll_comm *comm = coll_context_world(rank->context);
    coll_comm *other = NULL;
    int32_t values[2] = {0};
    coll_status status = COLL_OK;
    atomic_store(&returned, 0);
    RANK_OK(rank, coll_comm_create(rank->context, ranks, 2, &other, &rank->error));
    if (rank->rank == 0) {
        RANK_OK(rank, coll_broadcast(comm, values, 1, COLL_INT32, 0, &rank->error));
        atomic_store(&returned, 1);
        status = call_then(rank, call, comm, other);
    } else {
        RANK_CHECK(rank, await(&returned, 1));
        status = coll_broadcast(comm, values, 2, COLL_INT32, 0, &rank->error);
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, is_named(rank, 0, 1, "ranks disagree on operation #2"));
    RANK_CHECK(rank, test_has(rank->error.message, "× 1 root") &&
                         test_has(rank->error.message, "× 2 root"));
    if (rank->rank == 1 && call == THEN_ELSEWHERE) {
        RANK_OK(rank, coll_barrier(other, &rank->error));
    }
    coll_comm_destroy(other);
}

static void roots_that_returned_learn_it(void **state)
{
    (void)state;
    for (int call = 0; call < THEN_CALLS; call++) {
        then_call then = (then_call)call;
        on_all(2, 0, &then, count_body);
    }
}

/* One of three ranks calls something else than the two others, in every way that there is: all
 * learn it by their next call. */
static bool try_pair(test_rank *rank, int dissenter, int common, int other)
{
    static const int ranks[] = {0, 1, 2};
    int32_t memory[2 * RANKS_MAX * COUNT] = {0};
    coll_comm *comm = NULL;
    const int mine = rank->rank == dissenter ? other : common;
    const coll_op_desc desc = make_desc(rooted[mine / RANKS_MAX], mine % RANKS_MAX, 2, memory);
    coll_status status = coll_comm_create(rank->context, ranks, RANKS_MAX, &comm, &rank->error);
    if (status != COLL_OK) {
        return false;
    }
    status = coll_run(comm, &desc, &rank->error);
    if (status == COLL_OK) {
        status = coll_barrier(comm, &rank->error);
    }
    char name[32];
    (void)snprintf(name, sizeof name, "rank %d (host", dissenter);
    coll_comm_destroy(comm);
    return status == COLL_ERR_MISMATCH && test_has(rank->error.message, name) &&
           test_has(rank->error.message, "ranks disagree on operation #2");
}

static void pairs_body(test_rank *rank)
{
    enum { CALLS = ROOTED * RANKS_MAX };
    for (int i = 0; i < CALLS * CALLS; i++) {
        for (int dissenter = 0; i / CALLS != i % CALLS && dissenter < RANKS_MAX; dissenter++) {
            if (!try_pair(rank, dissenter, i / CALLS, i % CALLS)) {
                test_rank_fail(rank, "rank %d calls %d, the others %d: %s", dissenter, i % CALLS,
                               i / CALLS, rank->error.message);
                coll_context_abort(rank->context, "the test has failed");
                return;
            }
        }
    }
}

static void any_two_calls_that_differ_are_named(void **state)
{
    (void)state;
    on_all(3, 0, NULL, pairs_body);
}

typedef enum outside {
    OUTSIDE_AFTER_GIVING, /* rank 0 has reduced to rank 1, rank 2 waits for rank 0's broadcast */
    OUTSIDE_AFTER_TAKING, /* rank 1 has taken a broadcast of rank 0's, rank 2 waits for all */
    OUTSIDE_WHILE_TAKING, /* rank 1 has begun one, rank 2 waits for all */
    OUTSIDES,
} outside;

/* What rank 0 or 1 does before it goes elsewhere. */
static coll_status go_outside(test_rank *rank, outside which, int32_t *memory,
                              coll_request **request)
{
    coll_comm *comm = coll_context_world(rank->context);
    const coll_op_desc broadcast = make_desc(COLL_BROADCAST, 0, 1, memory);
    const coll_op_desc reduce = make_desc(COLL_REDUCE, 1, 1, memory);
    switch (which) {
    case OUTSIDE_AFTER_GIVING:
        return rank->rank == 0 ? coll_run(comm, &reduce, &rank->error) : COLL_OK;
    case OUTSIDE_AFTER_TAKING:
        return coll_run(comm, &broadcast, &rank->error);
    default:
        return rank->rank == 1 ? coll_start(comm, &broadcast, request, &rank->error) : COLL_OK;
    }
}

/* A rank that waits learns of the disagreement while the others are not in the library. */
static void outside_body(test_rank *rank)
{
    static atomic_int out;
    static atomic_int learnt;
    const outside which = *(const outside *)rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t memory[2 * RANKS_MAX * COUNT] = {0};
    coll_request *request = NULL;
    coll_status status = COLL_OK;
    atomic_store(&out, 0);
    atomic_store(&learnt, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank < 2) {
        RANK_OK(rank, go_outside(rank, which, memory, &request));
        (void)atomic_fetch_add(&out, 1);
        RANK_CHECK(rank, await(&learnt, 1));
        status = coll_request_wait(&request, &rank->error);
        status = status == COLL_OK ? coll_barrier(comm, &rank->error) : status;
    } else {
        RANK_CHECK(rank, await(&out, 2));
        status = which == OUTSIDE_AFTER_GIVING
                     ? coll_broadcast(comm, memory, 1, COLL_INT32, 0, &rank->error)
                     : coll_barrier(comm, &rank->error);
        atomic_store(&learnt, 1);
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, "ranks disagree on operation #3"));
    RANK_CHECK(rank,
               rank->rank < 2 || is_named(rank, which == OUTSIDE_WHILE_TAKING ? 1 : 0, 2, ""));
}

static void a_waiting_rank_learns_from_ranks_outside_calls(void **state)
{
    (void)state;
    for (int i = 0; i < OUTSIDES; i++) {
        outside which = (outside)i;
        on_all(3, 5 * BASE_NS_PER_S, &which, outside_body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(givers_wait_for_nobody),
        cmocka_unit_test(roots_run_ahead_so_far),
        cmocka_unit_test(a_rank_that_holds_a_root_back_is_named),
        cmocka_unit_test(kept_lines_leave_in_time),
        cmocka_unit_test(credit_is_not_kept_back),
        cmocka_unit_test(a_rank_that_leaves_a_root_waiting_is_named),
        cmocka_unit_test(roots_that_returned_learn_it),
        cmocka_unit_test(any_two_calls_that_differ_are_named),
        cmocka_unit_test(a_waiting_rank_learns_from_ranks_outside_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
