/* The last call on a communicator: it tells what no other call is left to tell.
 * Ranks are threads. */
#include <linux/sockios.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "core/context.h"
#include "ranks.h"
#include "support.h"

#define PATIENCE_NS     (10 * BASE_NS_PER_S)
#define SHORT_NS        (BASE_NS_PER_S / 5)
#define LEAVES_AFTER_NS (BASE_NS_PER_S / 2) /* longer than destroying waits after a failure */

static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                            COLL_TRANSPORT_ZMQ};
enum { TRANSPORTS = sizeof transports / sizeof transports[0] };

static atomic_bool nobody_answers;            /* what is sent stays on its way */
static _Thread_local int64_t unsent_until_ns; /* it does not even leave before; 0: as it is */
static _Thread_local bool has_seen_all_leave;

int __real_ioctl(int fd, unsigned long request, ...);
int __wrap_ioctl(int fd, unsigned long request, ...);

int __wrap_ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    int *answer = va_arg(args, int *);
    va_end(args);
    const int result = __real_ioctl(fd, request, answer);
    if (request == SIOCOUTQ && atomic_load(&nobody_answers)) {
        *answer = 1;
    }
    if ((request == SIOCOUTQ || request == SIOCOUTQNSD) && unsent_until_ns != 0) {
        *answer = base_now_ns() < unsent_until_ns;
        has_seen_all_leave = *answer == 0;
    }
    return result;
}

/* Not in the library meanwhile. False: it takes too long. */
static bool await(atomic_int *word, int value)
{
    const int64_t deadline_ns = base_deadline_after_ns(PATIENCE_NS);
    while (atomic_load(word) < value && base_now_ns() < deadline_ns) {
        (void)sched_yield();
    }
    return atomic_load(word) >= value;
}

static void run(coll_transport transport, void *user, test_rank_body body)
{
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = transport, .user = user},
                          body);
}

/* Both ranks take themselves for the root of a broadcast, which waits for nobody. */
static void two_roots_body(test_rank *rank)
{
    static atomic_int ended;
    static atomic_int finalized;
    static atomic_int notified;
    const coll_transport transport = *(const coll_transport *)rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    coll_comm *other = NULL;
    int32_t values[2] = {0};
    atomic_store(&ended, 0);
    atomic_store(&finalized, 0);
    atomic_store(&notified, 0);
    RANK_OK(rank, coll_comm_split(comm, 0, rank->rank, &other, &rank->error));
    RANK_OK(rank, coll_barrier(other, &rank->error));
    const coll_status early =
        coll_broadcast(comm, values, 1 + (size_t)rank->rank, COLL_INT32, rank->rank, &rank->error);
    RANK_CHECK(rank, early == COLL_OK || early == COLL_ERR_MISMATCH);
    if (transport == COLL_TRANSPORT_ZMQ) {
        RANK_OK(rank, coll_barrier(other, &rank->error)); /* the news is here by then */
    }
    (void)atomic_fetch_add(&ended, 1);
    RANK_CHECK(rank, await(&ended, 2));
    coll_status status = coll_comm_finalize(comm, &rank->error);
    (void)atomic_fetch_add(&notified, status == COLL_ERR_MISMATCH);
    (void)atomic_fetch_add(&finalized, 1);
    RANK_CHECK(rank, await(&finalized, 2));
    RANK_CHECK(rank, atomic_load(&notified) >= 1);
    const int64_t deadline_ns = base_deadline_after_ns(PATIENCE_NS);
    while (status == COLL_OK && base_now_ns() < deadline_ns) {
        status =
            coll_comm_finalize(comm, &rank->error); /* one of them was notified, and notifies */
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 0 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "rank 1 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "int32 × 1 root 0"));
    RANK_CHECK(rank, test_has(rank->error.message, "int32 × 2 root 1"));
    coll_error again;
    RANK_CHECK(rank, coll_comm_finalize(comm, &again) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, strcmp(again.message, rank->error.message) == 0);
    coll_comm_destroy(other);
}

static void a_mismatch_is_notified(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        coll_transport transport = transports[t];
        run(transport, &transport, two_roots_body);
    }
}

