/* Loads ringfence-cuda.so into a test program. Such a program is no rank: it passes no gate, and
 * spends nothing. */
#ifndef GPU_PLUGIN_OPEN_H
#define GPU_PLUGIN_OPEN_H

#include "backend/cuda/plugin.h"

typedef struct gpu_plugin {
    void *handle; /* of dlopen: what the plugin is linked with can be looked up in it */
    const rank_cuda_plugin *table;
} gpu_plugin;

/* Loads CUDA's libraries as the rank does, and then the plugin at `path`. BASE_ERR_UNSUPPORTED: it
 * cannot be loaded here, or there is no driver or GPU. BASE_ERR_MISMATCH: it is of another version.
 * It stays loaded until the process ends. */
BASE_MUST_CHECK base_status gpu_plugin_open(const char *path, gpu_plugin *plugin,
                                            base_error *reterr);

/* The plugin's backend of this name. */
BASE_MUST_CHECK base_status gpu_plugin_backend(const gpu_plugin *plugin, const char *name,
                                               const rank_backend **backend, base_error *reterr);

#endif
