/* How a training is shared out among fewer hosts: with as many slots, and so with the same bits. Pure. */
#ifndef LAUNCH_SHARE_H
#define LAUNCH_SHARE_H

#include "proto/job.h"

typedef struct launch_share {
    int hosts; /* that take part */
    int ranks; /* of all of them, equally many of each */
    int64_t micro_batches;
    int64_t expert_ranks; /* parallel.expert_ranks: as many as the job has, or fewer */
} launch_share;

/* The most ranks that so many hosts have, of the job's `nodes`, with which its parameters keep their bits:
 * ranks × micro-batches stays, and so does the order in which slots are added up. Among equal numbers of ranks, the
 * most hosts. False: there is no such number. */
bool launch_share_find(const proto_job *job, int nodes, int present, launch_share *share);

/* Whether the job keeps its bits on other numbers of ranks at all, and can do with so many hosts of `nodes`.
 * BASE_ERR_INVALID says why not. */
BASE_MUST_CHECK base_status launch_share_check(const proto_job *job, int nodes, int least,
                                               base_error *reterr);

#endif
