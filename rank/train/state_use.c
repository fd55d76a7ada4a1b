/* What a rank of data-parallel training has of the model's state, and what its steps exchange: for the
 * record. Called by step.c and finish.c. */
#include "train/trainer.h"

/* The last kind is between ranks that share micro-batches, the experts, or Muon's matrices. */
enum { WORLD_KINDS = TRAINER_EXCHANGE_KINDS - 1 };
static const coll_kind kinds[TRAINER_EXCHANGE_KINDS] = {COLL_ALL_REDUCE, COLL_REDUCE_SCATTER,
                                                        COLL_ALL_GATHER, COLL_ALL_TO_ALL};

static void count_operations(const coll_comm *comm, trainer_exchanges *counts)
{
    for (int i = 0; i < WORLD_KINDS; i++) {
        counts->calls[i] += coll_comm_operations(comm, kinds[i]);
        counts->bytes[i] += coll_comm_operation_bytes(comm, kinds[i]);
    }
}

/* Of parts of matrices. */
static void count_all_to_alls(const coll_comm *comm, trainer_exchanges *counts)
{
    counts->calls[WORLD_KINDS] += coll_comm_operations(comm, COLL_ALL_TO_ALL);
    counts->bytes[WORLD_KINDS] += coll_comm_operation_bytes(comm, COLL_ALL_TO_ALL);
}

void trainer_exchanges_begin(const trainer *self, trainer_exchanges *before)
{
    *before = (trainer_exchanges){.calls = {0}};
    count_operations(coll_context_world(self->worker->context), before);
    count_all_to_alls(coll_context_world(self->worker->context), before);
    if (self->cp != NULL) {
        const rank_cp_costs shared = rank_cp_group_costs(self->cp);
        before->calls[WORLD_KINDS] += shared.count;
        before->bytes[WORLD_KINDS] += shared.bytes;
    }
    if (self->ep != NULL) {
        const rank_ep_costs shared = rank_ep_group_costs(self->ep);
        count_operations(rank_ep_group_copies(self->ep), before);
        count_all_to_alls(rank_ep_group_copies(self->ep), before);
        count_operations(rank_ep_group_members(self->ep), before);
        before->calls[WORLD_KINDS] += shared.count;
        before->bytes[WORLD_KINDS] += shared.bytes;
    }
}

void trainer_exchanges_end(trainer *self, const trainer_exchanges *before)
{
    trainer_exchanges now;
    trainer_exchanges_begin(self, &now);
    for (int i = 0; i < TRAINER_EXCHANGE_KINDS; i++) {
        self->exchanges.calls[i] += now.calls[i] - before->calls[i];
        self->exchanges.bytes[i] += now.bytes[i] - before->bytes[i];
    }
}

static void put_exchanges(const trainer *self, trainer_state_use *use,
                          Ringfence__Control__Finished *finished)
{
    const uint64_t steps = self->steps_done - self->first_step;
    const bool all = self->cp != NULL || self->ep != NULL || self->muon.round_count > 0;
    const int count = all ? TRAINER_EXCHANGE_KINDS : WORLD_KINDS;
    for (int i = 0; steps > 0 && i < count; i++) {
        Ringfence__Control__ExchangeUse *row = &use->kinds[i];
        *row = (Ringfence__Control__ExchangeUse)RINGFENCE__CONTROL__EXCHANGE_USE__INIT;
        row->kind = (char *)(uintptr_t)coll_kind_name(kinds[i]);
        row->calls = (double)self->exchanges.calls[i] / (double)steps;
        row->bytes = (double)self->exchanges.bytes[i] / (double)steps;
        use->kind_at[i] = row;
        finished->n_exchanges++;
    }
    finished->exchanges = use->kind_at;
}

static void put_row(trainer_state_use *use, Ringfence__Control__Finished *finished,
                    const char *name, uint64_t planned_bytes, uint64_t held_bytes)
{
    Ringfence__Control__MemoryUse *row = &use->rows[finished->n_state];
    *row = (Ringfence__Control__MemoryUse)RINGFENCE__CONTROL__MEMORY_USE__INIT;
    row->purpose = (char *)(uintptr_t)name;
    row->planned_bytes = planned_bytes;
    row->peak_bytes = held_bytes;
    use->row_at[finished->n_state++] = row;
}

void trainer_put_state_use(const trainer *self, trainer_state_use *use,
                           Ringfence__Control__Finished *finished)
{
    static const struct {
        rank_memory kind;
        const char *name;
    } rows[] = {{RANK_MEMORY_WEIGHTS, "parameters"},
                {RANK_MEMORY_EXCHANGED, "arena"},
                {RANK_MEMORY_WORK, "gradients"},
                {RANK_MEMORY_OPTIMIZER, "moments"}};
    rank_memory_use planned = {{0}};
    rank_memory_use held = {{0}};
    if (self->ddp == NULL || self->device.backend->memory_peak != NULL) {
        return;
    }
    trainer_plan_state(self, &planned);
    held.bytes[RANK_MEMORY_WEIGHTS] = self->param_bytes;
    if (trainer_adapts(self)) {
        held.bytes[RANK_MEMORY_WEIGHTS] += self->model_params * sizeof *self->frozen;
    }
    held.bytes[RANK_MEMORY_OPTIMIZER] = rank_optimizer_moment_bytes(self->optimizer);
    rank_ddp_memory(self->ddp, &held);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_row(use, finished, rows[i].name, planned.bytes[rows[i].kind], held.bytes[rows[i].kind]);
    }
    if (trainer_is_local(self)) {
        put_row(use, finished, "outer", trainer_outer_plan(self), self->outer.size_bytes);
    }
    if (trainer_keeps_best(self)) {
        put_row(use, finished, "best", trainer_best_plan(self), trainer_best_plan(self));
    }
    finished->state = use->row_at;
    put_exchanges(self, use, finished);
}
