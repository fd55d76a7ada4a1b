/* Chooses which steps of decoding are captured, and keeps their graphs. Called by engine.c. */
#include "generate/step_graphs.h"

size_t rank_step_size(size_t most, size_t sequences)
{
    size_t size = most;
    for (int i = 1; i < RANK_STEP_SIZES_MAX && size > 1 && (size + 1) / 2 >= sequences; i++) {
        size = (size + 1) / 2;
    }
    return size;
}

static bool has_shape(const rank_step_graph *entry, const rank_rows *rows)
{
    return entry->used != 0 && entry->rows == rows->count &&
           entry->segments == rows->segment_count && entry->active == rows->active_count;
}

/* A shape that is new takes the place of the one that was not used for longest. */
static rank_step_graph *replace_oldest(rank_step_graphs *graphs, const rank_device *device,
                                       const rank_rows *rows)
{
    rank_step_graph *oldest = &graphs->entries[0];
    for (int i = 1; i < RANK_STEP_GRAPHS_MAX; i++) {
        if (graphs->entries[i].used < oldest->used) {
            oldest = &graphs->entries[i];
        }
    }
    if (oldest->graph != NULL) {
        device->backend->graph_destroy(device->queue, oldest->graph);
    }
    *oldest = (rank_step_graph){
        .rows = rows->count, .segments = rows->segment_count, .active = rows->active_count};
    return oldest;
}

rank_step_way rank_step_graphs_find(rank_step_graphs *graphs, const rank_device *device,
                                    const rank_rows *rows, rank_step_graph **entry)
{
    rank_step_way way = RANK_STEP_RUN;
    rank_step_graph *found = NULL;
    for (int i = 0; i < RANK_STEP_GRAPHS_MAX && found == NULL; i++) {
        found = has_shape(&graphs->entries[i], rows) ? &graphs->entries[i] : NULL;
    }
    if (found != NULL) {
        way = found->graph != NULL ? RANK_STEP_REPLAY : RANK_STEP_CAPTURE;
    } else {
        found = replace_oldest(graphs, device, rows);
    }
    found->used = ++graphs->steps;
    *entry = found;
    return way;
}

static void enqueue(const rank_run *run, const rank_step_tables *tables,
                    const rank_decode_args *args)
{
    rank_step_tables_copy(tables);
    run->shape.config->family->decode(run, args);
}

/* The graph has the step's operations, and has not run. */
static base_status capture(rank_step_graph *entry, const rank_run *run,
                           const rank_step_tables *tables, const rank_decode_args *args,
                           const rank_tp_group *group, base_error *reterr)
{
    const rank_device *device = &run->device;
    const rank_tp_costs before = rank_tp_group_costs(group);
    base_status status = device->backend->capture(device->queue, &entry->graph, reterr);
    if (status != BASE_OK) {
        return status;
    }
    enqueue(run, tables, args);
    status = device->backend->capture_end(device->queue, reterr);
    const rank_tp_costs after = rank_tp_group_costs(group);
    entry->once =
        (rank_tp_costs){.count = after.count - before.count, .bytes = after.bytes - before.bytes};
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "capturing a step");
}

base_status rank_step_graphs_decode(rank_step_graphs *graphs, const rank_run *run,
                                    const rank_step_tables *tables, const rank_decode_args *args,
                                    rank_tp_group *group, base_error *reterr)
{
    const rank_device *device = &run->device;
    rank_step_graph *entry = NULL;
    base_status status = BASE_OK;
    if (device->backend->capture == NULL) {
        enqueue(run, tables, args);
        return BASE_OK;
    }
    switch (rank_step_graphs_find(graphs, device, &args->saved->rows, &entry)) {
    case RANK_STEP_RUN:
        enqueue(run, tables, args);
        return BASE_OK;
    case RANK_STEP_CAPTURE:
        status = capture(entry, run, tables, args, group, reterr);
        break;
    case RANK_STEP_REPLAY:
        rank_tp_group_replayed(group, entry->once);
        graphs->replays++;
        break;
    }
    if (status == BASE_OK) {
        device->backend->replay(device->queue, entry->graph);
    }
    return status;
}

void rank_step_graphs_fini(rank_step_graphs *graphs, const rank_device *device)
{
    for (int i = 0; i < RANK_STEP_GRAPHS_MAX; i++) {
        if (graphs->entries[i].graph != NULL) {
            device->backend->graph_destroy(device->queue, graphs->entries[i].graph);
        }
        graphs->entries[i] = (rank_step_graph){.used = 0};
    }
}
