/* Ranks that share out the experts of a model: what each has, how it gets it, and how rank 0 gets all. Called by
 * prepare.c, resume.c and whole.c. */
#include <stdlib.h>
#include <string.h>

#include "ringfence/coll_error.h"
#include "train/trainer.h"

bool trainer_shares_experts(const trainer *self)
{
    return self->ep != NULL;
}

static rank_model_config part_of(const trainer *self, int rank)
{
    rank_model_config part = self->config;
    part.expert_ranks = (int)proto_job_expert_ranks(self->job);
    part.expert_rank = rank;
    return part;
}

/* A layer's experts stand together. */
static base_status find_apart(trainer *self, base_error *reterr)
{
    int found = -1;
    size_t end = 0; /* of the range found last */
    self->apart = calloc((size_t)self->config.layers, sizeof *self->apart);
    if (self->apart == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for ranges of parameters");
    }
    for (int i = 0; i < rank_model_tensor_count(&self->own); i++) {
        rank_tensor tensor;
        rank_model_tensor(&self->own, i, &tensor);
        if (tensor.expert == 0 || tensor.count == 0) {
            continue;
        }
        if (found < 0 || tensor.offset != end) {
            self->apart[++found] = (rank_zero_range){.offset = tensor.offset};
        }
        self->apart[found].count += tensor.count;
        end = tensor.offset + tensor.count;
    }
    return BASE_OK;
}

base_status trainer_make_expert_ranks(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    const int ranks = (int)proto_job_expert_ranks(job);
    const rank_experts of = rank_model_experts(&self->config);
    if (ranks == 1) {
        return BASE_OK;
    }
    base_status status = rank_model_check_expert_ranks(&self->config, ranks, reterr);
    if (status != BASE_OK) {
        return status;
    }
    self->own = part_of(self, self->worker->identity.rank % ranks);
    self->own_params = rank_model_param_count(&self->own);
    status = find_apart(self, reterr);
    const rank_ep_cut cut = {.ranks = ranks,
                             .experts = (size_t)of.count,
                             .rows_max = (size_t)(job->train.batch * job->model.context),
                             .chosen = (size_t)of.chosen};
    return status == BASE_OK ? rank_ep_group_create(coll_context_world(self->worker->context), &cut,
                                                    &self->ep, reterr)
                             : status;
}

rank_ddp_apart trainer_apart(const trainer *self)
{
    return self->ep != NULL ? (rank_ddp_apart){.ranges = self->apart,
                                               .range_count = self->config.layers,
                                               .copies = rank_ep_group_copies(self->ep),
                                               .members = rank_ep_group_members(self->ep)}
                            : (rank_ddp_apart){.range_count = 0};
}

/* The first group has all experts. */
static bool is_in_first_group(const trainer *self)
{
    return self->worker->identity.rank < proto_job_expert_ranks(self->job);
}

/* An expert's tensor stands as a whole in the model and in a rank's part. */
typedef struct expert_tensor {
    size_t in_whole;
    size_t in_part;
    size_t count; /* 0: the tensor is not an expert's, or another rank has it */
} expert_tensor;

static expert_tensor expert_tensor_of(const trainer *self, const rank_model_config *part, int index)
{
    rank_tensor whole;
    rank_tensor held;
    rank_model_tensor(&self->config, index, &whole);
    rank_model_tensor(part, index, &held);
    return (expert_tensor){whole.offset, held.offset, whole.expert > 0 ? held.count : 0};
}

/* Where experts are: in a whole model's values, or in those of the rank that has them. One of the two is NULL. */
typedef struct experts_at {
    const float *sent;
    float *received;
    bool in_whole;
} experts_at;

/* Sends a peer of the group the experts of a part, or receives them. */
static coll_status move_experts(const trainer *self, const rank_model_config *part, int peer,
                                const experts_at *at, coll_error *error)
{
    coll_comm *members = rank_ep_group_members(self->ep);
    coll_status status = COLL_OK;
    for (int i = 0; status == COLL_OK && i < rank_model_tensor_count(part); i++) {
        const expert_tensor of = expert_tensor_of(self, part, i);
        const size_t place = at->in_whole ? of.in_whole : of.in_part;
        if (of.count > 0) {
            status = at->sent != NULL
                         ? coll_send(members, at->sent + place, of.count, COLL_FLOAT32, peer, error)
                         : coll_receive(members, at->received + place, of.count, COLL_FLOAT32, peer,
                                        error);
        }
    }
    return status;
}

