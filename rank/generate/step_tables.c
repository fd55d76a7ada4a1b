/* Packs a step's tables and copies them to the device. Called by engine.c and step_graphs.c. */
#include "generate/step_tables.h"

#include <string.h>

#include "base/assert.h"

static size_t bytes_max(const rank_step_tables_size *most)
{
    const size_t ints =
        3 * most->rows + most->sequences + 1 + most->sequences * (1 + most->table_width);
    return most->sequences * sizeof(rank_draw_row) + ints * sizeof(int32_t);
}

/* A backend that captures nothing runs steps on the host's memory. */
static bool copies(const rank_backend *backend)
{
    return backend->capture != NULL;
}

void rank_step_tables_plan(const rank_backend *backend, const rank_step_tables_size *most,
                           rank_memory_use *use)
{
    use->bytes[RANK_MEMORY_WORK] += copies(backend) ? bytes_max(most) : 0;
}

base_status rank_step_tables_create(rank_step_tables *tables, const rank_device *device,
                                    const rank_step_tables_size *most, base_error *reterr)
{
    const rank_backend *backend = device->backend;
    void *host = NULL;
    void *there = NULL;
    *tables = (rank_step_tables){.device = *device};
    if (!copies(backend)) {
        return BASE_OK;
    }
    base_status status =
        backend->alloc(device->queue, RANK_MEMORY_HOST, bytes_max(most), &host, reterr);
    if (status == BASE_OK) {
        status = backend->alloc(device->queue, RANK_MEMORY_WORK, bytes_max(most), &there, reterr);
    }
    tables->host = host;
    tables->there = there;
    return status;
}

void rank_step_tables_destroy(rank_step_tables *tables)
{
    if (tables->device.backend != NULL) {
        tables->device.backend->release(tables->device.queue, tables->host);
        tables->device.backend->release(tables->device.queue, tables->there);
    }
    *tables = (rank_step_tables){.host = NULL};
}

/* Puts `count` numbers behind what is there. Returns where the device will have them. */
static int32_t *put(rank_step_tables *tables, const int32_t *from, size_t count)
{
    int32_t *there = (int32_t *)(void *)(tables->there + tables->size_bytes);
    memcpy(tables->host + tables->size_bytes, from, count * sizeof *from);
    tables->size_bytes += count * sizeof *from;
    return there;
}

const rank_draw_row *rank_step_tables_place(rank_step_tables *tables, rank_decode_args *args,
                                            const rank_draw_row *draws)
{
    rank_rows *rows = &args->saved->rows;
    const size_t draw_bytes = rows->active_count * sizeof *draws;
    if (tables->host == NULL) {
        return draws;
    }
    BASE_ASSERT(rows->count > 0); /* an empty step is not computed */
    if (draws != NULL) {
        memcpy(tables->host, draws, draw_bytes);
    }
    tables->size_bytes = draw_bytes;
    rows->ids = put(tables, rows->ids, rows->count);
    rows->positions = put(tables, rows->positions, rows->count);
    rows->active = put(tables, rows->active, rows->active_count);
    rows->segment_start = put(tables, rows->segment_start, rows->segment_count + 1);
    args->lengths = put(tables, args->lengths, rows->segment_count);
    args->block_table = put(tables, args->block_table, rows->segment_count * args->table_width);
    return draws != NULL ? (const rank_draw_row *)(const void *)tables->there : NULL;
}

void rank_step_tables_copy(const rank_step_tables *tables)
{
    if (tables->host != NULL) {
        tables->device.backend->copy(tables->device.queue, tables->there, tables->host,
                                     tables->size_bytes);
    }
}
