/* What goes wrong says so on every rank: aborts, timeouts, ranks that leave. Ranks are
 * threads. test_mismatch.c has ranks that disagree, and test_misuse.c a program's own mistakes. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/failure.h"
#include "ranks.h"
#include "support.h"

#define SHORT_NS (300 * BASE_NS_PER_MS)

/* Rank 2 stays away: the others' error says who is missing, in what, and who is there. Whose time
 * is over first tells the other. */
static void absent_body(test_rank *rank)
{
    sem_t *over = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    float value = 1;
    if (rank->rank == 2) {
        for (int ended = 0; ended < 2;) {
            ended += sem_wait(over) == 0 ? 1 : 0;
        }
        return;
    }
    const coll_status status =
        coll_all_reduce(comm, &value, &value, 1, COLL_FLOAT32, COLL_SUM, &rank->error);
    (void)sem_post(over);
    RANK_CHECK(rank, status == COLL_ERR_TIMEOUT);
    RANK_CHECK(rank, test_has(rank->error.message, "all_reduce float × 1 sum direct #2 (4 bytes"));
    RANK_CHECK(rank, test_has(rank->error.message, "waiting for rank 2 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "; arrived: rank 0 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "; not arrived: rank 2 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "), whose last is #1 comm_create; arr"));
    RANK_CHECK(rank, test_has(rank->error.message, "pid "));
}

static void test_timeout_names_the_absent(void **state)
{
    (void)state;
    sem_t over;
    assert_int_equal(sem_init(&over, 0, 0), 0);
    const int64_t begin_ns = base_now_ns();
    test_ranks_as_threads(
        &(test_ranks_options){
            .size = 3, .transport = COLL_TRANSPORT_SHM, .timeout_ns = SHORT_NS, .user = &over},
        absent_body);
    assert_true(base_now_ns() - begin_ns >= SHORT_NS);
    (void)sem_destroy(&over);
}

/* In a part of the world a rank has two numbers: who ends it, or looks at it, knows the world's. */
static void absent_of_part_body(test_rank *rank)
{
    static const int part[] = {2, 1};
    sem_t *over = rank->user;
    coll_comm *comm = NULL;
    if (rank->rank > 0) {
        RANK_OK(rank, coll_comm_create(rank->context, part, 2, &comm, &rank->error));
    }
    if (rank->rank == 1) {
        const coll_status status = coll_barrier(comm, &rank->error);
        RANK_CHECK(rank, status == COLL_ERR_TIMEOUT);
        RANK_CHECK(rank, test_has(rank->error.message, "waiting for rank 0 (host"));
        RANK_CHECK(rank, test_has(rank->error.message, ", rank 2 of the world)"));
        RANK_CHECK(rank, !test_has(rank->error.message, "rank 1 of the world"));
    }
    if (rank->rank == 1) {
        (void)sem_post(over);
        (void)sem_post(over);
    } else {
        while (sem_wait(over) != 0) {
        }
    }
    coll_comm_destroy(comm);
}

static void test_a_rank_of_a_part_has_its_number_in_the_world(void **state)
{
    (void)state;
    sem_t over;
    assert_int_equal(sem_init(&over, 0, 0), 0);
    test_ranks_as_threads(
        &(test_ranks_options){
            .size = 3, .transport = COLL_TRANSPORT_SHM, .timeout_ns = SHORT_NS, .user = &over},
        absent_of_part_body);
    (void)sem_destroy(&over);
}

/* Rank 1 stays away from all communicators: waiting for all of them takes one timeout. */
static void one_deadline_body(test_rank *rank)
{
    enum { COMMS = 8 };
    static sem_t over;
    static const int both[] = {0, 1};
    const coll_op_desc desc = {.size = sizeof(coll_op_desc), .kind = COLL_BARRIER};
    coll_comm *comms[COMMS];
    coll_request *requests[COMMS];
    RANK_CHECK(rank, rank->rank != 0 || sem_init(&over, 0, 0) == 0);
    for (int i = 0; i < COMMS; i++) {
        RANK_OK(rank, coll_comm_create(rank->context, both, 2, &comms[i], &rank->error));
    }
    if (rank->rank == 0) {
        for (int i = 0; i < COMMS; i++) {
            RANK_OK(rank, coll_start(comms[i], &desc, &requests[i], &rank->error));
        }
        const int64_t begin_ns = base_now_ns();
        const coll_status status = coll_request_wait_all(requests, COMMS, &rank->error);
        const int64_t took_ns = base_now_ns() - begin_ns;
        (void)sem_post(&over);
        RANK_CHECK(rank, status == COLL_ERR_TIMEOUT && took_ns < COMMS / 2 * BASE_NS_PER_S);
        for (int i = 0; i < COMMS; i++) {
            RANK_CHECK(rank, requests[i] == NULL);
            RANK_CHECK(rank, coll_barrier(comms[i], &rank->error) == COLL_ERR_TIMEOUT);
        }
    } else {
        (void)sem_wait(&over);
    }
    for (int i = 0; i < COMMS; i++) {
        coll_comm_destroy(comms[i]);
    }
}

static void test_one_deadline_for_all(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2,
                                                .transport = COLL_TRANSPORT_SHM,
                                                .timeout_ns = BASE_NS_PER_S},
                          one_deadline_body);
}