/* Rank 0: with all others of its group. */
static coll_status move_all(const trainer *self, const experts_at *at, coll_error *error)
{
    const int ranks = coll_comm_size(rank_ep_group_members(self->ep));
    coll_status status = COLL_OK;
    for (int rank = 1; status == COLL_OK && rank < ranks; rank++) {
        const rank_model_config part = part_of(self, rank);
        status = move_experts(self, &part, rank, at, error);
    }
    return status;
}

base_status trainer_spread_experts(const trainer *self, const float *whole, float *values,
                                   base_error *reterr)
{
    coll_status status = COLL_OK;
    for (int i = 0; whole != NULL && i < rank_model_tensor_count(&self->own); i++) {
        rank_tensor held;
        rank_model_tensor(&self->own, i, &held);
        rank_model_take_part(&self->own, i, whole, values + held.offset);
    }
    if (whole != NULL) {
        status =
            move_all(self, &(experts_at){.sent = whole, .in_whole = true}, coll_error_of(reterr));
    } else if (is_in_first_group(self)) {
        status = move_experts(self, &self->own, 0, &(experts_at){.received = values},
                              coll_error_of(reterr));
    }
    return (base_status)status;
}

base_status trainer_collect_experts(const trainer *self, const float *values, float *whole,
                                    base_error *reterr)
{
    const bool collects = self->worker->identity.rank == 0;
    coll_status status = COLL_OK;
    for (int i = 0; collects && i < rank_model_tensor_count(&self->own); i++) {
        rank_tensor held;
        rank_model_tensor(&self->own, i, &held);
        rank_model_put_part(&self->own, i, values + held.offset, whole);
    }
    if (collects) {
        status = move_all(self, &(experts_at){.received = whole, .in_whole = true},
                          coll_error_of(reterr));
    } else if (is_in_first_group(self)) {
        status =
            move_experts(self, &self->own, 0, &(experts_at){.sent = values}, coll_error_of(reterr));
    }
    return (base_status)status;
}

/* Room for what a rank of the first group has of some values; the others have nothing to put together. */
static base_status make_own(const trainer *self, float **own, base_error *reterr)
{
    *own = NULL;
    if (!is_in_first_group(self)) {
        return BASE_OK;
    }
    *own = calloc(self->own_params, sizeof **own);
    return *own != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for a value of each parameter");
}

base_status trainer_spread_shards(const trainer *self, const float *whole, float *shard,
                                  const char *what, base_error *reterr)
{
    float *own = NULL;
    base_status status = make_own(self, &own, reterr);
    if (status == BASE_OK) {
        status = trainer_spread_experts(self, whole, own, reterr);
    }
    if (status == BASE_OK) {
        status = rank_ddp_spread(self->ddp, own, shard, what, reterr);
    }
    free(own);
    return status;
}

base_status trainer_collect_shards(const trainer *self, const float *shard, float *whole,
                                   base_error *reterr)
{
    float *own = NULL;
    base_status status = make_own(self, &own, reterr);
    if (status == BASE_OK) {
        status = rank_ddp_collect(self->ddp, shard, own, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_collect_experts(self, own, whole, reterr);
    }
    free(own);
    return status;
}

base_status trainer_share_experts(trainer *self, const char *from, base_error *reterr)
{
    const rank_device *device = &self->device;
    uint8_t digest[RANK_DIGEST_BYTES] = {0};
    float *whole = NULL;
    base_status status = trainer_make_whole(self, &whole, reterr);
    if (status == BASE_OK && whole != NULL) {
        status = trainer_first_params(self, from, whole, reterr);
    }
    if (status == BASE_OK && whole != NULL) {
        device->backend->digest(device->queue,
                                &(rank_digest){.at = whole,
                                               .size_bytes = self->param_count * sizeof *whole,
                                               .digest = digest});
        status = device->backend->sync(device->queue, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_spread_experts(self, whole, self->params, reterr);
    }
    free(whole);
    if (status == BASE_OK) {
        status = trainer_wrap(self, self->params, reterr);
    }
    if (status == BASE_OK) {
        status = (base_status)coll_broadcast(coll_context_world(self->worker->context), digest,
                                             sizeof digest, COLL_UINT8, 0, coll_error_of(reterr));
    }
    memcpy(self->initial_digest, digest, sizeof digest);
    return status;
}
