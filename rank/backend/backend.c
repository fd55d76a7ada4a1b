/* The table of backends. train/, generate/ and bench/ open theirs by name. */
#include "backend/backend.h"

#include <string.h>

#include "backend/cpu/cpu.h"

static const rank_backend *const built_in[] = {&rank_cpu_backend, NULL};

base_status rank_device_open(const char *name, rank_device *device, base_error *reterr)
{
    return rank_device_open_of(built_in, name, device, reterr);
}

base_status rank_device_open_of(const rank_backend *const *backends, const char *name,
                                rank_device *device, base_error *reterr)
{
    *device = (rank_device){.backend = NULL};
    for (size_t i = 0; backends[i] != NULL; i++) {
        if (strcmp(backends[i]->name, name) == 0) {
            device->backend = backends[i];
            return backends[i]->open(&device->queue, reterr);
        }
    }
    return base_fail(reterr, BASE_ERR_NOTFOUND, "there is no backend %s", name);
}

void rank_device_close(rank_device *device)
{
    if (device->backend != NULL) {
        device->backend->close(device->queue);
    }
    *device = (rank_device){.backend = NULL};
}
