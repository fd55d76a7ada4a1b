/* Ranks for tests: as threads of this process, or as processes of their own. Each rank runs a body
 * with its context; the exchange is a barrier in memory (threads) or a socket pair to the
 * parent (processes). */
#ifndef TEST_COLL_RANKS_H
#define TEST_COLL_RANKS_H

#include <stdbool.h>
#include <sys/types.h>

#include "coll/coll.h"
#include "ringfence/coll_error.h"

typedef struct rank_job rank_job;

/* One rank of a job. A body reports by test_rank_fail; assertions of cmocka are for the main
 * thread. */
typedef struct test_rank {
    rank_job *job;
    int rank;
    int size;
    coll_context *context; /* NULL if it could not be made: `error` says why */
    coll_error error;
    base_error failure; /* of functions that are not libcoll's */
    void *user;         /* the job's */
} test_rank;

typedef struct test_ranks_options {
    int size;
    coll_transport transport;
    coll_algorithm algorithm;
    coll_tcp_auth tcp_auth;
    int64_t timeout_ns; /* 0: 60 s */
    void *user;
    bool bare; /* call the body without a context; it makes its own with test_rank_options */
} test_ranks_options;

typedef void (*test_rank_body)(test_rank *rank);

/* Runs body on every rank in a thread of its own, and fails the test with the first message given
 * to test_rank_fail, if any. */
void test_ranks_as_threads(const test_ranks_options *options, test_rank_body body);

/* The options that a rank's context is made with. */
coll_context_options test_rank_options(test_rank *rank);

/* The rank takes part in no exchange any more: ranks that wait for it in one fail. */
void test_rank_leave(test_rank *rank);

/* Notes a failure of the rank (kept: the first of the job). Any thread. */
void test_rank_fail(test_rank *rank, const char *format, ...) BASE_PRINTF(2, 3);

/* Fails the rank, and returns from its body, unless the call is COLL_OK. */
#define RANK_OK(rank, call)                                                                        \
    do {                                                                                           \
        (rank)->error.message[0] = '\0';                                                           \
        (rank)->failure.message[0] = '\0';                                                         \
        const coll_status rank_ok_status = (coll_status)(call);                                    \
        if (rank_ok_status != COLL_OK) {                                                           \
            test_rank_fail((rank), "%s: %s: %s%s", #call, coll_status_name(rank_ok_status),        \
                           (rank)->error.message, (rank)->failure.message);                        \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* Fails the rank unless the condition holds. */
#define RANK_CHECK(rank, condition)                                                                \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            test_rank_fail((rank), "%s:%d: %s (%s)", __FILE__, __LINE__, #condition,               \
                           (rank)->error.message);                                                 \
            return;                                                                                \
        }                                                                                          \
    } while (0)

#endif
