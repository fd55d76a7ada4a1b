/* What Finished has of a device's memory. */
#ifndef RANK_WORKER_FINISHED_H
#define RANK_WORKER_FINISHED_H

#include "backend/memory_use.h"
#include "control.pb-c.h"

/* Storage of the message's rows. */
typedef struct rank_finished_memory {
    Ringfence__Control__MemoryUse rows[RANK_MEMORY_KINDS];
    Ringfence__Control__MemoryUse *row_at[RANK_MEMORY_KINDS];
} rank_finished_memory;

/* Puts the device's memory into the message: what was planned, and what the rank's queues have had at
 * most. A CPU has nothing to say. `memory` lives as long as the message. */
void rank_finished_put_memory(const rank_device *device, const rank_memory_use *planned,
                              uint64_t device_bytes, rank_finished_memory *memory,
                              Ringfence__Control__Finished *finished);

#endif
