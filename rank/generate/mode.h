/* Modes generate and tp-cpu, and evaluation for other modes. */
#ifndef RANK_GENERATE_MODE_H
#define RANK_GENERATE_MODE_H

#include <stdint.h>

#include "base/status.h"
#include "generate/generate.h"
#include "worker/worker.h"

/* Answers this rank's share of the prompts; sends Finished itself. */
BASE_MUST_CHECK base_status rank_mode_generate(rank_worker *worker, base_error *reterr);

/* Accuracy on this rank's share of the job's held-out file, with parameters that are in memory. */
BASE_MUST_CHECK base_status rank_worker_evaluate(const rank_worker *worker,
                                                 const rank_generate_options *options,
                                                 uint64_t *total, uint64_t *correct,
                                                 base_error *reterr);

#endif