/* Rank 2 leaves: the others need not wait for their deadline to say so. */
static void left_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    float value = 1;
    if (rank->rank == 2) {
        return;
    }
    RANK_CHECK(rank, coll_all_reduce(comm, &value, &value, 1, COLL_FLOAT32, COLL_SUM,
                                     &rank->error) == COLL_ERR_PEER);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 2 (host"));
    RANK_CHECK(rank, test_has(rank->error.message, "has gone"));
    RANK_CHECK(rank, test_has(rank->error.message, "all_reduce float × 1 sum direct #2"));
}

static void test_a_rank_that_leaves_is_named(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 3, .transport = COLL_TRANSPORT_SHM},
                          left_body);
}

/* Rank 0 hears from rank 1 that rank 2 has failed, and passes that on: the others name rank 2. Rank
 * 2 does not name itself, but who says so. */
static void relayed_body(test_rank *rank)
{
    char said[] = "it is over";
    coll_comm *comm = coll_context_world(rank->context);
    if (rank->rank == 0) {
        coll_comm_fail_as(comm, 1, 1 + 2, COLL_ERR_TIMEOUT, said);
    }
    RANK_CHECK(rank, coll_barrier(comm, &rank->error) == COLL_ERR_TIMEOUT);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 2 (") == (rank->rank != 2));
    RANK_CHECK(rank, test_has(rank->error.message, ") says: it is over"));
}

static void test_who_failed_first_is_passed_on(void **state)
{
    (void)state;
    static const coll_transport over[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                          COLL_TRANSPORT_TCP};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 4, .transport = over[i]}, relayed_body);
    }
}

typedef struct abort_job {
    coll_context *context; /* rank 0's */
    sem_t over;            /* rank 0 has been woken: rank 1 may leave */
    bool described;
} abort_job;

static void *abort_when_described(void *argument)
{
    abort_job *j = argument;
    char text[256] = "";
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    while (!j->described && base_now_ns() < deadline_ns) {
        coll_context_describe(j->context, text, sizeof text);
        j->described = test_has(text, "barrier #2") && test_has(text, "waiting for rank 1 (host");
        (void)sched_yield();
    }
    coll_context_abort(j->context, "the test says so");
    coll_context_abort(j->context, "and not this");
    return NULL;
}

/* Rank 0 waits for a rank that does not come, and is woken by an abort from another thread, which
 * acts when the description says that the wait has begun. */
static void abort_body(test_rank *rank)
{
    abort_job *j = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    pthread_t helper;
    char text[256];
    if (rank->rank == 1) {
        while (sem_wait(&j->over) != 0) {
        }
        return;
    }
    j->context = rank->context;
    const int started = pthread_create(&helper, NULL, abort_when_described, j);
    coll_status status = COLL_OK;
    if (started == 0) {
        status = coll_barrier(comm, &rank->error);
        (void)pthread_join(helper, NULL);
    }
    (void)sem_post(&j->over);
    RANK_CHECK(rank, status == COLL_ERR_ABORTED && j->described);
    RANK_CHECK(rank, test_has(rank->error.message, "the test says so"));
    RANK_CHECK(rank, coll_barrier(comm, &rank->error) == COLL_ERR_ABORTED);
    coll_context_describe(rank->context, text, sizeof text);
    RANK_CHECK(rank, text[0] == '\0');
}

static void abort_over(coll_transport transport)
{
    abort_job j = {.context = NULL};
    assert_int_equal(sem_init(&j.over, 0, 0), 0);
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = transport, .user = &j},
                          abort_body);
    (void)sem_destroy(&j.over);
}

static void test_abort_wakes(void **state)
{
    (void)state;
    abort_over(COLL_TRANSPORT_SHM);
    abort_over(COLL_TRANSPORT_ZMQ);
    abort_over(COLL_TRANSPORT_TCP);
}

typedef enum polled_end { LEAVES, IS_ABORTED, STAYS_AWAY } polled_end;

typedef struct polled_job {
    polled_end end;   /* of rank 1 */
    bool by_progress; /* rank 0 calls coll_context_progress; else it tests */
    sem_t over;       /* rank 0 has its error: rank 1 may leave */
} polled_job;

/* Until it fails. */
static coll_status poll_until_failure(test_rank *rank, bool by_progress, coll_request **request)
{
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    coll_status status = COLL_OK;
    bool done = false;
    while (status == COLL_OK && !done && base_now_ns() < deadline_ns) {
        (void)sched_yield();
        status = by_progress ? coll_context_progress(rank->context, &rank->error)
                             : coll_request_test(request, &done, &rank->error);
    }
    return status;
}

