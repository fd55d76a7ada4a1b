/* Which rank a timeout names. Of five processes one stops, before an operation or in the middle of
 * it. All others wait, most of them for each other. Each names the rank that has stopped, or passes
 * on such an error of another rank. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "forked.h"
#include "support.h"

/* LONG_COUNT: more than all streams hold, so that nobody can end without the victim. */
enum { RANKS = 5, LONG_COUNT = 3000000, SHORT_COUNT = 10000, AT_ONCE = -1 };

/* The timeouts of the ranks. Ranks show each other that they wait after an eighth of it. On a
 * machine with other work, a rank may not have come so far by then, or may not run. So a case that
 * goes wrong is tried again, at last with time enough. */
static const int64_t timeouts_ns[] = {BASE_NS_PER_S / 2, 2 * BASE_NS_PER_S, 9 * BASE_NS_PER_S};

enum { TRIES = sizeof timeouts_ns / sizeof timeouts_ns[0] };

typedef struct job {
    coll_transport transport;
    coll_kind kind;
    coll_algorithm algorithm;
    size_t count; /* of all parts together; the short one of a reduce-scatter is the victim's */
    int victim;
    int64_t timeout_ns;
    int looks; /* that the victim makes at its operation before it stops; AT_ONCE: it has none */
    int reports[2];
    int over[2]; /* ends with the test */
} job;

typedef struct report {
    int rank;
    coll_status status;
    char text[COLL_ERROR_MESSAGE_BYTES];
} report;

/* The victim's part. */
static void stop(const job *j, coll_comm *comm, const coll_op_desc *desc)
{
    coll_error error;
    coll_request *request = NULL;
    bool done = false;
    coll_status status = COLL_OK;
    if (j->looks != AT_ONCE) {
        status = coll_start(comm, desc, &request, &error);
    }
    for (int i = 0; i < j->looks && status == COLL_OK; i++) {
        status = coll_request_test(&request, &done, &error);
    }
    (void)raise(SIGSTOP);
}

static int body(forked_rank *rank, void *user)
{
    static int32_t data[LONG_COUNT];
    static int32_t part[LONG_COUNT];
    size_t counts[RANKS];
    const job *j = user;
    coll_context *context = NULL;
    report r = {.rank = rank->rank};
    coll_error error = {.message = ""};
    char byte = 0;
    const coll_context_options options = {FORKED_OPTIONS(rank), .transport = j->transport,
                                          .timeout_ns = j->timeout_ns};
    const bool pairwise = j->kind == COLL_ALL_TO_ALL;
    const bool varies = pairwise || j->kind == COLL_REDUCE_SCATTER;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = j->kind,
                               .send = data,
                               .recv = varies ? part : data,
                               .count = varies ? 0 : j->count,
                               .counts = varies ? counts : NULL,
                               .recv_counts = pairwise ? counts : NULL,
                               .type = COLL_INT32,
                               .reduce = COLL_SUM,
                               .algorithm = j->algorithm};
    for (int i = 0; i < RANKS; i++) {
        counts[i] = pairwise         ? j->count / RANKS - (size_t)(i + rank->rank)
                    : i == j->victim ? SHORT_COUNT
                                     : (j->count - SHORT_COUNT) / (RANKS - 1);
    }
    (void)close(j->over[1]);
    r.status = coll_context_create(&options, &context, &error);
    if (r.status == COLL_OK) {
        r.status = coll_barrier(coll_context_world(context), &error);
    }
    if (r.status == COLL_OK && rank->rank == j->victim) {
        stop(j, coll_context_world(context), &desc);
    }
    if (r.status == COLL_OK) {
        r.status = coll_run(coll_context_world(context), &desc, &error);
    }
    memcpy(r.text, error.message, sizeof r.text);
    (void)!write(j->reports[1], &r, sizeof r);
    (void)!read(j->over[0], &byte, 1);
    coll_context_destroy(context);
    return 0;
}

/* Over zmq the victim's part in the barrier may stop with it, so that is what they wait in.
 *
 * Whether the text names the victim, and nobody else, as the one that is waited for; and the
 * message are another's only if that is said. */
static bool blames(const report *r, int victim)
{
    char wanted[32];
    char own[32];
    const char *named = strstr(r->text, "waiting for ");
    (void)snprintf(wanted, sizeof wanted, "waiting for rank %d (", victim);
    (void)snprintf(own, sizeof own, "rank %d (", r->rank);
    if (r->status != COLL_ERR_TIMEOUT || named == NULL) {
        return false;
    }
    const char *end = strchr(named, ')'); /* of the first rank */
    const bool only = end != NULL && (strncmp(end, ") to arrive", 11) == 0 ||
                                      strncmp(end, ") to do its part", 16) == 0);
    const bool relayed = strstr(r->text, " says: ") != NULL;
    return only && strncmp(named, wanted, strlen(wanted)) == 0 &&
           (relayed ? strncmp(r->text, "rank ", 5) == 0 && strncmp(r->text, own, strlen(own)) != 0
                    : strncmp(r->text, "rank ", 5) != 0);
}

