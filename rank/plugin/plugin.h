/* Loads ringfence-cuda.so, behind the gate: the only way of a rank to code that reaches a GPU.
 *
 * First it loads the libraries that the plugin needs, each by its absolute path, from the first of
 * these places that has it: the directory of --cuda-libs; `cuda` beside the program; the dynamic
 * linker's cache; the directories where drivers and the toolkit are installed. So no library path
 * of the environment decides what runs. Then it loads the plugin, whose own references meet these
 * libraries, and refuses one of another version.
 *
 * One thread. Nothing is ever unloaded: CUDA's libraries have threads of their own. */
#ifndef RANK_PLUGIN_PLUGIN_H
#define RANK_PLUGIN_PLUGIN_H

#include "base/limits.h"
#include "base/status.h"
#include "rank/gate.h"

struct rank_cuda_plugin; /* backend/cuda/plugin.h */

typedef enum rank_library {
    RANK_LIBRARY_DRIVER, /* libcuda */
    RANK_LIBRARY_NVML,
    RANK_LIBRARY_CUBLASLT,
    RANK_LIBRARY_NCCL,
    RANK_LIBRARY_PLUGIN,
    RANK_LIBRARY_COUNT,
} rank_library;

/* What was loaded. */
typedef struct rank_plugin {
    const struct rank_cuda_plugin *table;
    char paths[RANK_LIBRARY_COUNT][BASE_PATH_BYTES]; /* "": not found, and not needed */
    int gpu_count;
} rank_plugin;

/* `pass` shows that the gate let this rank in. cuda_libs: a directory, or "" for none.
 *
 * BASE_ERR_UNSUPPORTED if there is no driver, no GPU or no plugin, BASE_ERR_MISMATCH if the plugin
 * is of another version, BASE_ERR_IO if a library cannot be loaded. */
BASE_MUST_CHECK base_status rank_plugin_load(const rank_pass *pass, const char *cuda_libs,
                                             rank_plugin *plugin, base_error *reterr);

/* Whether this host has the files of a plugin and a driver. Loads nothing, and so needs no pass.
 * BASE_ERR_UNSUPPORTED: one of them is missing, and rank_plugin_load would fail. */
BASE_MUST_CHECK base_status rank_plugin_look(const char *cuda_libs, base_error *reterr);

#endif
