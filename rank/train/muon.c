/* --optimizer muon: each rank computes the updates of some matrices, and gives them to the others. Called
 * by prepare.c, optimizer.c and step.c. */
#include <stdlib.h>

#include "base/clock.h"
#include "ringfence/coll_error.h"
#include "train/trainer.h"

static bool uses_muon(const trainer *self)
{
    return self->job->train.optimizer == PROTO_OPTIMIZER_MUON;
}

void trainer_plan_muon(const trainer *self, rank_memory_use *use)
{
    const rank_muon_options options = trainer_muon_options(self);
    if (uses_muon(self)) {
        rank_optimizer_plan_muon(&self->own, &options, use);
    }
}

base_status trainer_find_stretches(trainer *self, base_error *reterr)
{
    const rank_ddp_options options = trainer_ddp_options(self);
    const int ranks = self->worker->identity.world_size;
    if (!uses_muon(self) || !trainer_is_sharded(self)) {
        return BASE_OK;
    }
    self->muon.stretch_count = rank_ddp_stretches(&options, ranks, NULL);
    self->muon.stretches = calloc(self->muon.stretch_count, sizeof *self->muon.stretches);
    if (self->muon.stretches == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for ranges of parameters");
    }
    (void)rank_ddp_stretches(&options, ranks, self->muon.stretches);
    return BASE_OK;
}

/* Those that share out the matrices: ranks that have the same, or parts of the same. NULL: with
 * local steps all have other parameters, and stages other layers, so nobody can compute for
 * another. */
static coll_comm *sharing_ranks(const trainer *self)
{
    if (!uses_muon(self) || trainer_is_local(self)) {
        return NULL;
    }
    if (self->pipeline != NULL) {
        return rank_pipeline_tensor_ranks(self->pipeline);
    }
    return trainer_shares_experts(self) && !trainer_is_sharded(self)
               ? rank_ep_group_copies(self->ep)
               : coll_context_world(self->worker->context);
}

rank_muon_options trainer_muon_options(const trainer *self)
{
    const coll_comm *shared = sharing_ranks(self);
    if (!uses_muon(self)) {
        return (rank_muon_options){.ranks = 0};
    }
    rank_muon_options options = {.momentum = proto_job_muon_momentum(self->job),
                                 .ranks = shared != NULL ? coll_comm_size(shared) : 1,
                                 .rank = shared != NULL ? coll_comm_rank(shared) : 0,
                                 .stretches = self->muon.stretches,
                                 .stretch_count = self->muon.stretch_count,
                                 .trace = self->traced.trace};
    if (self->muon.stretches != NULL && trainer_shares_experts(self)) {
        options.copies = coll_comm_size(rank_ep_group_copies(self->ep));
        options.copy = coll_comm_rank(rank_ep_group_copies(self->ep));
    }
    return options;
}

/* Of whole matrices: an all-gather of what each rank has updated. */
static base_status make_gather(trainer *self, const rank_muon_options *options, base_error *reterr)
{
    size_t counts[BASE_COLL_RANKS_MAX];
    for (int i = 0; i < options->ranks; i++) {
        counts[i] = rank_optimizer_share(self->optimizer, i).count;
    }
    float *params = self->params;
    const coll_op_desc desc = {
        .size = sizeof desc,
        .kind = COLL_ALL_GATHER,
        .send = params + rank_optimizer_share(self->optimizer, options->rank).offset,
        .recv = params + rank_optimizer_share(self->optimizer, 0).offset,
        .counts = counts,
        .type = COLL_FLOAT32,
    };
    return (base_status)coll_op_create(sharing_ranks(self), &desc, &self->muon.gather,
                                       coll_error_of(reterr));
}

