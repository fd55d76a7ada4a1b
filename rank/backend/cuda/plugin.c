/* The plugin's only symbol. rank finds it by name after dlopen. */
#include "backend/cuda/plugin.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "backend/cuda/cuda.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

static const rank_backend *const backends[] = {&rank_cuda_backend, &rank_cuda_exact_backend, NULL};

static const rank_cuda_plugin plugin = {
    .abi = RANK_CUDA_PLUGIN_ABI,
    .size_bytes = sizeof plugin,
    .backend_abi = RANK_BACKEND_ABI,
    .version = "CUDA " TEXT(CUDART_VERSION),
    .backends = backends,
};

__attribute__((visibility("default"))) const rank_cuda_plugin *rank_cuda_plugin_get(void)
{
    return &plugin;
}
