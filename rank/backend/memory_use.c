/* Adds up a device's memory, and refuses what does not fit. Called by train/ and generate/ before
 * they allocate. */
#include "backend/memory_use.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/status.h"

uint64_t rank_memory_total(const rank_memory_use *use)
{
    uint64_t total = 0;
    for (int kind = 0; kind < RANK_MEMORY_HOST; kind++) {
        total += use->bytes[kind];
    }
    return total;
}

/* "weights 1882112, optimizer 3764224, …": all but the host's, also those of 0 bytes. */
static void write_text(const rank_memory_use *use, char text[RANK_MEMORY_TEXT_BYTES])
{
    size_t length = 0;
    for (int kind = 0; kind < RANK_MEMORY_HOST && length < RANK_MEMORY_TEXT_BYTES; kind++) {
        length += (size_t)snprintf(text + length, RANK_MEMORY_TEXT_BYTES - length, "%s%s %" PRIu64,
                                   kind > 0 ? ", " : "", rank_memory_name((rank_memory)kind),
                                   use->bytes[kind]);
    }
}

base_status rank_memory_check(const rank_device *device, const char *what,
                              const rank_memory_use *needed, uint64_t collectives_bytes,
                              base_error *reterr)
{
    char text[RANK_MEMORY_TEXT_BYTES];
    char more[RANK_MEMORY_TEXT_BYTES] = "";
    if (device->backend->free_bytes == NULL) {
        return BASE_OK;
    }
    const uint64_t free_bytes = device->backend->free_bytes(device->queue);
    const uint64_t total = rank_memory_total(needed) + collectives_bytes;
    if (total <= free_bytes) {
        return BASE_OK;
    }
    write_text(needed, text);
    if (collectives_bytes > 0) {
        (void)snprintf(more, sizeof more, ", collectives %" PRIu64, collectives_bytes);
    }
    return base_fail(reterr, BASE_ERR_MEMORY,
                     "%s needs %" PRIu64 " bytes of the GPU's memory, and %" PRIu64
                     " are free: %s%s",
                     what, total, free_bytes, text, more);
}
