/* What a mode of the rank program gets: the rank, its launcher and its peers. */
#ifndef RANK_WORKER_WORKER_H
#define RANK_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/coll.h"
#include "proto/client.h"
#include "rank/gate.h"

/* The program (src/run.c) makes it, and the modes borrow it. */
typedef struct rank_worker {
    proto_identity identity;
    proto_client *client;
    coll_context *context; /* NULL for a single rank that generates */
    int64_t started_ns;    /* when the process started, monotonic */
    uint64_t step;         /* for failure reports */
    bool reports;          /* joining has begun, so failures are reported to the launcher */
    rank_pass *pass;       /* of a mode that may cost money; else NULL */
    int exit_code;         /* the process's, after a failure */
} rank_worker;

/* A should_stop for generating and evaluating: whether the launcher has asked for a stop. user: the
 * worker. */
bool rank_worker_should_stop(void *user);

/* Peak resident memory of this process in bytes. */
uint64_t rank_worker_max_rss_bytes(void);

#endif
