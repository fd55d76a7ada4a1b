/* A rank that cannot connect tells the others why, and nobody waits for the deadline. Ranks are
 * threads. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ranks.h"
#include "support.h"

/* Rank 1 has an interface that is not there. */
static void one_fails_body(test_rank *rank)
{
    const coll_transport *transport = rank->user;
    coll_context_options options = test_rank_options(rank);
    options.transport = *transport;
    options.interface = rank->rank == 1 ? "nosuch0" : NULL;
    const int64_t begin_ns = base_now_ns();
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    RANK_CHECK(rank, status == (rank->rank == 1 ? COLL_ERR_INVALID : COLL_ERR_PEER));
    RANK_CHECK(rank, test_has(rank->error.message, "nosuch0"));
    RANK_CHECK(rank, rank->rank == 1 || test_has(rank->error.message, "3 ranks: rank 1 (host"));
    RANK_CHECK(rank, rank->rank == 1 || test_has(rank->error.message, ") failed: "));
    RANK_CHECK(rank, base_now_ns() - begin_ns < 10 * BASE_NS_PER_S);
}

static void all_learn_why_one_cannot_connect(void **state)
{
    (void)state;
    coll_transport over[] = {COLL_TRANSPORT_TCP, COLL_TRANSPORT_ZMQ};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 3, .bare = true, .user = &over[i]},
                              one_fails_body);
    }
}

/* Rank 1's own options or environment are wrong: it knows before the first exchange. */
static void wrong_options_body(test_rank *rank)
{
    const bool *by_environment = rank->user;
    coll_context_options options = test_rank_options(rank);
    options.algorithm = COLL_ALGORITHM_RING;
    if (rank->rank == 1) {
        options.algorithm = *by_environment ? COLL_ALGORITHM_AUTO : (coll_algorithm)99;
    }
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    RANK_CHECK(rank, status == (rank->rank == 1 ? COLL_ERR_INVALID : COLL_ERR_PEER));
    RANK_CHECK(rank, rank->rank == 1 || test_has(rank->error.message, "3 ranks: rank 1 failed: "));
    RANK_CHECK(rank,
               test_has(rank->error.message, *by_environment ? "RINGFENCE_COLL_ALGORITHM: "
                                                             : "unknown transport or algorithm"));
}

static void all_learn_of_wrong_options(void **state)
{
    (void)state;
    assert_int_equal(setenv("RINGFENCE_COLL_ALGORITHM", "nosuch", 1), 0);
    for (int i = 0; i < 2; i++) {
        bool by_environment = i == 1;
        test_ranks_as_threads(
            &(test_ranks_options){.size = 3, .bare = true, .user = &by_environment},
            wrong_options_body);
    }
    assert_int_equal(unsetenv("RINGFENCE_COLL_ALGORITHM"), 0);
}

static _Thread_local uid_t users_above; /* its own user's number */

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);

uid_t __wrap_geteuid(void)
{
    return __real_geteuid() + users_above;
}

/* Ranks 0 and 1 are one user's, rank 2 is another's. */
static void other_user_body(test_rank *rank)
{
    const coll_transport *transport = rank->user;
    const bool shares_memory = *transport != COLL_TRANSPORT_TCP && *transport != COLL_TRANSPORT_ZMQ;
    coll_context_options options = test_rank_options(rank);
    options.transport = *transport;
    users_above = rank->rank == 2 ? 7 : 0;
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    RANK_CHECK(rank, status == (shares_memory ? COLL_ERR_IO : COLL_OK));
    RANK_CHECK(rank,
               !shares_memory || (test_has(rank->error.message, "connecting 3 ranks: rank 0 (") &&
                                  test_has(rank->error.message, " and rank 2 (") &&
                                  test_has(rank->error.message, ": Permission denied")));
    coll_context_destroy(rank->context);
    rank->context = NULL;
}

static void another_user_s_rank_is_named(void **state)
{
    (void)state;
    coll_transport over[] = {COLL_TRANSPORT_AUTO, COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                             COLL_TRANSPORT_ZMQ};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        test_ranks_as_threads(&(test_ranks_options){.size = 3, .bare = true, .user = &over[i]},
                              other_user_body);
    }
}

static _Thread_local pid_t said_pid; /* 0: its own */

pid_t __real_getpid(void);
pid_t __wrap_getpid(void);

pid_t __wrap_getpid(void)
{
    return said_pid != 0 ? said_pid : __real_getpid();
}

/* What rank 1 does when it has been through the last exchange. */
typedef struct ending {
    coll_transport transport;
    pid_t dead;       /* a process that has ended: rank 1 fails, and takes itself for that; 0: */
    atomic_int going; /* it stays away until this is set */
    coll_exchange exchange;
    int calls;
} ending;

