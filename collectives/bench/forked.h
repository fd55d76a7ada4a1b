/* Ranks as processes forked from this one, for the benchmark and for tests of real processes: no
 * launcher, no network. The exchange goes over socket pairs made before the fork,
 * through rank 0. */
#ifndef COLL_BENCH_FORKED_H
#define COLL_BENCH_FORKED_H

#include <sys/types.h>

#include "coll/coll.h"

enum { FORKED_RANKS_MAX = 64 };

typedef struct forked_rank {
    int rank;
    int size;
    int links[FORKED_RANKS_MAX]; /* rank 0: one to each other rank; others: [0] leads to rank 0 */
} forked_rank;

/* A rank's whole life; what it returns is its exit code. */
typedef int (*forked_body)(forked_rank *rank, void *user);

/* Forks `size` processes that run body and exit; pids in rank order. They die with their parent. On
 * failure those that were started are killed and waited for. */
COLL_MUST_CHECK coll_status forked_start(int size, forked_body body, void *user, pid_t *pids,
                                         coll_error *reterr);

/* A coll_exchange whose user is the forked_rank. */
coll_status forked_exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr);

/* Members of the coll_context_options of a forked_rank. */
#define FORKED_OPTIONS(forked)                                                                     \
    .size = sizeof(coll_context_options), .rank = (forked)->rank, .world_size = (forked)->size,    \
    .exchange = forked_exchange, .exchange_user = (forked)

#endif
