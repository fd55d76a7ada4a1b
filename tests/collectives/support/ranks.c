/* Runs a test's body on several ranks, as threads or as processes, with an exchange between them.
 * Used by most tests of collectives. */
#include "ranks.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "support.h"

enum { RANKS_MAX = 64, RECORD_BYTES_MAX = 4096 };

struct rank_job {
    test_ranks_options options;
    test_rank_body body;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived;
    bool abandoned;
    unsigned round;
    uint8_t records[2][RANKS_MAX][RECORD_BYTES_MAX];
    char failure[2048];
};

void test_rank_fail(test_rank *rank, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)pthread_mutex_lock(&rank->job->lock);
    if (rank->job->failure[0] == '\0') {
        const int used = snprintf(rank->job->failure, sizeof rank->job->failure,
                                  "rank %d of %d: ", rank->rank, rank->size);
        (void)vsnprintf(rank->job->failure + used, sizeof rank->job->failure - (size_t)used, format,
                        args);
    }
    (void)pthread_mutex_unlock(&rank->job->lock);
    va_end(args);
}

/* A barrier of all ranks; records of two rounds, so that no rank overwrites what another still
 * reads. */
static coll_status exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    const test_rank *rank = user;
    rank_job *job = rank->job;
    coll_status status = COLL_OK;
    if (size_bytes > RECORD_BYTES_MAX) {
        return coll_fail(reterr, COLL_ERR_LIMIT, "a record of %zu bytes", size_bytes);
    }
    (void)pthread_mutex_lock(&job->lock);
    const unsigned round = job->round;
    memcpy(job->records[round % 2][rank->rank], mine, size_bytes);
    if (++job->arrived == rank->size) {
        job->arrived = 0;
        job->round++;
        (void)pthread_cond_broadcast(&job->changed);
    }
    while (job->round == round && status == COLL_OK) {
        if (job->abandoned) {
            status = coll_fail(reterr, COLL_ERR_PEER, "a rank has left the exchange");
        } else if (!base_cond_wait(&job->changed, &job->lock, deadline_ns)) {
            status = coll_fail(reterr, COLL_ERR_TIMEOUT, "the exchange timed out");
        }
    }
    for (int r = 0; status == COLL_OK && r < rank->size; r++) {
        memcpy((uint8_t *)all + (size_t)r * size_bytes, job->records[round % 2][r], size_bytes);
    }
    (void)pthread_mutex_unlock(&job->lock);
    return status;
}

void test_rank_leave(test_rank *rank)
{
    (void)pthread_mutex_lock(&rank->job->lock);
    rank->job->abandoned = true;
    (void)pthread_cond_broadcast(&rank->job->changed);
    (void)pthread_mutex_unlock(&rank->job->lock);
}

coll_context_options test_rank_options(test_rank *rank)
{
    const test_ranks_options *options = &rank->job->options;
    return (coll_context_options){
        .size = sizeof(coll_context_options),
        .rank = rank->rank,
        .world_size = rank->size,
        .exchange = exchange,
        .exchange_user = rank,
        .transport = options->transport,
        .algorithm = options->algorithm,
        .tcp_auth = options->tcp_auth,
        .timeout_ns = options->timeout_ns != 0 ? options->timeout_ns : 60 * BASE_NS_PER_S,
    };
}

static void *run_rank(void *argument)
{
    test_rank *rank = argument;
    if (rank->job->options.bare) {
        rank->job->body(rank);
        return NULL;
    }
    const coll_context_options options = test_rank_options(rank);
    const coll_status status = coll_context_create(&options, &rank->context, &rank->error);
    if (status != COLL_OK) {
        test_rank_fail(rank, "no context: %s", rank->error.message);
        return NULL;
    }
    rank->job->body(rank);
    coll_context_destroy(rank->context);
    return NULL;
}

void test_ranks_as_threads(const test_ranks_options *options, test_rank_body body)
{
    static rank_job job;
    test_rank ranks[RANKS_MAX] = {0};
    pthread_t threads[RANKS_MAX];
    job = (rank_job){.options = *options, .body = body};
    (void)pthread_mutex_init(&job.lock, NULL);
    base_cond_init(&job.changed);
    for (int r = 0; r < options->size; r++) {
        ranks[r] =
            (test_rank){.job = &job, .rank = r, .size = options->size, .user = options->user};
        if (pthread_create(&threads[r], NULL, run_rank, &ranks[r]) != 0) {
            fail_msg("cannot start a thread");
        }
    }
    for (int r = 0; r < options->size; r++) {
        (void)pthread_join(threads[r], NULL);
    }
    (void)pthread_cond_destroy(&job.changed);
    (void)pthread_mutex_destroy(&job.lock);
    if (job.failure[0] != '\0') {
        fail_msg("%s", job.failure);
    }
}