static coll_status last_exchange(void *user, const void *mine, void *all, size_t size_bytes,
                                 int64_t deadline_ns, coll_error *reterr)
{
    test_rank *rank = user;
    ending *e = rank->user;
    const coll_status status = e->exchange(user, mine, all, size_bytes, deadline_ns, reterr);
    if (status != COLL_OK || ++e->calls < 2) {
        return status;
    }
    while (e->dead == 0 && atomic_load(&e->going) == 0 && base_now_ns() < deadline_ns) {
        (void)sched_yield();
    }
    return e->dead != 0 ? COLL_ERR_PEER : COLL_OK;
}

/* A rank that did not look would wait until the deadline, and get COLL_ERR_TIMEOUT. */
static void ending_body(test_rank *rank)
{
    ending *e = rank->user;
    coll_context_options options = test_rank_options(rank);
    options.transport = e->transport;
    if (rank->rank == 1) {
        said_pid = e->dead;
        e->exchange = options.exchange;
        options.exchange = last_exchange;
    }
    if (rank->rank == 2) {
        options.timeout_ns = BASE_NS_PER_S; /* it leaves, and hangs up */
    }
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    RANK_CHECK(rank, status != COLL_OK);
    if (rank->rank == 0) {
        atomic_store(&e->going, 1);
        RANK_CHECK(rank, status == COLL_ERR_PEER);
        RANK_CHECK(rank, test_has(rank->error.message, "ranks: waiting for rank 1 (host "));
        RANK_CHECK(rank, test_has(rank->error.message, " to connect: rank "));
        RANK_CHECK(rank, test_has(rank->error.message, " has gone"));
    }
}

static void a_rank_that_dies_late_is_named(void **state)
{
    (void)state;
    const coll_transport over[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP, COLL_TRANSPORT_ZMQ};
    const pid_t dead = fork();
    if (dead == 0) {
        _exit(0);
    }
    assert_true(dead > 0);
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        ending e = {.transport = over[i], .dead = dead};
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true, .user = &e},
                              ending_body);
    }
    assert_int_equal(waitpid(dead, NULL, 0), dead);
}

/* One that has gone because of another tells of it by that. */
static void a_rank_that_hangs_up_is_seen(void **state)
{
    (void)state;
    const coll_transport over[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP};
    for (size_t i = 0; i < sizeof over / sizeof over[0]; i++) {
        ending e = {.transport = over[i]};
        test_ranks_as_threads(&(test_ranks_options){.size = 3, .bare = true, .user = &e},
                              ending_body);
    }
}

/* Over zmq, too, all have the same job key. */
static void other_key_body(test_rank *rank)
{
    const bool *some_have_none = rank->user;
    uint8_t key[32] = {rank->rank == 1 ? 1 : 2};
    coll_context_options options = test_rank_options(rank);
    options.transport = COLL_TRANSPORT_ZMQ;
    options.job_key = *some_have_none && rank->rank == 1 ? NULL : key;
    RANK_CHECK(rank,
               coll_context_create(&options, &rank->context, &rank->error) == COLL_ERR_MISMATCH);
    RANK_CHECK(rank, test_has(rank->error.message, ") has another job key than rank 0 (host"));
}

static void zmq_refuses_another_job_key(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool some_have_none = i == 1;
        test_ranks_as_threads(
            &(test_ranks_options){.size = 3, .bare = true, .user = &some_have_none},
            other_key_body);
    }
}

/* ZeroMQ would end the process. */
static void no_descriptors_body(test_rank *rank)
{
    coll_context_options options = test_rank_options(rank);
    options.transport = COLL_TRANSPORT_ZMQ;
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    RANK_CHECK(rank, status == COLL_ERR_IO);
    RANK_CHECK(rank, test_has(rank->error.message, "zmq needs 16 file descriptors for 2 ranks: "));
}

static void too_few_descriptors_for_zmq_are_an_error(void **state)
{
    struct rlimit before;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t limit = 10; limit <= 16; limit += 2) { /* three are open at least */
        const struct rlimit few = {.rlim_cur = limit, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        test_ranks_as_threads(&(test_ranks_options){.size = 2, .bare = true}, no_descriptors_body);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_learn_why_one_cannot_connect),
        cmocka_unit_test(all_learn_of_wrong_options),
        cmocka_unit_test(another_user_s_rank_is_named),
        cmocka_unit_test(a_rank_that_dies_late_is_named),
        cmocka_unit_test(a_rank_that_hangs_up_is_seen),
        cmocka_unit_test(zmq_refuses_another_job_key),
        cmocka_unit_test(too_few_descriptors_for_zmq_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
