/* Handles a rank's last message: what it ends with. Called by messages.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/rendezvous.h"

static int take_uses(Ringfence__Control__MemoryUse *const *uses, size_t count,
                     launch_memory_use *taken)
{
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(taken[i].purpose, sizeof taken[i].purpose, "%s", uses[i]->purpose);
        taken[i].planned_bytes = uses[i]->planned_bytes;
        taken[i].peak_bytes = uses[i]->peak_bytes;
    }
    return (int)count;
}

static void take_memory(launch_rank_info *info, const Ringfence__Control__Finished *finished)
{
    info->gpu.memory_used_bytes = finished->memory_used_bytes;
    info->gpu.memory_use_count =
        take_uses(finished->memory, finished->n_memory, info->gpu.memory_uses);
    info->state_count = take_uses(finished->state, finished->n_state, info->state);
    info->exchange_count = (int)finished->n_exchanges;
    for (size_t i = 0; i < finished->n_exchanges; i++) {
        launch_exchange_use *to = &info->exchanges[i];
        (void)snprintf(to->kind, sizeof to->kind, "%s", finished->exchanges[i]->kind);
        to->calls = finished->exchanges[i]->calls;
        to->bytes = finished->exchanges[i]->bytes;
    }
}

/* Without memory for it the record goes without. */
static void take_experts(launch_session *session, const Ringfence__Control__Experts *experts)
{
    launch_experts *taken =
        session->result->experts == NULL && experts != NULL ? calloc(1, sizeof *taken) : NULL;
    if (taken == NULL) {
        return;
    }
    taken->count = (int)experts->count;
    taken->chosen = (int)experts->chosen;
    taken->router_loss = experts->router_loss;
    taken->steps = experts->steps;
    taken->load_count = (int)experts->n_loads;
    for (size_t i = 0; i < experts->n_loads; i++) {
        taken->loads[i] = experts->loads[i];
    }
    session->result->experts = taken;
}

/* All ranks end at a checkpoint for hosts that wait, or none does. Returns one that has not ended so; -1: none. */
static int find_other_end(const launch_session *session, bool paused)
{
    int rank = session->result->paused != paused ? session->world_size - 1 : -1;
    while (rank >= 0 && !session->ranks[rank].finished) {
        rank--;
    }
    return rank;
}

void rendezvous_handle_finished(launch_session *session, int rank,
                                const Ringfence__Control__Finished *finished)
{
    launch_rank_info *info = &session->result->ranks[rank];
    if (session->ranks[rank].finished) {
        BLAME_PROTOCOL(session, rank, "finished %s", "twice");
        return;
    }
    if (finished->paused && !session->asked_to_pause) {
        BLAME_PROTOCOL(session, rank, "ends at a checkpoint %s", "unasked");
        return;
    }
    const int other = find_other_end(session, finished->paused);
    if (other >= 0) {
        BLAME_PROTOCOL(session, rank, "%s, and rank %d does not; please report it",
                       finished->paused ? "ends at a checkpoint" : "ends the training", other);
        return;
    }
    session->ranks[rank].finished = true;
    session->result->paused = finished->paused;
    info->finished = !finished->paused; /* it has saved nothing but the checkpoint */
    if (finished->params_sha256.len == PROTO_DIGEST_BYTES) {
        memcpy(info->params_sha256, finished->params_sha256.data, PROTO_DIGEST_BYTES);
    }
    info->byte_equal = finished->byte_equal;
    info->max_abs_difference = finished->max_abs_difference;
    info->max_rss_bytes = finished->max_rss_bytes;
    info->startup_ns = finished->startup_ns;
    info->eval_total = finished->eval_total;
    info->eval_correct = finished->eval_correct;
    info->eval_loss = finished->eval_loss;
    info->eval_measured = finished->eval_measured;
    info->tokens_drawn = finished->tokens_drawn;
    info->tokens_drafted = finished->tokens_drafted;
    info->tokens_accepted = finished->tokens_accepted;
    info->best_step = finished->best_step;
    info->best_loss = finished->best_loss;
    info->stopped_early = finished->stopped_early;
    info->checkpoints = finished->checkpoints;
    info->checkpoint_ns = finished->checkpoint_ns;
    (void)snprintf(info->gpu.products, sizeof info->gpu.products, "%s", finished->products);
    take_memory(info, finished);
    take_experts(session, finished->experts);
    info->gpu.graphs = finished->graphs;
    info->gpu.replays = finished->replays;
    (void)snprintf(info->gpu.capture_failure, sizeof info->gpu.capture_failure, "%s",
                   finished->capture_failure);

    Ringfence__Control__Goodbye goodbye = RINGFENCE__CONTROL__GOODBYE__INIT;
    rendezvous_send(session, rank, &goodbye.base);
}
