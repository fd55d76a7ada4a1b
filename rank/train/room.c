/* Whether a host has memory for a training on its CPUs. Called by prepare.c and stage.c before they allocate: a job
 * that has none would be killed in its first steps, or page for ever. */
#include <sys/stat.h>

#include "backend/memory_use.h"
#include "base/clock.h"
#include "base/free_memory.h"
#include "base/log.h"
#include "train/trainer.h"

#define BYTES_PER_GB 1e9

/* Tokens that a micro-batch is likely to have at most: not more than its slot's share of the file has bytes. Memory
 * that no token comes to is never touched. To think of too few refuses nothing that works. */
static int most_tokens(const trainer *self, int room)
{
    struct stat info;
    const int64_t slots = proto_job_replicas(self->job) * self->job->train.micro_batches;
    if (stat(self->job->data.train, &info) != 0 || info.st_size / slots >= room) {
        return room;
    }
    return info.st_size / slots > 0 ? (int)(info.st_size / slots) : 1;
}

/* What a rank's experts take if the rows of all are spread evenly: as many come as it sends. Room is made for more,
 * and memory that no row comes to is never touched. However the rows are spread, those of a layer are as many on all
 * ranks of the group together. So for a host that has the group this is no estimate of too much. */
static rank_ep spread_evenly(const rank_ep *ep, int tokens)
{
    rank_ep even = *ep;
    even.cut.rows_max = 1;
    const size_t room = rank_ep_received_max(&even.cut); /* for one row of each rank */
    even.cut.rows_max = ((size_t)tokens * ep->cut.chosen + room - 1) / room;
    return even;
}

/* Of all ranks on this host. They are next to each other. */
static uint64_t sum_of_host(const proto_identity *identity, const uint64_t *needs)
{
    const int first = identity->rank - identity->local_rank;
    uint64_t sum = 0;
    for (int i = 0; i < identity->local_world_size; i++) {
        const int rank = first + i;
        sum += rank >= 0 && rank < identity->world_size ? needs[rank] : 0;
    }
    return sum;
}

/* What rank 0 takes beside its part while parameters are given out and collected. */
static uint64_t whole_bytes(const trainer *self)
{
    const bool cut = proto_mode_get(self->job->job.mode)->pipelined ||
                     trainer_shards_params(self) || trainer_shares_experts(self);
    return cut && self->worker->identity.rank == 0 ? self->param_count * sizeof(float) : 0;
}

/* Collective. `less`: what takes less memory, beside a smaller context or batch. */
static base_status compare(const trainer *self, const rank_memory_use *use, const char *less,
                           base_error *reterr)
{
    const proto_identity *identity = &self->worker->identity;
    uint64_t needs[BASE_RANKS_MAX];
    const uint64_t mine = rank_memory_total(use) + whole_bytes(self);
    const base_free_memory room = base_free_memory_find(""); /* before anybody takes of it */
    const base_status status = proto_client_exchange(
        self->worker->client, &mine, needs, sizeof mine,
        base_deadline_after_ns(self->job->parallel.timeout_ms * BASE_NS_PER_MS), reterr);
    if (status != BASE_OK) {
        return status;
    }
    const uint64_t need = sum_of_host(identity, needs);
    if (need > room.most_bytes) {
        return base_fail(reterr, BASE_ERR_MEMORY,
                         "training takes %.1f GB of this host's memory, and %.1f GB are available, "
                         "with swap: a smaller --context or --batch, %s take less",
                         (double)need / BYTES_PER_GB, (double)room.most_bytes / BYTES_PER_GB, less);
    }
    if (need > room.free_bytes && identity->local_rank == 0) {
        base_log(BASE_LOG_WARNING,
                 "training takes %.1f GB of this host's memory, and %.1f GB are available without "
                 "swap: it may be slow (a smaller --context or --batch, %s take less)",
                 (double)need / BYTES_PER_GB, (double)room.free_bytes / BYTES_PER_GB, less);
    }
    return BASE_OK;
}

base_status trainer_check_host(const trainer *self, const rank_model_options *model,
                               const rank_memory_use *state, base_error *reterr)
{
    rank_memory_use use = *state;
    rank_model_options likely = *model;
    rank_ep even;
    likely.token_count_max = most_tokens(self, model->token_count_max);
    if (model->ep != NULL) {
        even = spread_evenly(model->ep, likely.token_count_max);
        likely.ep = &even;
    }
    rank_model_plan(&likely, &use);
    return compare(self, &use,
                   model->ep != NULL ? "--recompute and more --expert-ranks"
                                     : "--recompute and --zero",
                   reterr);
}

/* The best model's copy, and the optimizer's part of a stage. */
static void plan_stage_state(const trainer *self, const rank_pipeline_options *options,
                             size_t held_count, rank_memory_use *use)
{
    rank_model_config part = self->config;
    part.tensor_ranks = options->tensor;
    use->bytes[RANK_MEMORY_WEIGHTS] +=
        held_count * sizeof(float) * (trainer_keeps_best(self) ? 2 : 1);
    rank_optimizer_plan(held_count, use);
    if (self->job->train.optimizer == PROTO_OPTIMIZER_MUON) {
        const rank_muon_options muon = {.ranks = options->tensor};
        rank_optimizer_plan_muon(&part, &muon, use);
    }
}

base_status trainer_check_stage_host(const trainer *self, const rank_pipeline_options *options,
                                     base_error *reterr)
{
    static const char *const less[] = {
        [PROTO_PIPELINE_GPIPE] = "--recompute and --pipeline 1f1b",
        [PROTO_PIPELINE_1F1B] = "and --recompute",
        [PROTO_PIPELINE_INTERLEAVED] = "--recompute and --pipeline 1f1b",
        [PROTO_PIPELINE_ZB_H1] = "and --pipeline 1f1b with --recompute",
    };
    const proto_identity *identity = &self->worker->identity;
    rank_pipeline_options likely = *options;
    rank_memory_use use = {{0}};
    size_t held_count = 0;
    likely.token_count_max = most_tokens(self, options->token_count_max);
    const base_status status = rank_pipeline_plan(&likely, identity->rank, identity->world_size,
                                                  &held_count, &use, reterr);
    if (status != BASE_OK) {
        return status;
    }
    plan_stage_state(self, options, held_count, &use);
    return compare(self, &use, less[options->schedule.kind], reterr);
}
