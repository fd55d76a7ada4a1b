/* Enqueues a step of decoding, by a graph where there is one. Called by engine.c. */
#include "generate/step_graphs.h"

#include "base/assert.h"
#include "ringfence/coll_error.h"

size_t rank_step_size(size_t most, size_t sequences)
{
    size_t size = most;
    for (int i = 1; i < RANK_STEP_SIZES_MAX && size > 1 && (size + 1) / 2 >= sequences; i++) {
        size = (size + 1) / 2;
    }
    return size;
}

/* A step under way. */
typedef struct pass {
    const rank_step *step;
    rank_graph_note all_reduces; /* of the step: how many, and their bytes */
    base_status status;          /* of asking the others */
    base_error *reterr;
} pass;

/* A rank_graph_work's. */
static void enqueue(void *user)
{
    pass *of = user;
    const rank_step *step = of->step;
    const rank_tp_costs before = rank_tp_group_costs(step->group);
    if (of->status != BASE_OK) {
        return;
    }
    rank_step_tables_copy(step->tables);
    step->run->shape.config->family->decode(step->run, step->args);
    const rank_tp_costs after = rank_tp_group_costs(step->group);
    of->all_reduces = (rank_graph_note){{after.count - before.count, after.bytes - before.bytes}};
}

/* A graph with operations of NCCL is one of all ranks: none has it unless all have. */
static bool all_capture(void *user, bool mine)
{
    pass *of = user;
    coll_comm *comm = of->step->comm;
    const uint8_t own = mine ? 1 : 0;
    uint8_t could[RANK_TP_LEAVES] = {own};
    int count = 1;
    if (comm != NULL && of->status == BASE_OK) {
        count = coll_comm_size(comm);
        BASE_ASSERT(count <= RANK_TP_LEAVES);
        of->status = (base_status)coll_all_gather(comm, &own, could, sizeof own, COLL_UINT8,
                                                  coll_error_of(of->reterr));
    }
    bool all = of->status == BASE_OK;
    for (int rank = 0; rank < count; rank++) {
        all = all && could[rank] != 0;
    }
    return all;
}

base_status rank_step_enqueue(rank_graphs *graphs, const rank_step *step, base_error *reterr)
{
    const rank_rows *rows = &step->args->saved->rows;
    const rank_tp_costs before = rank_tp_group_costs(step->group);
    pass of = {.step = step, .reterr = reterr};
    (void)rank_graphs_do(graphs,
                         &(rank_graph_work){.key = {{RANK_GRAPH_STEP, rows->count,
                                                     rows->segment_count, rows->active_count}},
                                            .queue = step->run->device.queue,
                                            .enqueue = enqueue,
                                            .all = all_capture,
                                            .note = &of.all_reduces,
                                            .user = &of});
    if (graphs != NULL) {
        rank_tp_group_recount(step->group, before.count + of.all_reduces.part[0],
                              before.bytes + of.all_reduces.part[1]);
    }
    return of.status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, of.status, "asking whether all ranks capture a step");
}
