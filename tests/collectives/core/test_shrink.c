/* Making communicators where a rank dies, and the others go on without it, or where one has no memory for it. Ranks are
 * processes. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "forked.h"
#include "ringfence/coll_error.h"
#include "support.h"

static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_ZMQ,
                                            COLL_TRANSPORT_TCP};
enum { TRANSPORTS = sizeof transports / sizeof transports[0] };

/* ---- shrink: a rank dies, and the others go on without it ---- */

enum { RANKS = 8, VICTIM = 1, SECOND = 5 };

typedef struct shrink_job {
    coll_transport transport;
    bool retries; /* nobody knows of the victim yet when all make a communicator with it */
    bool two;     /* another one dies at the same time */
} shrink_job;

/* Waits until this rank knows of all that have died, as the others do: so their lists are the same.
 * False: it never learns it. */
static bool learns(const shrink_job *j, coll_context *context)
{
    const int64_t deadline_ns = base_deadline_after_ns(10 * BASE_NS_PER_S);
    bool knows = false;
    while (!knows && base_now_ns() < deadline_ns) {
        knows = coll_context_rank_gone(context, VICTIM) &&
                (!j->two || coll_context_rank_gone(context, SECOND));
        (void)sched_yield();
    }
    return knows;
}

/* A communicator of those that have not gone. */
static coll_status make_smaller(coll_context *context, coll_comm **comm, coll_error *error)
{
    int left[RANKS];
    int count = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        if (!coll_context_rank_gone(context, rank)) {
            left[count++] = rank;
        }
    }
    return coll_comm_create(context, left, count, comm, error);
}

static coll_status shrink(const shrink_job *j, coll_context *context, coll_error *error)
{
    coll_comm *comm = NULL;
    int32_t values[RANKS] = {0};
    const int32_t own = 10 + coll_comm_rank(coll_context_world(context));
    coll_status status = learns(j, context)
                             ? make_smaller(context, &comm, error)
                             : coll_fail(error, COLL_ERR_STATE, "nothing says who has gone");
    for (int i = 0; i < 100 && status == COLL_OK; i++) {
        status = coll_all_gather(comm, &own, values, 1, COLL_INT32, error);
    }
    if (status == COLL_OK &&
        (coll_comm_size(comm) != RANKS - 1 - j->two || coll_comm_context(comm) != context)) {
        status = coll_fail(error, COLL_ERR_STATE, "%d ranks are left", coll_comm_size(comm));
    }
    for (int i = 0; status == COLL_OK && i < coll_comm_size(comm); i++) {
        const int rank = coll_comm_ranks(comm)[i];
        if (values[i] != 10 + rank || rank == VICTIM || (j->two && rank == SECOND)) {
            status = coll_fail(error, COLL_ERR_STATE, "wrong values");
        }
    }
    if (status == COLL_OK) {
        status = coll_comm_status(comm, error);
    }
    coll_comm_destroy(comm);
    return status;
}

/* The first call in which ranks find that the victim has died. */
static coll_status find_out(const shrink_job *j, coll_context *context, coll_error *error)
{
    static const int all[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    coll_comm *comm = NULL;
    return j->retries ? coll_comm_create(context, all, RANKS, &comm, error)
                      : coll_barrier(coll_context_world(context), error);
}

static int shrink_body(forked_rank *rank, void *user)
{
    const shrink_job *j = user;
    coll_context *context = NULL;
    coll_error error = {.message = ""};
    const coll_context_options options = {FORKED_OPTIONS(rank), .transport = j->transport,
                                          .timeout_ns = 20 * BASE_NS_PER_S};
    coll_status status = coll_context_create(&options, &context, &error);
    if (status == COLL_OK) {
        status = coll_barrier(coll_context_world(context), &error);
    }
    if (rank->rank == VICTIM || (j->two && rank->rank == SECOND)) {
        (void)raise(SIGKILL);
    }
    if (status == COLL_OK) {
        status = find_out(j, context, &error);
    }
    const bool lost =
        status == COLL_ERR_PEER &&
        (strstr(error.message, "rank 1 (host") != NULL ||
         (j->two && strstr(error.message, "rank 5 (host") != NULL)) &&
        (j->retries || coll_comm_status(coll_context_world(context), NULL) == COLL_ERR_PEER);
    if (lost) {
        status = shrink(j, context, &error);
    }
    if (!lost || status != COLL_OK) {
        (void)fprintf(stderr, "rank %d: %s: %s\n", rank->rank, coll_status_name(status),
                      error.message);
    }
    coll_context_destroy(context);
    return lost && status == COLL_OK ? 0 : 1;
}

static void the_others_go_on(void **state)
{
    (void)state;
    for (int t = 0; t < 3 * TRANSPORTS; t++) {
        shrink_job j = {.transport = transports[t / 3], .retries = t % 3 == 1, .two = t % 3 == 2};
        pid_t pids[RANKS];
        coll_error error;
        assert_ok(forked_start(RANKS, shrink_body, &j, pids, &error), &error);
        for (int r = 0; r < RANKS; r++) {
            int status = 0;
            assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
            const bool victim = r == VICTIM || (j.two && r == SECOND);
            assert_true(victim ? WIFSIGNALED(status) : WIFEXITED(status));
            assert_int_equal(victim ? 0 : WEXITSTATUS(status), 0);
        }
    }
}

/* ---- the first cause: one rank has no memory, and all leave at once ---- */

static int short_body(forked_rank *rank, void *user)
{
    enum { ARENA_BYTES = 8 << 20, FILE_BYTES_MAX = 1 << 20 };
    static const int all[] = {0, 1, 2, 3};
    const bool *makes_arena = user;
    const struct rlimit limit = {.rlim_cur = FILE_BYTES_MAX, .rlim_max = FILE_BYTES_MAX};
    coll_context *context = NULL;
    coll_comm *comm = NULL;
    coll_arena *arena = NULL;
    coll_error error = {.message = ""};
    const coll_context_options options = {FORKED_OPTIONS(rank), .transport = COLL_TRANSPORT_SHM,
                                          .timeout_ns = 20 * BASE_NS_PER_S};
    coll_status status = coll_context_create(&options, &context, &error);
    if (status == COLL_OK && rank->rank == VICTIM && setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        status = COLL_ERR_IO;
    }
    if (status != COLL_OK) {
        return 1;
    }
    status = *makes_arena
                 ? coll_arena_create(coll_context_world(context), ARENA_BYTES, &arena, &error)
                 : coll_comm_create(context, all, 4, &comm, &error);
    coll_context_destroy(context);
    const bool named = strstr(error.message, "files may have 1048576 bytes") != NULL &&
                       (rank->rank == VICTIM || strstr(error.message, "rank 1 (host") != NULL);
    if (status != (rank->rank == VICTIM ? COLL_ERR_IO : COLL_ERR_PEER) || !named) {
        (void)fprintf(stderr, "rank %d: %s: %s\n", rank->rank, coll_status_name(status),
                      error.message);
        return 1;
    }
    return 0;
}

static void all_name_the_rank_without_memory(void **state)
{
    enum { SHORT_RANKS = 4, ROUNDS = 20 }; /* ranks have to leave in an order that is bad */
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        bool makes_arena = i % 2 == 0;
        pid_t pids[SHORT_RANKS];
        coll_error error;
        assert_ok(forked_start(SHORT_RANKS, short_body, &makes_arena, pids, &error), &error);
        for (int r = 0; r < SHORT_RANKS; r++) {
            int status = 0;
            assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_go_on),
        cmocka_unit_test(all_name_the_rank_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
