/* The plugin's only symbol. rank finds it by name after dlopen. */
#include "backend/cuda/plugin.h"

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdio.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/queue.h"
#include "base/status.h"

#ifdef RINGFENCE_NCCL
#include "coll/nccl.h"
#define COLLECTIVES &coll_nccl_backend
#define NCCL_FOUND  coll_nccl_version()
#else
#define COLLECTIVES NULL
#define NCCL_FOUND  0
#endif

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

static const rank_backend *const backends[] = {&rank_cuda_backend, &rank_cuda_exact_backend,
                                               &rank_cuda_tf32_backend, NULL};

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

/* The text of a UUID, as NVIDIA's tools print it. */
static void uuid_text(const char *bytes, char text[sizeof((rank_gpu_info *)0)->uuid])
{
    const unsigned char *b = (const unsigned char *)bytes;
    (void)snprintf(text, sizeof((rank_gpu_info *)0)->uuid,
                   "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
}

static base_status describe_gpu(int index, rank_gpu_info *info, base_error *reterr)
{
    struct cudaDeviceProp found;
    *info = (rank_gpu_info){.name = ""};
    cudaError_t error = cudaGetDeviceProperties(&found, index);
    if (error == cudaSuccess) {
        error = cudaDriverGetVersion(&info->driver);
    }
    if (error != cudaSuccess) {
        return cuda_explain(error, "looking at a GPU", reterr);
    }
    (void)snprintf(info->name, sizeof info->name, "%.63s", found.name);
    uuid_text(found.uuid.bytes, info->uuid);
    (void)snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.0", (unsigned)found.pciDomainID,
                   (unsigned)found.pciBusID, (unsigned)found.pciDeviceID);
    info->memory_bytes = found.totalGlobalMem;
    info->nccl = NCCL_FOUND;
    return BASE_OK;
}

static const rank_cuda_plugin plugin = {
    .abi = RANK_CUDA_PLUGIN_ABI,
    .size_bytes = sizeof plugin,
    .backend_abi = RANK_BACKEND_ABI,
    .version = "CUDA " TEXT(CUDART_VERSION),
    .backends = backends,
    .count_gpus = count_gpus,
    .use_gpu = use_gpu,
    .describe_gpu = describe_gpu,
    .collectives = COLLECTIVES,
};

__attribute__((visibility("default"))) const rank_cuda_plugin *rank_cuda_plugin_get(void)
{
    return &plugin;
}
