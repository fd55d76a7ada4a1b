/* The next batch of a slot, for training. Called by step.c and stage.c. */
#include "train/trainer.h"

_Static_assert((int)BASE_COLL_RANKS_MAX *(int)PROTO_MICRO_BATCHES_MAX <= (int)RANK_MODEL_SLOTS_MAX,
               "each slot has masks of its own");

/* A slot's number is the job's, and its step the training's: neither changes with the ranks that have it, nor
 * where a training goes on. */
base_status trainer_next_batch(const trainer *self, int slot, rank_batch *batch, base_error *reterr)
{
    const proto_job *job = self->job;
    const base_status status = rank_data_next_batch(self->data, slot, batch, reterr);
    batch->draw = (rank_batch_draw){
        .on = self->config.dropout > 0.0,
        .seed = (uint64_t)job->job.seed,
        .step = self->steps_done,
        .slot = (uint32_t)proto_job_slot(job, trainer_place(self).replica, slot),
    };
    return status;
}
