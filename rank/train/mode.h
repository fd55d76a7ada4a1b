/* Mode ddp-cpu: data-parallel training. */
#ifndef RANK_TRAIN_MODE_H
#define RANK_TRAIN_MODE_H

#include "base/status.h"
#include "proto/job.h"
#include "worker/worker.h"

/* Whether --context holds no sentence of the data: BASE_ERR_INVALID. Needs no rank. */
BASE_MUST_CHECK base_status rank_mode_train_check(const proto_job *job, base_error *reterr);

/* Trains to the end, or until the launcher asks for a stop. Sends Finished itself. */
BASE_MUST_CHECK base_status rank_mode_train(rank_worker *worker, base_error *reterr);

#endif
