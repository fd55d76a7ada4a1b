/* Mode ddp-cpu: data-parallel training. */
#ifndef RANK_TRAIN_MODE_H
#define RANK_TRAIN_MODE_H

#include "base/status.h"
#include "worker/worker.h"

/* Trains to the end, or until the launcher asks for a stop. Sends Finished itself. */
BASE_MUST_CHECK base_status rank_mode_train(rank_worker *worker, base_error *reterr);

#endif
