/* What ringfence-cuda.so offers: one symbol, a function that gives one table.
 *
 * rank loads the plugin behind the gate. It refuses a plugin whose numbers are not its own, because
 * the structs of one version mean nothing to another. */
#ifndef RANK_BACKEND_CUDA_PLUGIN_H
#define RANK_BACKEND_CUDA_PLUGIN_H

#include <stdint.h>

#include "backend/backend.h"

enum { RANK_CUDA_PLUGIN_ABI = 4 }; /* rises when this struct changes */

struct coll_backend;

/* What the record has of a rank's GPU. */
typedef struct rank_gpu_info {
    char name[64]; /* "NVIDIA H200" */
    char uuid[48]; /* "GPU-…" */
    char pci[16];  /* the kernel's name of it: "0000:19:00.0" */
    uint64_t memory_bytes;
    int driver; /* the driver's newest CUDA, as 13000 */
    int nccl;   /* NCCL's version, as 22809; 0: built without it */
} rank_gpu_info;

typedef struct rank_cuda_plugin {
    uint32_t abi;                        /* RANK_CUDA_PLUGIN_ABI */
    uint32_t size_bytes;                 /* of this struct */
    uint32_t backend_abi;                /* RANK_BACKEND_ABI */
    const char *version;                 /* Ringfence's, and CUDA's: for the record */
    const rank_backend *const *backends; /* NULL ends them */
    /* How many GPUs there are, at least 1. BASE_ERR_UNSUPPORTED without a driver or a GPU. */
    base_status (*count_gpus)(int *count, base_error *reterr);
    /* The GPU of this thread's queues that are opened from now on. */
    base_status (*use_gpu)(int index, base_error *reterr);
    /* Does not use it: no context is made. */
    base_status (*describe_gpu)(int index, rank_gpu_info *info, base_error *reterr);
    const struct coll_backend *collectives; /* NULL: built without NCCL */
} rank_cuda_plugin;

/* The symbol, by its name and its type. */
#define RANK_CUDA_PLUGIN_SYMBOL "rank_cuda_plugin_get"
typedef const rank_cuda_plugin *(*rank_cuda_plugin_getter)(void);

const rank_cuda_plugin *rank_cuda_plugin_get(void);

#endif
