/* The fake GPU's memory, streams and events, and launches of the backend's kernels. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fake_common.h"
#include "fake_gpu.h"

struct fake_event {
    atomic_uint recorded;
    atomic_uint reached;
};

static atomic_int alive;
static _Thread_local fake_gpu *current;

void fake_gpu_use(fake_gpu *gpu)
{
    current = gpu;
}

fake_gpu *fake_gpu_now(void)
{
    return current;
}

int fake_gpu_alive(void)
{
    return atomic_load(&alive);
}

void fake_gpu_count(int change)
{
    (void)atomic_fetch_add(&alive, change);
}

/* As CUDA does before it frees: what was enqueued ends first. */
static void await_stream(void)
{
    if (current != NULL && current->stream != NULL) {
        fake_stream_await(current->stream);
    }
}

/* ---- devices and memory ---- */

cudaError_t cudaSetDevice(int device)
{
    (void)device;
    return current != NULL ? current->no_device : cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    (void)device;
    *properties = (struct cudaDeviceProp){.name = "fake GPU"};
    memcpy(properties->name, current->other_card ? "rare" : "fake", 4);
    memcpy(properties->uuid.bytes, &current->uuid, sizeof current->uuid);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t size_bytes)
{
    if (++current->mallocs == current->malloc_fails_at) {
        return cudaErrorMemoryAllocation;
    }
    *memory = malloc(size_bytes);
    BASE_ASSERT(*memory != NULL);
    memset(*memory, 0x5a, size_bytes);
    fake_gpu_count(1);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    await_stream();
    fake_gpu_count(memory != NULL ? -1 : 0);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t size_bytes, unsigned flags)
{
    (void)flags;
    return cudaMalloc(memory, size_bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the fake";
}

/* ---- streams ---- */

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return fake_stream_idle(stream) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = fake_stream_is_capturing(stream) ? cudaStreamCaptureStatusActive
                                               : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

typedef struct fill_task {
    void *memory;
    int value;
    size_t size_bytes;
} fill_task;

static void run_fill(void *argument)
{
    const fill_task *task = argument;
    memset(task->memory, task->value, task->size_bytes);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size_bytes, cudaStream_t stream)
{
    const fill_task task = {memory, value, size_bytes};
    fake_stream_enqueue(stream, run_fill, &task, sizeof task);
    return cudaSuccess;
}

typedef struct copy_task {
    void *to;
    const void *from;
    size_t size_bytes;
} copy_task;

static void run_copy(void *argument)
{
    const copy_task *task = argument;
    memcpy(task->to, task->from, task->size_bytes);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const copy_task task = {to, from, size_bytes};
    BASE_ASSERT(kind == cudaMemcpyDeviceToDevice);
    fake_stream_enqueue(stream, run_copy, &task, sizeof task);
    return cudaSuccess;
}

/* ---- events ---- */

typedef struct event_task {
    cudaEvent_t event;
    unsigned number;
} event_task;

static void run_event(void *argument)
{
    const event_task *task = argument;
    atomic_store(&task->event->reached, task->number);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    BASE_ASSERT(*event != NULL);
    fake_gpu_count(1);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    const event_task task = {event, atomic_fetch_add(&event->recorded, 1) + 1};
    BASE_ASSERT(!fake_stream_is_capturing(stream));
    fake_stream_enqueue(stream, run_event, &task, sizeof task);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return atomic_load(&event->reached) == atomic_load(&event->recorded) ? cudaSuccess
                                                                         : cudaErrorNotReady;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    await_stream();
    fake_gpu_count(-1);
    free(event);
    return cudaSuccess;
}

/* ---- the backend's kernels ---- */

static void run_tree(void *argument)
{
    fake_tree(argument);
}

cudaError_t coll_nccl_tree_run(cudaStream_t stream, const coll_nccl_tree *tree)
{
    if (!fake_tree_can(tree)) {
        return cudaErrorInvalidValue;
    }
    fake_stream_enqueue(stream, run_tree, tree, sizeof *tree);
    return cudaSuccess;
}

/* The device's clock: each look at it comes FAKE_TICK_NS after the one before. */
static uint64_t clock_ns(void)
{
    enum { FAKE_TICK_NS = 1000 };
    static uint64_t now_ns;
    return __atomic_add_fetch(&now_ns, FAKE_TICK_NS, __ATOMIC_SEQ_CST);
}

static void run_begin(void *argument)
{
    fake_begin(argument, clock_ns());
}

static void run_end(void *argument)
{
    fake_end(argument, clock_ns());
}

cudaError_t coll_nccl_begin_run(cudaStream_t stream, const coll_nccl_notes *notes)
{
    fake_stream_enqueue(stream, run_begin, notes, sizeof *notes);
    return cudaSuccess;
}

cudaError_t coll_nccl_end_run(cudaStream_t stream, const coll_nccl_notes *notes)
{
    fake_stream_enqueue(stream, run_end, notes, sizeof *notes);
    return cudaSuccess;
}