/* How many of the ranks that did not stop name the one that did. */
static int play(job *j)
{
    pid_t pids[RANKS];
    coll_error error;
    report r;
    int right = 0;
    assert_int_equal(pipe(j->reports), 0);
    assert_int_equal(pipe(j->over), 0);
    assert_ok(forked_start(RANKS, body, j, pids, &error), &error);
    (void)close(j->over[0]);
    for (int i = 0; i < RANKS - 1; i++) {
        assert_int_equal(read(j->reports[0], &r, sizeof r), sizeof r);
        const bool is_right = blames(&r, j->victim);
        right += is_right ? 1 : 0;
        if (!is_right) {
            print_message("over %s, %s %s × %zu, rank %d stopped after %d looks; rank %d: %s: %s\n",
                          coll_transport_name(j->transport), coll_algorithm_name(j->algorithm),
                          coll_kind_name(j->kind), j->count, j->victim, j->looks, r.rank,
                          coll_status_name(r.status), r.text);
        }
    }
    (void)kill(pids[j->victim], SIGKILL);
    (void)close(j->over[1]);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_int_equal(waitpid(pids[rank], NULL, 0), pids[rank]);
    }
    (void)close(j->reports[0]);
    (void)close(j->reports[1]);
    return right;
}

static void a_stopped_rank_is_named(void **state)
{
    static const struct {
        coll_transport transport;
        coll_kind kind;
        coll_algorithm algorithm;
        size_t count;
        int looks;
    } cases[] = {
        {COLL_TRANSPORT_SHM, COLL_ALL_REDUCE, COLL_ALGORITHM_DIRECT, 1, AT_ONCE},
        {COLL_TRANSPORT_SHM, COLL_ALL_REDUCE, COLL_ALGORITHM_DIRECT, LONG_COUNT, 0},
        {COLL_TRANSPORT_SHM, COLL_ALL_REDUCE, COLL_ALGORITHM_DIRECT, LONG_COUNT, 1},
        {COLL_TRANSPORT_SHM, COLL_ALL_REDUCE, COLL_ALGORITHM_RING, LONG_COUNT, AT_ONCE},
        {COLL_TRANSPORT_SHM, COLL_ALL_REDUCE, COLL_ALGORITHM_RING, LONG_COUNT, 0},
        {COLL_TRANSPORT_SHM, COLL_ALL_REDUCE, COLL_ALGORITHM_TREE, LONG_COUNT, 1},
        {COLL_TRANSPORT_SHM, COLL_ALL_REDUCE, COLL_ALGORITHM_HALVING_DOUBLING, LONG_COUNT, 1},
        {COLL_TRANSPORT_TCP, COLL_ALL_REDUCE, COLL_ALGORITHM_RING, LONG_COUNT, AT_ONCE},
        {COLL_TRANSPORT_TCP, COLL_ALL_REDUCE, COLL_ALGORITHM_RING, LONG_COUNT, 0},
        {COLL_TRANSPORT_TCP, COLL_ALL_REDUCE, COLL_ALGORITHM_TREE, LONG_COUNT, 1},
        {COLL_TRANSPORT_TCP, COLL_ALL_REDUCE, COLL_ALGORITHM_HALVING_DOUBLING, LONG_COUNT, 0},
        {COLL_TRANSPORT_ZMQ, COLL_ALL_REDUCE, COLL_ALGORITHM_RING, LONG_COUNT, 0},
        {COLL_TRANSPORT_ZMQ, COLL_ALL_REDUCE, COLL_ALGORITHM_DIRECT, LONG_COUNT, AT_ONCE},
        {COLL_TRANSPORT_SHM, COLL_REDUCE_SCATTER, COLL_ALGORITHM_DIRECT, LONG_COUNT, 0},
        {COLL_TRANSPORT_TCP, COLL_REDUCE_SCATTER, COLL_ALGORITHM_DIRECT, LONG_COUNT, 0},
        {COLL_TRANSPORT_ZMQ, COLL_REDUCE_SCATTER, COLL_ALGORITHM_DIRECT, LONG_COUNT, 0},
        {COLL_TRANSPORT_SHM, COLL_ALL_TO_ALL, COLL_ALGORITHM_DIRECT, LONG_COUNT, 0},
        {COLL_TRANSPORT_TCP, COLL_ALL_TO_ALL, COLL_ALGORITHM_DIRECT, LONG_COUNT, AT_ONCE},
        {COLL_TRANSPORT_ZMQ, COLL_ALL_TO_ALL, COLL_ALGORITHM_DIRECT, LONG_COUNT, 0},
    };
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        job j = {.transport = cases[i].transport,
                 .kind = cases[i].kind,
                 .algorithm = cases[i].algorithm,
                 .count = cases[i].count,
                 .looks = cases[i].looks,
                 .victim = (int)(i * 2 % RANKS)};
        int right = 0;
        for (int try = 0; try < TRIES && right < RANKS - 1; try++) {
            j.timeout_ns = timeouts_ns[try];
            right = play(&j);
        }
        wrong += RANKS - 1 - right;
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stopped_rank_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
