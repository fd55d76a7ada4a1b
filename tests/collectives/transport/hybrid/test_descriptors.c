/* A rank with too few file descriptors, at any place where it opens one while it connects: all
 * others learn which rank that is, at once, though its process lives on. Ranks are processes. Those
 * of two hosts are told apart as in test_hybrid.c. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "forked.h"
#include "other_hosts.h"
#include "support.h"

enum { RANKS = 4, LEFT_MAX = 60 };

typedef struct job {
    coll_transport transport;
    int victim;
    int left;       /* descriptors that the victim may open */
    int reports[2]; /* a pipe: how it went, from each rank, */
    int go[2];      /* and one that ends when all have said so */
} job;

typedef struct report {
    int rank;
    coll_error error;
} report;

_Static_assert(sizeof(report) <= 4096, "a pipe takes it whole");

static bool limit_descriptors(int count)
{
    const int next = dup(STDERR_FILENO);
    struct rlimit limit;
    (void)close(next);
    if (next < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return false;
    }
    limit.rlim_cur = (rlim_t)(next + count);
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static int body(forked_rank *rank, void *user)
{
    const job *j = user;
    coll_context *context = NULL;
    report r = {.rank = rank->rank};
    char byte = 0;
    const coll_context_options options = {FORKED_OPTIONS(rank), .transport = j->transport,
                                          .timeout_ns = 20 * BASE_NS_PER_S};
    (void)close(j->go[1]);
    other_host_here = j->transport == COLL_TRANSPORT_SHM ? 0 : rank->rank / (RANKS / 2);
    if (rank->rank == j->victim && !limit_descriptors(j->left)) {
        return 1;
    }
    coll_status status = coll_context_create(&options, &context, &r.error);
    if (status == COLL_OK) {
        status = coll_barrier(coll_context_world(context), &r.error);
    }
    r.error.status = status;
    const bool said = write(j->reports[1], &r, sizeof r) == sizeof r;
    (void)!read(j->go[0], &byte, 1); /* the end of a process would tell the others, too */
    coll_context_destroy(context);
    return said ? 0 : 1;
}

/* Whether the victim connects with so many. */
static bool try_with(job *j)
{
    coll_error error;
    pid_t pids[RANKS];
    report reports[RANKS];
    char victim[32];
    assert_int_equal(pipe2(j->reports, O_CLOEXEC), 0);
    assert_int_equal(pipe2(j->go, O_CLOEXEC), 0);
    assert_ok(forked_start(RANKS, body, j, pids, &error), &error);
    (void)close(j->reports[1]);
    for (int i = 0; i < RANKS; i++) {
        report r;
        assert_int_equal(read(j->reports[0], &r, sizeof r), sizeof r);
        reports[r.rank] = r;
    }
    (void)close(j->go[1]);
    (void)close(j->go[0]);
    (void)close(j->reports[0]);
    for (int i = 0; i < RANKS; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    const bool connects = reports[j->victim].error.status == COLL_OK;
    (void)snprintf(victim, sizeof victim, "rank %d (host", j->victim);
    for (int i = 0; i < RANKS; i++) {
        const coll_error *got = &reports[i].error;
        if ((got->status == COLL_OK) != connects || got->status == COLL_ERR_TIMEOUT ||
            (!connects && i != j->victim && strstr(got->message, victim) == NULL)) {
            fail_msg("%s, rank %d may open %d: rank %d ends with %s: %s; rank %d itself with %s",
                     coll_transport_name(j->transport), j->victim, j->left, i,
                     coll_status_name(got->status), connects ? "" : got->message, j->victim,
                     connects ? "success" : reports[j->victim].error.message);
        }
    }
    return connects;
}

/* The lower rank of a host is connected to, the higher one connects. */
static void sweep(coll_transport transport)
{
    for (int victim = 0; victim < 2; victim++) {
        job j = {.transport = transport, .victim = victim};
        while (!try_with(&j)) {
            assert_true(++j.left <= LEFT_MAX);
        }
        assert_true(j.left > 0);
    }
}

static void too_few_descriptors_with_shm_and_tcp(void **state)
{
    (void)state;
    sweep(COLL_TRANSPORT_AUTO);
}

static void too_few_descriptors_with_tcp(void **state)
{
    (void)state;
    sweep(COLL_TRANSPORT_TCP);
}

static void too_few_descriptors_with_shm(void **state)
{
    (void)state;
    sweep(COLL_TRANSPORT_SHM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(too_few_descriptors_with_shm_and_tcp),
        cmocka_unit_test(too_few_descriptors_with_tcp),
        cmocka_unit_test(too_few_descriptors_with_shm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
