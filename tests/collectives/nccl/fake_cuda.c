/* The fake GPU's memory, streams and events, and the backend's kernels in plain C. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fake_gpu.h"
#include "nccl/nccl_kernels.h"

enum { TASKS_MAX = 1024, RANKS_MAX = 8 };

typedef struct fake_task {
    void (*run)(void *argument);
    void *argument;
    bool keeps; /* the argument is a graph's */
} fake_task;

struct fake_graph {
    int count;
    fake_task tasks[TASKS_MAX];
};

struct fake_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    fake_task tasks[TASKS_MAX];
    uint64_t put;
    uint64_t done;
    bool ends;
    fake_graph *capture;
};

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
    struct fake_stream *stream = current != NULL ? current->stream : NULL;
    if (stream == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&stream->lock);
    while (stream->done < stream->put) {
        (void)pthread_cond_wait(&stream->changed, &stream->lock);
    }
    (void)pthread_mutex_unlock(&stream->lock);
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

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an error of the fake";
}

/* ---- streams ---- */

static void *run_stream(void *argument)
{
    struct fake_stream *stream = argument;
    (void)pthread_mutex_lock(&stream->lock);
    while (!stream->ends || stream->done < stream->put) {
        if (stream->done == stream->put) {
            (void)pthread_cond_wait(&stream->changed, &stream->lock);
            continue;
        }
        const fake_task task = stream->tasks[stream->done % TASKS_MAX];
        (void)pthread_mutex_unlock(&stream->lock);
        task.run(task.argument);
        if (!task.keeps) {
            free(task.argument);
        }
        (void)pthread_mutex_lock(&stream->lock);
        stream->done++;
        (void)pthread_cond_broadcast(&stream->changed);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return NULL;
}

cudaStream_t fake_stream_create(void)
{
    struct fake_stream *stream = calloc(1, sizeof *stream);
    BASE_ASSERT(stream != NULL);
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->changed, NULL);
    const int failed = pthread_create(&stream->thread, NULL, run_stream, stream);
    BASE_ASSERT(failed == 0);
    current->stream = stream;
    return stream;
}

void fake_stream_destroy(cudaStream_t stream)
{
    (void)pthread_mutex_lock(&stream->lock);
    stream->ends = true;
    (void)pthread_cond_broadcast(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
    (void)pthread_join(stream->thread, NULL);
    current->stream = NULL;
    (void)pthread_cond_destroy(&stream->changed);
    (void)pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static void put(cudaStream_t stream, fake_task task)
{
    (void)pthread_mutex_lock(&stream->lock);
    BASE_ASSERT(stream->put - stream->done < TASKS_MAX);
    stream->tasks[stream->put++ % TASKS_MAX] = task;
    (void)pthread_cond_broadcast(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
}

void fake_stream_enqueue(cudaStream_t stream, void (*run)(void *argument), void *argument)
{
    if (stream->capture == NULL) {
        put(stream, (fake_task){.run = run, .argument = argument});
        return;
    }
    BASE_ASSERT(stream->capture->count < TASKS_MAX);
    stream->capture->tasks[stream->capture->count++] =
        (fake_task){.run = run, .argument = argument, .keeps = true};
}

void fake_capture_begin(cudaStream_t stream)
{
    stream->capture = calloc(1, sizeof *stream->capture);
    BASE_ASSERT(stream->capture != NULL);
}

fake_graph *fake_capture_end(cudaStream_t stream)
{
    fake_graph *graph = stream->capture;
    stream->capture = NULL;
    return graph;
}

void fake_graph_launch(fake_graph *graph, cudaStream_t stream)
{
    for (int i = 0; i < graph->count; i++) {
        put(stream, graph->tasks[i]);
    }
}

void fake_graph_destroy(fake_graph *graph)
{
    for (int i = 0; i < graph->count; i++) {
        free(graph->tasks[i].argument);
    }
    free(graph);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    (void)pthread_mutex_lock(&stream->lock);
    const bool idle = stream->done == stream->put;
    (void)pthread_mutex_unlock(&stream->lock);
    return idle ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = stream->capture != NULL ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
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

/* A copy that its task frees. */
static void *keep(const void *argument, size_t size_bytes)
{
    void *kept = malloc(size_bytes);
    BASE_ASSERT(kept != NULL);
    memcpy(kept, argument, size_bytes);
    return kept;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size_bytes, cudaStream_t stream)
{
    const fill_task task = {memory, value, size_bytes};
    fake_stream_enqueue(stream, run_fill, keep(&task, sizeof task));
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
    BASE_ASSERT(stream->capture == NULL);
    fake_stream_enqueue(stream, run_event, keep(&task, sizeof task));
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

static float combine(float a, float b, coll_reduce reduce)
{
    return reduce == COLL_PRODUCT ? a * b : a + b;
}

static void run_tree(void *argument)
{
    const coll_nccl_tree *tree = argument;
    const float *parts = tree->parts;
    float *out = tree->out;
    for (size_t i = 0; i < tree->count; i++) {
        float v[RANKS_MAX];
        for (int rank = 0; rank < tree->ranks; rank++) {
            v[rank] = parts[(size_t)rank * tree->count + i];
        }
        for (int step = 1; step < tree->ranks; step *= 2) {
            for (int rank = 0; rank + step < tree->ranks; rank += 2 * step) {
                v[rank] = combine(v[rank], v[rank + step], tree->reduce);
            }
        }
        out[i] = tree->divisor > 1 ? v[0] / (float)tree->divisor : v[0];
    }
}

cudaError_t coll_nccl_tree_run(cudaStream_t stream, const coll_nccl_tree *tree)
{
    if (tree->type != COLL_FLOAT32) {
        return cudaErrorInvalidValue;
    }
    fake_stream_enqueue(stream, run_tree, keep(tree, sizeof *tree));
    return cudaSuccess;
}

static void run_count(void *argument)
{
    uint64_t *const *number = argument;
    (void)__atomic_fetch_add(*number, 1, __ATOMIC_SEQ_CST);
}

cudaError_t coll_nccl_count_run(cudaStream_t stream, uint64_t *number)
{
    fake_stream_enqueue(stream, run_count, keep(&number, sizeof number));
    return cudaSuccess;
}
