/* Reports the use of a device's memory at a job's end. Called by train/ and generate/. */
#include "worker/finished.h"

void rank_finished_put_memory(const rank_device *device, const rank_memory_use *planned,
                              uint64_t device_bytes, rank_finished_memory *memory,
                              Ringfence__Control__Finished *finished)
{
    const rank_backend *backend = device->backend;
    rank_memory_use peak = {{0}};
    if (backend->memory_peak == NULL) {
        return;
    }
    backend->memory_peak(device->queue, &peak);
    for (int kind = 0; kind < RANK_MEMORY_HOST; kind++) {
        Ringfence__Control__MemoryUse *row = &memory->rows[kind];
        *row = (Ringfence__Control__MemoryUse)RINGFENCE__CONTROL__MEMORY_USE__INIT;
        row->purpose = (char *)(uintptr_t)rank_memory_name((rank_memory)kind);
        row->planned_bytes = planned->bytes[kind];
        row->peak_bytes = peak.bytes[kind];
        memory->row_at[kind] = row;
    }
    finished->n_memory = RANK_MEMORY_HOST;
    finished->memory = memory->row_at;
    const uint64_t free_bytes = backend->free_bytes(device->queue);
    finished->memory_used_bytes = device_bytes > free_bytes ? device_bytes - free_bytes : 0;
}
