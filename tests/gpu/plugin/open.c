/* Loads ringfence-cuda.so into a test program. Called by gpu-parity and gpu-measure. */
#include "open.h"

#include <dlfcn.h>
#include <string.h>

#include "plugin/find.h"

/* As the rank does it. What is missing is named when the plugin is loaded. */
static void preload(void)
{
    static const char *const names[] = {"libcuda.so.1", "libnvidia-ml.so.1", "libcublasLt.so.13",
                                        "libcublasLt.so.12", "libnccl.so.2"};
    char path[BASE_PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (rank_find_library("", names[i], path)) {
            (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
    }
}

base_status gpu_plugin_open(const char *path, gpu_plugin *plugin, base_error *reterr)
{
    rank_cuda_plugin_getter get = NULL;
    int gpus = 0;
    preload();
    plugin->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin->handle == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s", dlerror());
    }
    *(void **)&get = dlsym(plugin->handle, RANK_CUDA_PLUGIN_SYMBOL); /* as POSIX has it */
    if (get == NULL || get()->abi != RANK_CUDA_PLUGIN_ABI ||
        get()->backend_abi != RANK_BACKEND_ABI) {
        return base_fail(reterr, BASE_ERR_MISMATCH, "%s is of another version", path);
    }
    plugin->table = get();
    return plugin->table->count_gpus(&gpus, reterr);
}

base_status gpu_plugin_backend(const gpu_plugin *plugin, const char *name,
                               const rank_backend **backend, base_error *reterr)
{
    for (int i = 0; plugin->table->backends[i] != NULL; i++) {
        *backend = plugin->table->backends[i];
        if (strcmp((*backend)->name, name) == 0) {
            return BASE_OK;
        }
    }
    return base_fail(reterr, BASE_ERR_NOTFOUND, "the plugin has no backend %s", name);
}