/* Rank 0 only polls, and learns that rank 1 leaves, is aborted, or does not come. */
static void polled_body(test_rank *rank)
{
    static const coll_status statuses[] = {COLL_ERR_PEER, COLL_ERR_ABORTED, COLL_ERR_TIMEOUT};
    polled_job *j = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    const coll_op_desc barrier = {.size = sizeof(coll_op_desc), .kind = COLL_BARRIER};
    coll_request *request = NULL;
    if (rank->rank == 1) {
        if (j->end == IS_ABORTED) {
            coll_context_abort(rank->context, "the test says so");
            RANK_CHECK(rank, coll_barrier(comm, &rank->error) == COLL_ERR_ABORTED);
        }
        while (j->end != LEAVES && sem_wait(&j->over) != 0) {
        }
        return;
    }
    coll_status status = coll_start(comm, &barrier, &request, &rank->error);
    if (status == COLL_OK) {
        status = poll_until_failure(rank, j->by_progress, &request);
    }
    (void)sem_post(&j->over);
    RANK_CHECK(rank, status == statuses[j->end]);
    RANK_CHECK(rank, test_has(rank->error.message, "rank 1 (host"));
    RANK_CHECK(rank, j->end != IS_ABORTED || test_has(rank->error.message, "the test says so"));
    RANK_CHECK(rank, j->end != STAYS_AWAY || test_has(rank->error.message, "no end after 1 s"));
    if (j->by_progress) {
        coll_error error = {.message = ""};
        RANK_CHECK(rank, coll_request_wait(&request, &error) == status);
        RANK_CHECK(rank, strcmp(error.message, rank->error.message) == 0);
        RANK_OK(rank, coll_context_progress(rank->context, &rank->error));
    }
}

static void poll_over(coll_transport transport, polled_end end, bool by_progress)
{
    polled_job j = {.end = end, .by_progress = by_progress};
    const test_ranks_options options = {.size = 2,
                                        .transport = transport,
                                        .timeout_ns = end == STAYS_AWAY ? BASE_NS_PER_S : 0,
                                        .user = &j};
    assert_int_equal(sem_init(&j.over, 0, 0), 0);
    test_ranks_as_threads(&options, polled_body);
    (void)sem_destroy(&j.over);
}

static void test_who_polls_learns_of_failures(void **state)
{
    (void)state;
    static const coll_transport over[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                          COLL_TRANSPORT_TCP};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        for (int by_progress = 0; by_progress < 2; by_progress++) {
            poll_over(over[i], LEAVES, by_progress == 1);
            poll_over(over[i], IS_ABORTED, by_progress == 1);
        }
        poll_over(over[i], STAYS_AWAY, false);
    }
}

static int count_descriptors(void)
{
    enum { DESCRIPTORS_MAX = 1024 };
    int count = 0;
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* A child closes its copies of the parent's sockets, where libcoll and not ZeroMQ holds them. */
static bool child_destroys(coll_context *context)
{
    const int before = count_descriptors();
    const bool closes = coll_context_transport(context) != COLL_TRANSPORT_ZMQ;
    coll_context_destroy(context);
    return !closes || count_descriptors() < before;
}

/* A child of rank 0 that was forked uses the context: it is told so, destroys it, and the ranks go on. */
static void forked_body(test_rank *rank)
{
    coll_comm *comm = coll_context_world(rank->context);
    RANK_OK(rank, coll_barrier(comm, &rank->error));
    if (rank->rank == 0) {
        int how = 0;
        const pid_t child = fork();
        if (child == 0) {
            coll_error error = {.message = ""};
            const coll_status status = coll_barrier(comm, &error);
            const bool told =
                status == COLL_ERR_STATE && test_has(error.message, "was forked from rank 0");
            _exit(told && child_destroys(rank->context) ? 0 : 1);
        }
        RANK_CHECK(rank, child > 0 && waitpid(child, &how, 0) == child);
        RANK_CHECK(rank, WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    RANK_OK(rank, coll_barrier(comm, &rank->error));
}

static void test_a_child_may_not_use_it(void **state)
{
    (void)state;
    static const coll_transport over[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                          COLL_TRANSPORT_ZMQ};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = over[i]}, forked_body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeout_names_the_absent),
        cmocka_unit_test(test_a_rank_of_a_part_has_its_number_in_the_world),
        cmocka_unit_test(test_one_deadline_for_all),
        cmocka_unit_test(test_a_rank_that_leaves_is_named),
        cmocka_unit_test(test_who_failed_first_is_passed_on),
        cmocka_unit_test(test_abort_wakes),
        cmocka_unit_test(test_who_polls_learns_of_failures),
        cmocka_unit_test(test_a_child_may_not_use_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
