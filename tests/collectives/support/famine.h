/* A rank of a test that gets no memory, no descriptor or no mapping, at a place of the test's
 * choice. The build sends libcoll's requests through the counters of famine.c (${famine} of
 * tests/collectives/CMakeLists.txt). Each thread has its own. */
#ifndef TEST_COLL_FAMINE_H
#define TEST_COLL_FAMINE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "ranks.h"

typedef enum test_want {
    TEST_WANT_MEMORY,
    TEST_WANT_DESCRIPTOR,
    TEST_WANT_MAPPING,
    TEST_WANTS
} test_want;

/* What a rank does without, and when. */
typedef struct test_famine {
    test_want what;
    int granted;         /* requests before the one that is refused */
    bool lasts;          /* none after it is granted, either */
    int rank;            /* whose it is, for bodies that ask */
    atomic_bool refused; /* it came to that */
} test_famine;

/* From here to the end the thread's requests are counted. */
void test_famine_begin(const test_famine *famine);
void test_famine_end(test_famine *famine);

/* Runs the body with a famine (test_rank.user) of each request of that kind in turn, until all are
 * granted. No descriptor may stay open. */
void test_famine_sweep(const test_ranks_options *options, test_want what, int rank,
                       test_rank_body body);

#endif