/* Rank 0 sends two messages, and rank 1 receives the first. */
static void not_received_body(test_rank *rank)
{
    static atomic_int notified;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t value = 7;
    atomic_store(&notified, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    for (int i = 0; i < 2; i++) {
        if (rank->rank == 0) {
            RANK_OK(rank, coll_send(comm, &value, 1, COLL_INT32, 1, &rank->error));
        } else if (i == 0) {
            RANK_OK(rank, coll_receive(comm, &value, 1, COLL_INT32, 0, &rank->error));
        }
    }
    /* The messages are there by then. Rank 1 may have finalized before rank 0 has returned. */
    const coll_status barrier = coll_barrier(comm, &rank->error);
    RANK_CHECK(rank, barrier == COLL_OK || (rank->rank == 0 && barrier == COLL_ERR_MISMATCH));
    RANK_CHECK(rank, rank->rank == 1 || await(&notified, 1));
    const int64_t deadline_ns = base_deadline_after_ns(PATIENCE_NS);
    coll_status status = coll_comm_finalize(comm, &rank->error);
    atomic_store(&notified, 1);
    RANK_CHECK(rank, rank->rank == 0 || status == COLL_ERR_MISMATCH);
    while (status == COLL_OK && base_now_ns() < deadline_ns) {
        status = coll_comm_finalize(comm, &rank->error); /* the news may be on its way */
    }
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, "ranks disagree on message #2: rank 0 (host "));
    RANK_CHECK(rank, test_has(rank->error.message, ") calls send int32 × 1, rank 1 (host "));
    RANK_CHECK(rank, test_has(rank->error.message, ") has not received it"));
}

static void a_message_that_nobody_receives_is_notified(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        run(transports[t], NULL, not_received_body);
    }
}

/* Ranks 1 and 2 disagree on an operation that rank 0 never comes to. */
static void others_body(test_rank *rank)
{
    static atomic_int failed;
    static atomic_int received;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t value = 0;
    atomic_store(&failed, 0);
    atomic_store(&received, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank != 0) {
        RANK_CHECK(rank, coll_broadcast(comm, &value, 1, COLL_INT32, 3 - rank->rank,
                                        &rank->error) == COLL_ERR_MISMATCH);
        (void)atomic_fetch_add(&failed, 1);
        RANK_CHECK(rank, await(&received, 1));
        return;
    }
    RANK_CHECK(rank, await(&failed, 2));
    const int64_t deadline_ns = base_deadline_after_ns(PATIENCE_NS);
    coll_status status = COLL_OK;
    while (status == COLL_OK && base_now_ns() < deadline_ns) {
        status = coll_comm_finalize(comm, &rank->error); /* the news may be on its way */
    }
    atomic_store(&received, 1);
    RANK_CHECK(rank, status == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 1 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "rank 2 (host"));
}

static void what_others_disagree_on_is_notified(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = transports[t]},
                              others_body);
    }
}

/* Rank 0 gives, finalizes and leaves before rank 1 takes; and nothing was wrong. */
static void agreement_body(test_rank *rank)
{
    enum { OPS = 5 };
    static atomic_int left;
    int32_t values[OPS] = {0};
    coll_comm *comm = coll_context_world(rank->context);
    atomic_store(&left, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    RANK_CHECK(rank, rank->rank == 0 || await(&left, 1));
    for (int i = 0; i < OPS; i++) {
        values[i] = rank->rank == 0 ? i + 1 : 0;
        RANK_OK(rank, coll_broadcast(comm, &values[i], 1, COLL_INT32, 0, &rank->error));
        RANK_CHECK(rank, values[i] == i + 1);
    }
    RANK_OK(rank, coll_comm_finalize(comm, &rank->error));
    if (rank->rank == 0) {
        coll_context_destroy(rank->context);
        rank->context = NULL;
        atomic_store(&left, 1);
    }
}

static void nobody_is_waited_for(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        run(transports[t], NULL, agreement_body);
    }
}

static void under_way_body(test_rank *rank)
{
    static atomic_int tried;
    const coll_op_desc barrier = {.size = sizeof(coll_op_desc), .kind = COLL_BARRIER};
    int32_t value = 0;
    const coll_op_desc receive = {.size = sizeof(coll_op_desc),
                                  .kind = COLL_RECEIVE,
                                  .recv = &value,
                                  .count = 1,
                                  .type = COLL_INT32,
                                  .root = 0};
    coll_comm *comm = coll_context_world(rank->context);
    coll_request *requests[2] = {NULL};
    atomic_store(&tried, 0);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 0) {
        RANK_CHECK(rank, await(&tried, 1));
        RANK_OK(rank, coll_barrier(comm, &rank->error));
        RANK_CHECK(rank, await(&tried, 2));
        RANK_OK(rank, coll_send(comm, &value, 1, COLL_INT32, 1, &rank->error));
        return;
    }
    RANK_OK(rank, coll_start(comm, &barrier, &requests[0], &rank->error));
    RANK_OK(rank, coll_start(comm, &receive, &requests[1], &rank->error));
    for (int i = 0; i < 2; i++) {
        RANK_CHECK(rank, coll_comm_finalize(comm, &rank->error) == COLL_ERR_STATE);
        atomic_store(&tried, i + 1);
        RANK_OK(rank, coll_request_wait(&requests[i], &rank->error));
    }
    RANK_OK(rank, coll_comm_finalize(comm, &rank->error));
    coll_context_abort(rank->context, "enough");
    RANK_CHECK(rank, coll_comm_finalize(comm, &rank->error) == COLL_ERR_ABORTED);
}

