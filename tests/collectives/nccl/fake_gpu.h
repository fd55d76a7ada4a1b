/* A GPU with CUDA and NCCL, in host memory; its streams are fake_streams. Ranks are
 * threads; each uses a fake_gpu, which fails on demand. So the NCCL backend's own source runs in
 * tests on any machine. */
#ifndef TEST_COLL_FAKE_GPU_H
#define TEST_COLL_FAKE_GPU_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "fake_stream.h"

typedef struct fake_gpu {
    /* Faults. Groups of calls to NCCL are counted from 1, those of the first runs included. */
    int uuid;
    bool other_card;
    cudaError_t no_device;  /* what cudaSetDevice says */
    int malloc_fails_at;    /* the allocation, from 1; 0: none */
    ncclResult_t id_result; /* of ncclGetUniqueId */
    bool init_hangs;
    int group_fails_at; /* ncclGroupEnd says so */
    int async_error_at; /* ncclCommGetAsyncError says so */
    int group_hangs_at; /* it stays in progress */
    int run_hangs_at;   /* the stream stands still */
    bool finalize_hangs;

    fake_stream *stream; /* the thread's own: what frees memory waits for it */
    int mallocs;
    int groups;
    atomic_int aborted;
    atomic_int destroyed;
} fake_gpu;

/* Of this thread, and of the streams and communicators that it makes. */
void fake_gpu_use(fake_gpu *gpu);

/* Allocations, events and communicators of all GPUs that are alive. */
int fake_gpu_alive(void);

/* Frees what communicators have left behind. No stream is left. */
void fake_nccl_reset(void);

/* Between the files of the fake. */
fake_gpu *fake_gpu_now(void);
void fake_gpu_count(int change);

#endif
