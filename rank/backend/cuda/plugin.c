/* The plugin's only symbol. rank finds it by name after dlopen. */
#include "backend/cuda/plugin.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/queue.h"
#include "base/status.h"

#ifdef RINGFENCE_NCCL
#include "coll/nccl.h"
#define COLLECTIVES &coll_nccl_backend
#else
#define COLLECTIVES NULL
#endif

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

static const rank_backend *const backends[] = {&rank_cuda_backend, &rank_cuda_exact_backend, NULL};

static base_status count_gpus(int *count, base_error *reterr)
{
    const cudaError_t error = cudaGetDeviceCount(count);
    if (error != cudaSuccess) {
        return cuda_explain(error, "looking for GPUs", reterr);
    }
    return *count > 0 ? BASE_OK : base_fail(reterr, BASE_ERR_UNSUPPORTED, "CUDA: there is no GPU");
}

static base_status use_gpu(int index, base_error *reterr)
{
    const cudaError_t error = cudaSetDevice(index);
    return error == cudaSuccess ? BASE_OK : cuda_explain(error, "choosing a GPU", reterr);
}

static const rank_cuda_plugin plugin = {
    .abi = RANK_CUDA_PLUGIN_ABI,
    .size_bytes = sizeof plugin,
    .backend_abi = RANK_BACKEND_ABI,
    .version = "CUDA " TEXT(CUDART_VERSION),
    .backends = backends,
    .count_gpus = count_gpus,
    .use_gpu = use_gpu,
    .collectives = COLLECTIVES,
};

__attribute__((visibility("default"))) const rank_cuda_plugin *rank_cuda_plugin_get(void)
{
    return &plugin;
}