/* Of matrices in parts: the two all-to-alls of a round. */
static base_status make_round(trainer *self, int round, base_error *reterr)
{
    size_t mine[BASE_COLL_RANKS_MAX];
    size_t parts[BASE_COLL_RANKS_MAX];
    const rank_muon_round at = rank_optimizer_round(self->optimizer, round, mine, parts);
    coll_comm *comm = at.apart ? rank_ep_group_copies(self->ep) : sharing_ranks(self);
    trainer_round_ops *ops = &self->muon.rounds[round];
    const coll_op_desc there = {.size = sizeof there,
                                .kind = COLL_ALL_TO_ALL,
                                .send = at.mine,
                                .recv = at.gathered,
                                .counts = mine,
                                .recv_counts = parts,
                                .type = COLL_FLOAT32};
    coll_op_desc back = there;
    back.send = at.computed;
    back.recv = at.mine;
    back.counts = parts;
    back.recv_counts = mine;
    const base_status status =
        (base_status)coll_op_create(comm, &there, &ops->there, coll_error_of(reterr));
    return status == BASE_OK
               ? (base_status)coll_op_create(comm, &back, &ops->back, coll_error_of(reterr))
               : status;
}

base_status trainer_make_muon(trainer *self, base_error *reterr)
{
    const rank_muon_options options = trainer_muon_options(self);
    const int rounds = rank_optimizer_rounds(self->optimizer);
    const bool whole = self->muon.stretches == NULL && self->pipeline == NULL;
    base_status status = BASE_OK;
    if (options.ranks > 1 && whole) {
        return make_gather(self, &options, reterr);
    }
    self->muon.rounds = calloc((size_t)rounds + 1, sizeof *self->muon.rounds);
    if (self->muon.rounds == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the exchanges of matrices");
    }
    self->muon.round_count = rounds;
    for (int round = 0; status == BASE_OK && round < rounds; round++) {
        status = make_round(self, round, reterr);
    }
    return status;
}

void trainer_free_muon(trainer *self)
{
    coll_op_destroy(self->muon.gather);
    for (int round = 0; round < self->muon.round_count; round++) {
        coll_op_destroy(self->muon.rounds[round].there);
        coll_op_destroy(self->muon.rounds[round].back);
    }
    free(self->muon.rounds);
    free(self->muon.stretches);
    self->muon = (trainer_muon){.gather = NULL};
}

static base_status exchange(const trainer *self, coll_op *op, rank_trace_kind kind,
                            base_error *reterr)
{
    const int64_t begun_ns = rank_trace_begin(self->traced.trace);
    base_status status = (base_status)coll_op_start(op, coll_error_of(reterr));
    if (status == BASE_OK) {
        status = (base_status)coll_op_wait(op, coll_error_of(reterr));
    }
    trainer_trace_exchange(self, kind, begun_ns);
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, status, "exchanging what Muon has updated");
}

base_status trainer_gather_muon(const trainer *self, base_error *reterr)
{
    return self->muon.gather != NULL ? exchange(self, self->muon.gather, RANK_TRACE_GATHER, reterr)
                                     : BASE_OK;
}

base_status trainer_update_parts(const trainer *self, int64_t *exchange_ns, base_error *reterr)
{
    base_status status = BASE_OK;
    *exchange_ns = 0;
    for (int round = 0; status == BASE_OK && round < self->muon.round_count; round++) {
        const trainer_round_ops *ops = &self->muon.rounds[round];
        rank_optimizer_begin_round(self->optimizer, round);
        *exchange_ns -= base_now_ns();
        status = exchange(self, ops->there, RANK_TRACE_MATRICES, reterr);
        *exchange_ns += base_now_ns();
        if (status != BASE_OK) {
            return status;
        }
        rank_optimizer_compute_round(self->optimizer, round);
        *exchange_ns -= base_now_ns();
        status = exchange(self, ops->back, RANK_TRACE_MATRICES, reterr);
        *exchange_ns += base_now_ns();
        if (status == BASE_OK) {
            rank_optimizer_end_round(self->optimizer, round);
        }
    }
    return status;
}
