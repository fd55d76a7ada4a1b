/* What a mode on GPUs, or one that may cost money, adds to manifests. */
#ifndef LAUNCH_CLOUD_H
#define LAUNCH_CLOUD_H

#include <jansson.h>

#include "record/record.h"

/* The token as an object; null where cost is NULL. A cost that is not known is null. NULL: no
 * memory. */
json_t *launch_cost_json(const launch_cost *cost);

/* The ranks' GPUs as an object; null on CPUs. ranks may be NULL: nothing is known of them. */
json_t *launch_gpus_json(const launch_rank_info *ranks, const proto_job *job, launch_answer nvlink);

/* The number in dollars; null: not known. */
json_t *launch_usd_json(int64_t usd_micro);

/* null: not known. */
json_t *launch_answer_json(launch_answer answer);

#endif