static void what_is_under_way_stays(void **state)
{
    (void)state;
    for (int t = 0; t < TRANSPORTS; t++) {
        run(transports[t], NULL, under_way_body);
    }
}

typedef struct silence_case {
    bool aborts;
    bool shown; /* rank 1 has shown the operation, too */
} silence_case;

/* What rank 0 has sent never arrives: it names the rank that does not take it, or returns after an
 * abort. */
static void silence_body(test_rank *rank)
{
    static atomic_int passed; /* rank 1 has nothing to receive in the barrier any more */
    static atomic_int over;
    const silence_case *c = rank->user;
    const bool aborts = c->aborts;
    coll_comm *comm = coll_context_world(rank->context);
    int32_t value = 0;
    atomic_store(&over, 0);
    if (rank->rank == 1) {
        atomic_store(&passed, 0);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 1) {
        if (c->shown) {
            RANK_OK(rank, coll_barrier(comm, &rank->error));
        }
        atomic_store(&passed, 1);
        RANK_CHECK(rank, await(&over, 1));
        return;
    }
    if (c->shown) {
        RANK_OK(rank, coll_barrier(comm, &rank->error));
    }
    RANK_CHECK(rank, await(&passed, 1));
    if (!c->shown) {
        RANK_OK(rank, coll_broadcast(comm, &value, 1, COLL_INT32, 0, &rank->error));
    }
    atomic_store(&nobody_answers, true);
    rank->context->timeout_ns = SHORT_NS; /* of this call alone: all before may take its time */
    if (aborts) {
        coll_context_abort(rank->context, "enough");
    }
    const coll_status status = coll_comm_finalize(comm, &rank->error);
    atomic_store(&nobody_answers, false);
    atomic_store(&over, 1);
    RANK_CHECK(rank, status == (aborts ? COLL_ERR_ABORTED : COLL_ERR_TIMEOUT));
    RANK_CHECK(rank, aborts || test_has(rank->error.message, "rank 1 (host"));
}

static void a_rank_that_takes_nothing_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        silence_case c = {.aborts = i == 1, .shown = i == 2};
        run(COLL_TRANSPORT_TCP, &c, silence_body);
    }
}

/* Rank 2 leaves, and the others go on without it. What rank 0 has sent in the smaller communicator
 * gets the time to leave, as if nothing had failed before. */
static void shrunk_body(test_rank *rank)
{
    static const int both[] = {0, 1};
    static atomic_int gone;
    coll_context_options options = test_rank_options(rank);
    coll_comm *smaller = NULL;
    options.transport = COLL_TRANSPORT_TCP;
    atomic_store(&gone, 0);
    RANK_OK(rank, coll_context_create(&options, &rank->context, &rank->error));
    if (rank->rank < 2) {
        RANK_CHECK(rank, coll_barrier(coll_context_world(rank->context), &rank->error) != COLL_OK);
        RANK_OK(rank, coll_comm_create(rank->context, both, 2, &smaller, &rank->error));
        RANK_OK(rank, coll_barrier(smaller, &rank->error));
        coll_comm_destroy(smaller);
    }
    if (rank->rank == 0) {
        unsent_until_ns = base_now_ns() + LEAVES_AFTER_NS;
        has_seen_all_leave = false;
    }
    RANK_CHECK(rank, rank->rank != 1 || await(&gone, 1));
    coll_context_destroy(rank->context);
    if (rank->rank == 0) {
        unsent_until_ns = 0;
        atomic_store(&gone, 1);
        RANK_CHECK(rank, has_seen_all_leave);
    }
}

static void a_smaller_communicator_is_whole_again(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .bare = true}, shrunk_body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mismatch_is_notified),
        cmocka_unit_test(a_message_that_nobody_receives_is_notified),
        cmocka_unit_test(what_others_disagree_on_is_notified),
        cmocka_unit_test(nobody_is_waited_for),
        cmocka_unit_test(what_is_under_way_stays),
        cmocka_unit_test(a_rank_that_takes_nothing_is_named),
        cmocka_unit_test(a_smaller_communicator_is_whole_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
