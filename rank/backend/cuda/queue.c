/* Queues of the CUDA backend: streams, marks, and the first error. Called through cuda.c's table. */
#include "backend/cuda/queue.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/cuda/kernels/kernels.h"
#include "base/status.h"

static base_status status_of(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation:
        return BASE_ERR_MEMORY;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorNoKernelImageForDevice:
        return BASE_ERR_UNSUPPORTED;
    default:
        return BASE_ERR_IO;
    }
}

base_status cuda_explain(cudaError_t error, const char *what, base_error *reterr)
{
    return base_fail(reterr, status_of(error), "CUDA: %s: %s (%s, error %d)", what,
                     cudaGetErrorString(error), cudaGetErrorName(error), (int)error);
}

bool cuda_check(rank_queue *queue, cudaError_t error, const char *what)
{
    if (error != cudaSuccess && queue->failed == BASE_OK) {
        queue->failed = cuda_explain(error, what, &queue->error);
    }
    if (error == cudaSuccess) {
        cuda_pace_keep(queue);
    }
    return error == cudaSuccess;
}

void cuda_fail(rank_queue *queue, base_status status, const char *message)
{
    if (queue->failed == BASE_OK) {
        queue->failed = base_fail(&queue->error, status, "CUDA: %s", message);
    }
}

/* What the record has of this queue's arithmetic. */
static void name_kernels(rank_queue *made)
{
    int major = 0;
    int minor = 0;
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, made->device);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, made->device);
    if (made->lt != NULL) {
        (void)snprintf(made->kernels, sizeof made->kernels, "cuda-sm%d%d-cublaslt-%zu%s", major,
                       minor, cublasLtGetVersion(), made->tf32 ? "-tf32" : "");
    } else {
        (void)snprintf(made->kernels, sizeof made->kernels, "cuda-sm%d%d-exact", major, minor);
    }
}

/* Who computes products, and how. */
typedef enum cuda_products {
    CUDA_PRODUCTS_EXACT, /* our own kernels */
    CUDA_PRODUCTS_FLOAT32,
    CUDA_PRODUCTS_TF32,
} cuda_products;

static base_status fill(rank_queue *made, cuda_products products, base_error *reterr)
{
    void *partials = NULL;
    cudaError_t error = cudaGetDevice(&made->device);
    if (error == cudaSuccess) {
        error = cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking);
    }
    if (error == cudaSuccess) {
        error = cudaHostAlloc(&made->staging, CUDA_STAGING_BYTES, cudaHostAllocDefault);
    }
    if (error == cudaSuccess) {
        error = cudaMalloc(&partials, CUDA_SCRATCH_BYTES);
    }
    made->partials = partials;
    if (partials != NULL) {
        cuda_count_memory(RANK_MEMORY_QUEUES, CUDA_SCRATCH_BYTES);
        made->counts = (unsigned *)(made->partials + CUDA_PARTIALS);
        error = cudaMemsetAsync(made->counts, 0, CUDA_COUNTS * sizeof *made->counts, made->stream);
    }
    for (int i = 0; error == cudaSuccess && i < CUDA_EVENTS; i++) {
        error = cudaEventCreateWithFlags(&made->events[i], cudaEventDisableTiming);
    }
    if (error == cudaSuccess) {
        error = cuda_pace_open(made);
    }
    if (error != cudaSuccess) {
        return cuda_explain(error, "opening a queue", reterr);
    }
    made->tf32 = products == CUDA_PRODUCTS_TF32;
    const base_status status =
        products != CUDA_PRODUCTS_EXACT ? cuda_lt_open(made, reterr) : BASE_OK;
    name_kernels(made);
    return status;
}

static base_status open_queue(cuda_products products, rank_queue **queue, base_error *reterr)
{
    *queue = NULL;
    rank_queue *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a queue");
    }
    const base_status status = fill(made, products, reterr);
    if (status != BASE_OK) {
        cuda_close(made);
        return status;
    }
    *queue = made;
    return BASE_OK;
}

base_status cuda_open_exact(rank_queue **queue, base_error *reterr)
{
    return open_queue(CUDA_PRODUCTS_EXACT, queue, reterr);
}

base_status cuda_open_fast(rank_queue **queue, base_error *reterr)
{
    return open_queue(CUDA_PRODUCTS_FLOAT32, queue, reterr);
}

base_status cuda_open_tf32(rank_queue **queue, base_error *reterr)
{
    return open_queue(CUDA_PRODUCTS_TF32, queue, reterr);
}

void cuda_close(rank_queue *queue)
{
    if (queue == NULL) {
        return;
    }
    cuda_lt_close(queue);
    cuda_pace_close(queue);
    for (int i = 0; i < CUDA_EVENTS; i++) {
        if (queue->events[i] != NULL) {
            (void)cudaEventDestroy(queue->events[i]);
        }
    }
    if (queue->partials != NULL) {
        cuda_count_memory(RANK_MEMORY_QUEUES, -(int64_t)CUDA_SCRATCH_BYTES);
    }
    (void)cudaFree(queue->partials);
    (void)cudaFreeHost(queue->staging);
    if (queue->stream != NULL) {
        (void)cudaStreamDestroy(queue->stream);
    }
    free(queue);
}

void cuda_info(rank_queue *queue, rank_backend_info *info)
{
    *info = (rank_backend_info){.kernels = queue->kernels, .products = queue->products};
}

void cuda_set_waiter(rank_queue *queue, rank_waiter waiter, void *user)
{
    queue->waiter = waiter;
    queue->waiter_user = user;
}

bool cuda_await(rank_queue *queue)
{
    base_error error;
    if (queue->waiter != NULL) {
        const base_status status = queue->waiter(queue->waiter_user, queue, &error);
        if (status != BASE_OK) {
            if (queue->failed == BASE_OK) {
                queue->failed = status;
                queue->error = error;
            }
            return false;
        }
    }
    return cuda_check(queue, cudaStreamSynchronize(queue->stream), "running operations");
}

base_status cuda_sync(rank_queue *queue, base_error *reterr)
{
    if (queue->failed == BASE_OK && queue->capturing != NULL) {
        cuda_fail(queue, BASE_ERR_STATE, "a queue that captures cannot be waited for");
    }
    if (queue->failed == BASE_OK) {
        (void)cuda_await(queue);
    }
    const base_status status = queue->failed;
    if (status != BASE_OK && reterr != NULL) {
        *reterr = queue->error;
    }
    queue->failed = BASE_OK;
    return status;
}

void *cuda_stream(rank_queue *queue)
{
    return queue->stream;
}

/* The value is the event's address. An event that is used anew means a later point of its queue, so
 * whoever waits for an old mark waits too long, never too short. */
rank_mark cuda_mark(rank_queue *queue)
{
    cudaEvent_t event = queue->events[queue->next_event++ % CUDA_EVENTS];
    if (queue->failed == BASE_OK) {
        (void)cuda_check(queue, cudaEventRecord(event, queue->stream), "recording an event");
    }
    return (rank_mark){(uint64_t)(uintptr_t)event};
}

void cuda_after(rank_queue *queue, rank_mark mark)
{
    if (queue->failed == BASE_OK && mark.value != 0) {
        (void)cuda_check(queue,
                         cudaStreamWaitEvent(queue->stream, (cudaEvent_t)(uintptr_t)mark.value, 0),
                         "waiting for an event");
    }
}
