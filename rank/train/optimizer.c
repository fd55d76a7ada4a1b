/* The optimizer of one rank: what it updates, and what that takes. Called by prepare.c. */
#include <stdlib.h>

#include "train/trainer.h"

void trainer_plan_update(const trainer *self, rank_memory_use *use)
{
    const proto_identity *identity = &self->worker->identity;
    const rank_ddp_options options = trainer_ddp_options(self);
    rank_optimizer_plan(trainer_is_sharded(self)
                            ? rank_ddp_shard_count(&options, identity->rank, identity->world_size)
                            : self->own_params,
                        use);
    trainer_plan_muon(self, use);
}

/* What this rank updates of the parameters. */
static base_status make_pieces(const trainer *self, rank_optimizer_piece **pieces, size_t *count,
                               base_error *reterr)
{
    const proto_identity *identity = &self->worker->identity;
    const rank_ddp_options options = trainer_ddp_options(self);
    *count = rank_ddp_pieces(&options, identity->rank, identity->world_size, NULL);
    rank_zero_range *ranges = calloc(*count, sizeof *ranges);
    *pieces = calloc(*count, sizeof **pieces);
    if (ranges == NULL || *pieces == NULL) {
        free(ranges);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the pieces of a shard");
    }
    (void)rank_ddp_pieces(&options, identity->rank, identity->world_size, ranges);
    for (size_t i = 0; i < *count; i++) {
        (*pieces)[i] = (rank_optimizer_piece){.offset = ranges[i].offset, .count = ranges[i].count};
    }
    free(ranges);
    return BASE_OK;
}

base_status trainer_make_optimizer(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    rank_optimizer_piece *pieces = NULL;
    rank_optimizer_options options = {
        .adamw = {.beta1 = job->train.beta1,
                  .beta2 = job->train.beta2,
                  .epsilon = job->train.epsilon,
                  .weight_decay = job->train.weight_decay},
        .norm_max = job->train.clip_norm,
        .graphs = self->graphs,
        .rounded = self->rounded,
        .held = self->pipeline != NULL ? rank_pipeline_held(self->pipeline) : NULL,
        .muon = trainer_muon_options(self),
    };
    const rank_model_config *config =
        self->pipeline != NULL ? rank_pipeline_config(self->pipeline) : &self->own;
    base_status status = trainer_is_sharded(self)
                             ? make_pieces(self, &pieces, &options.piece_count, reterr)
                             : BASE_OK;
    options.pieces = pieces;
    options.packed_grads = job->parallel.zero >= PROTO_ZERO_GRADIENTS;
    options.packed_params = job->parallel.zero >= PROTO_ZERO_PARAMETERS;
    if (status == BASE_OK) {
        status = rank_optimizer_create(&self->device, config, &options, &self->optimizer, reterr);
    }
    free(pieces);
    return status;
}
