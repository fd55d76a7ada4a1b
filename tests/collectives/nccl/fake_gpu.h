/* A GPU with CUDA and NCCL, in host memory: a thread for each stream does what was enqueued. Ranks
 * are threads; each uses a fake_gpu, which fails on demand. So the NCCL backend's own source runs
 * in tests on any machine. */
#ifndef TEST_COLL_FAKE_GPU_H
#define TEST_COLL_FAKE_GPU_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct fake_gpu {
    /* Faults. Groups of calls to NCCL are counted from 1, those of the first runs included. */
    int uuid;
    cudaError_t no_device;  /* what cudaSetDevice says */
    int malloc_fails_at;    /* the allocation, from 1; 0: none */
    ncclResult_t id_result; /* of ncclGetUniqueId */
    bool init_hangs;
    int group_fails_at; /* ncclGroupEnd says so */
    int async_error_at; /* ncclCommGetAsyncError says so */
    int group_hangs_at; /* it stays in progress */
    int run_hangs_at;   /* the stream stands still */
    bool finalize_hangs;

    cudaStream_t stream;
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

cudaStream_t fake_stream_create(void);
void fake_stream_destroy(cudaStream_t stream);

/* What is enqueued between the two is done with each launch instead. */
typedef struct fake_graph fake_graph;
void fake_capture_begin(cudaStream_t stream);
fake_graph *fake_capture_end(cudaStream_t stream);
void fake_graph_launch(fake_graph *graph, cudaStream_t stream);
void fake_graph_destroy(fake_graph *graph);

/* Between the files of the fake: something for the stream to do; `argument` is freed after. */
void fake_stream_enqueue(cudaStream_t stream, void (*run)(void *argument), void *argument);
fake_gpu *fake_gpu_now(void);
void fake_gpu_count(int change);

#endif
