/* Models of which each rank has only a part, a stage's, a shard or some experts: all of them for a while. Called by the
 * files of this directory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "ringfence/coll_error.h"
#include "train/trainer.h"

bool trainer_has_part(const trainer *self)
{
    return self->pipeline != NULL || trainer_shards_params(self) || trainer_shares_experts(self);
}

bool trainer_lacks_whole(const trainer *self)
{
    return trainer_has_part(self) || trainer_adapts(self);
}

base_status trainer_make_whole(const trainer *self, float **whole, base_error *reterr)
{
    *whole = NULL;
    if (self->worker->identity.rank != 0) {
        return BASE_OK;
    }
    *whole = malloc(self->param_count * sizeof **whole);
    return *whole != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for the model's %zu parameters",
                           self->param_count);
}

/* Collective: puts all values into rank 0's whole. */
static base_status collect_into(const trainer *self, const float *values, float *whole,
                                rank_pipeline_copies *copies, base_error *reterr)
{
    *copies = (rank_pipeline_copies){.byte_equal = true}; /* of a shard there is one */
    if (trainer_shares_experts(self)) {                   /* copies are compared first */
        return trainer_are_moments_sharded(self, values)
                   ? trainer_collect_shards(self, values, whole, reterr)
                   : trainer_collect_experts(self, values, whole, reterr);
    }
    return self->pipeline != NULL
               ? rank_pipeline_gather(self->pipeline, values, whole, copies, reterr)
               : rank_ddp_collect(self->ddp, values, whole, reterr);
}

base_status trainer_collect(const trainer *self, const float *values, float **whole,
                            rank_pipeline_copies *copies, base_error *reterr)
{
    base_status status = trainer_make_whole(self, whole, reterr);
    if (status == BASE_OK) {
        status = collect_into(self, values, *whole, copies, reterr);
    }
    if (status != BASE_OK) {
        free(*whole);
        *whole = NULL;
    }
    return status;
}

base_status trainer_give_whole(const trainer *self, float **whole, base_error *reterr)
{
    enum { SLICE = 4 << 20 }; /* elements */
    coll_comm *world = coll_context_world(self->worker->context);
    rank_pipeline_copies copies; /* compared when the model is saved */
    if (trainer_adapts(self)) {
        return trainer_merge(self, whole, reterr);
    }
    *whole = malloc(self->param_count * sizeof **whole);
    if (*whole == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY,
                         "no memory to evaluate the model's %zu parameters", self->param_count);
    }
    base_status status = collect_into(self, self->params, *whole, &copies, reterr);
    for (size_t done = 0; status == BASE_OK && done < self->param_count; done += SLICE) {
        const size_t count = base_min_size(SLICE, self->param_count - done);
        status = (base_status)coll_broadcast(world, *whole + done, count, COLL_FLOAT32, 0,
                                             coll_error_of(reterr));
    }
    return status;
}

/* What rank 0 tells the others. */
typedef struct whole_end {
    uint8_t digest[PROTO_DIGEST_BYTES];
    rank_pipeline_copies copies;
} whole_end;

base_status trainer_save_whole(const trainer *self, uint8_t digest[PROTO_DIGEST_BYTES],
                               bool *byte_equal, double *max_abs_difference, base_error *reterr)
{
    float *whole = NULL;
    whole_end end = {.copies = {.byte_equal = false}};
    base_status status = BASE_OK;
    *byte_equal = true;
    *max_abs_difference = 0.0;
    if (self->pipeline != NULL) {
        status = rank_pipeline_compare(self->pipeline, self->params, byte_equal, max_abs_difference,
                                       reterr);
    }
    if (trainer_shares_experts(self)) {
        status = rank_ddp_compare(self->ddp, self->params, byte_equal, max_abs_difference, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_collect(self, self->params, &whole, &end.copies, reterr);
    }
    if (status == BASE_OK && whole != NULL) {
        proto_sha256(whole, self->param_count * sizeof *whole, end.digest);
    }
    if (status == BASE_OK) {
        status = (base_status)coll_broadcast(coll_context_world(self->worker->context), &end,
                                             sizeof end, COLL_UINT8, 0, coll_error_of(reterr));
    }
    if (status == BASE_OK && whole != NULL) { /* last: nobody waits for it */
        status = trainer_write(self, whole, reterr);
    }
    free(whole);
    memcpy(digest, end.digest, PROTO_DIGEST_BYTES);
    *byte_equal = *byte_equal && end.copies.byte_equal;
    if (!isnan(*max_abs_difference) && !(end.copies.max_abs_difference <= *max_abs_difference)) {
        *max_abs_difference = end.copies.max_abs_difference;
    }
    return status;
}
