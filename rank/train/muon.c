/* --optimizer muon: each rank computes the updates of some matrices, and gives them to the others. Called
 * by prepare.c and step.c. */

#include "ringfence/coll_error.h"
#include "train/trainer.h"

static bool uses_muon(const trainer *self)
{
    return self->job->train.optimizer == PROTO_OPTIMIZER_MUON;
}

void trainer_plan_muon(const trainer *self, rank_memory_use *use)
{
    if (uses_muon(self)) {
        rank_optimizer_plan_muon(&self->own, use);
    }
}

/* Those that share out the matrices: ranks that have the same. NULL: with local steps all have other parameters, and in
 * a pipeline other layers, so nobody can compute for another. */
static coll_comm *sharing_ranks(const trainer *self)
{
    if (!uses_muon(self) || trainer_is_local(self) || self->pipeline != NULL) {
        return NULL;
    }
    return trainer_shares_experts(self) ? rank_ep_group_copies(self->ep)
                                        : coll_context_world(self->worker->context);
}

rank_muon_options trainer_muon_options(const trainer *self)
{
    const coll_comm *shared = sharing_ranks(self);
    if (!uses_muon(self)) {
        return (rank_muon_options){.ranks = 0};
    }
    return (rank_muon_options){.momentum = proto_job_muon_momentum(self->job),
                               .ranks = shared != NULL ? coll_comm_size(shared) : 1,
                               .rank = shared != NULL ? coll_comm_rank(shared) : 0,
                               .trace = self->traced.trace};
}

base_status trainer_make_muon(trainer *self, base_error *reterr)
{
    const rank_muon_options options = trainer_muon_options(self);
    size_t counts[BASE_COLL_RANKS_MAX];
    if (options.ranks < 2) {
        return BASE_OK;
    }
    for (int i = 0; i < options.ranks; i++) {
        counts[i] = rank_optimizer_share(self->optimizer, i).count;
    }
    float *params = self->params;
    const coll_op_desc desc = {
        .size = sizeof desc,
        .kind = COLL_ALL_GATHER,
        .send = params + rank_optimizer_share(self->optimizer, options.rank).offset,
        .recv = params + rank_optimizer_share(self->optimizer, 0).offset,
        .counts = counts,
        .type = COLL_FLOAT32,
    };
    return (base_status)coll_op_create(sharing_ranks(self), &desc, &self->matrices,
                                       coll_error_of(reterr));
}

void trainer_free_muon(trainer *self)
{
    coll_op_destroy(self->matrices);
    self->matrices = NULL;
}

base_status trainer_gather_muon(const trainer *self, base_error *reterr)
{
    if (self->matrices == NULL) {
        return BASE_OK;
    }
    const int64_t begun_ns = rank_trace_begin(self->traced.trace);
    base_status status = (base_status)coll_op_start(self->matrices, coll_error_of(reterr));
    if (status == BASE_OK) {
        status = (base_status)coll_op_wait(self->matrices, coll_error_of(reterr));
    }
    trainer_trace_exchange(self, RANK_TRACE_GATHER, begun_ns);
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, status, "exchanging what Muon has updated");
}
