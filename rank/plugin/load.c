/* Loads the plugin and what it needs. The only object that calls dlopen. Called by modes that may
 * cost money, which have a pass; and by rank --check, which only looks. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/cuda/plugin.h"
#include "base/assert.h"
#include "plugin/find.h"
#include "plugin/plugin.h"

/* A library by its names, the best first. They are those that the plugin may have been linked with. */
typedef struct library {
    const char *names[3];
    bool needed;
} library;

static const library libraries[RANK_LIBRARY_PLUGIN] = {
    [RANK_LIBRARY_DRIVER] = {.names = {"libcuda.so.1"}, .needed = true}, /* no other is */
    [RANK_LIBRARY_NVML] = {.names = {"libnvidia-ml.so.1"}},
    [RANK_LIBRARY_CUBLASLT] = {.names = {"libcublasLt.so.13", "libcublasLt.so.12"}},
    [RANK_LIBRARY_NCCL] = {.names = {"libnccl.so.2"}},
};

static base_status open_file(const char *path, void **handle, base_error *reterr)
{
    *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return *handle != NULL ? BASE_OK : base_fail(reterr, BASE_ERR_IO, "%s", dlerror());
}

static base_status no_driver(base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                     "no NVIDIA driver: %s is neither in --cuda-libs, nor in cuda/ beside the "
                     "program, nor in the linker's cache, nor where drivers are",
                     libraries[RANK_LIBRARY_DRIVER].names[0]);
}

/* Opens each version that is found: the plugin needs one of them, by its name. The path is the
 * first's. A library that is not needed and not there is left out. The plugin's own loading then says if it
 * was needed after all. */
static base_status preload(rank_library which, const char *cuda_libs, rank_plugin *plugin,
                           base_error *reterr)
{
    const library *wanted = &libraries[which];
    char *path = plugin->paths[which];
    char at[BASE_PATH_BYTES];
    void *handle = NULL;
    bool found = false;
    base_status status = BASE_OK;
    for (size_t i = 0; i < 3 && wanted->names[i] != NULL; i++) {
        if (!rank_find_library(cuda_libs, wanted->names[i], at)) {
            continue;
        }
        found = true;
        const base_status opened = open_file(at, &handle, reterr);
        if (opened == BASE_OK && path[0] == '\0') {
            (void)snprintf(path, BASE_PATH_BYTES, "%s", at);
        }
        status = opened == BASE_OK ? status : opened;
    }
    if (found) {
        return path[0] != '\0' ? BASE_OK : status;
    }
    return wanted->needed ? no_driver(reterr) : BASE_OK;
}

/* The plugin is installed with the program: PREFIX/bin/rank, PREFIX/lib/ringfence. */
static base_status find_plugin(char path[BASE_PATH_BYTES], base_error *reterr)
{
    static const char *const beside[] = {"../lib/ringfence", "../" RANK_PLUGIN_LIBDIR "/ringfence",
                                         "cuda"};
    char origin[BASE_PATH_BYTES];
    if (!rank_find_origin(origin)) {
        return base_fail(reterr, BASE_ERR_IO, "cannot read /proc/self/exe");
    }
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        const int length =
            snprintf(path, BASE_PATH_BYTES, "%s/%s/ringfence-cuda.so", origin, beside[i]);
        if (length < BASE_PATH_BYTES && access(path, R_OK) == 0) {
            return BASE_OK;
        }
    }
    path[0] = '\0';
    return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                     "this Ringfence was built without CUDA: there is no ringfence-cuda.so beside "
                     "%s",
                     origin);
}

base_status rank_plugin_look(const char *cuda_libs, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const base_status status = find_plugin(path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    return rank_find_library(cuda_libs, libraries[RANK_LIBRARY_DRIVER].names[0], path)
               ? BASE_OK
               : no_driver(reterr);
}

static base_status check_table(const rank_cuda_plugin *table, base_error *reterr)
{
    if (table->abi != RANK_CUDA_PLUGIN_ABI || table->size_bytes != sizeof *table ||
        table->backend_abi != RANK_BACKEND_ABI) {
        return base_fail(reterr, BASE_ERR_MISMATCH,
                         "it is of another version: numbers %u and %u, here they are %d and %d",
                         table->abi, table->backend_abi, RANK_CUDA_PLUGIN_ABI, RANK_BACKEND_ABI);
    }
    return BASE_OK;
}

static base_status open_plugin(rank_plugin *plugin, base_error *reterr)
{
    void *handle = NULL;
    rank_cuda_plugin_getter get = NULL;
    base_status status = open_file(plugin->paths[RANK_LIBRARY_PLUGIN], &handle, reterr);
    if (status != BASE_OK) {
        return status;
    }
    *(void **)&get = dlsym(handle, RANK_CUDA_PLUGIN_SYMBOL); /* as POSIX has it */
    if (get == NULL) {
        return base_fail(reterr, BASE_ERR_MISMATCH, "it has no " RANK_CUDA_PLUGIN_SYMBOL);
    }
    plugin->table = get();
    status = check_table(plugin->table, reterr);
    return status == BASE_OK ? plugin->table->count_gpus(&plugin->gpu_count, reterr) : status;
}

static base_status load(const char *cuda_libs, rank_plugin *plugin, base_error *reterr)
{
    base_status status = find_plugin(plugin->paths[RANK_LIBRARY_PLUGIN], reterr);
    for (rank_library i = 0; status == BASE_OK && i < RANK_LIBRARY_PLUGIN; i++) {
        status = preload(i, cuda_libs, plugin, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    status = open_plugin(plugin, reterr);
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, status, "%s", plugin->paths[RANK_LIBRARY_PLUGIN]);
}

base_status rank_plugin_load(const rank_pass *pass, const char *cuda_libs, rank_plugin *plugin,
                             base_error *reterr)
{
    BASE_ASSERT(pass != NULL);
    memset(plugin, 0, sizeof *plugin);
    const base_status status = load(cuda_libs, plugin, reterr);
    if (status != BASE_OK) {
        plugin->table = NULL;
    }
    return status;
}
