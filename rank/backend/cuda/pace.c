/* Keeps the host from going far ahead of the device. The driver's queue of launches holds about a
 * thousand; a launch into a full one waits in the driver, where no deadline of ours holds. Behind a
 * kernel that never ends that would be for ever. Called by queue.c.
 *
 * An event is recorded behind each OPERATIONS operations. Before it is recorded anew, which is twice
 * as many operations later, it has to have passed. So at most 2 · OPERATIONS operations are under way.
 * Each is of a few launches. Not counted are those of collectives, which others enqueue on the stream.
 * Each all-reduce of a bucket comes behind one operation that is counted, the wait for the bucket's
 * signal, and has about seven launches: of NCCL's two phases, our kernels around them, and an event.
 * That makes eight, so 512 at most. */
#include <unistd.h>

#include "backend/cuda/queue.h"
#include "base/clock.h"

enum {
    OPERATIONS = 32,
    POLL_US = 20,
    PATIENCE_S = 1, /* then the waiter waits for all that is enqueued, with its deadline */
};

cudaError_t cuda_pace_open(rank_queue *queue)
{
    cudaError_t error = cudaSuccess;
    for (int i = 0; error == cudaSuccess && i < 2; i++) {
        error = cudaEventCreateWithFlags(&queue->pace.events[i], cudaEventDisableTiming);
    }
    return error;
}

void cuda_pace_close(rank_queue *queue)
{
    for (int i = 0; i < 2; i++) {
        if (queue->pace.events[i] != NULL) {
            (void)cudaEventDestroy(queue->pace.events[i]);
        }
    }
}

/* What a stream that is captured gets runs later; and an event of it cannot be asked. */
static bool is_captured(const rank_queue *queue)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    return queue->capturing != NULL ||
           cudaStreamIsCapturing(queue->stream, &status) != cudaSuccess ||
           status != cudaStreamCaptureStatusNone;
}

static void await_event(rank_queue *queue, cudaEvent_t event)
{
    const int64_t until_ns = base_deadline_after_ns(PATIENCE_S * BASE_NS_PER_S);
    cudaError_t error = cudaEventQuery(event);
    while (error == cudaErrorNotReady && base_now_ns() < until_ns) {
        (void)cudaGetLastError(); /* it is none */
        (void)usleep(POLL_US);
        error = cudaEventQuery(event);
    }
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* it is none */
        (void)cuda_await(queue);
    } else {
        (void)cuda_check(queue, error, "running operations");
    }
}

void cuda_pace_keep(rank_queue *queue)
{
    cuda_pace *pace = &queue->pace;
    if (++pace->operations < OPERATIONS || queue->failed != BASE_OK) {
        return;
    }
    pace->operations = 0; /* what follows keeps no pace */
    if (is_captured(queue)) {
        return;
    }
    cudaEvent_t event = pace->events[pace->recorded % 2];
    if (pace->recorded >= 2) {
        await_event(queue, event);
    }
    if (queue->failed == BASE_OK &&
        cuda_check(queue, cudaEventRecord(event, queue->stream), "recording an event")) {
        pace->recorded++;
    }
}
