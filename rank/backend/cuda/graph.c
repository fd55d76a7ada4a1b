/* Steps that are captured once and replayed, and signals between them. Called through cuda.c's
 * table. */
#include <math.h>
#include <stdlib.h>

#include "backend/cuda/queue.h"
#include "base/status.h"

struct rank_graph {
    cudaGraphExec_t exec; /* NULL until capture_end */
};

struct rank_signal {
    cudaEvent_t event;
};

/* Relaxed: NCCL allocates while its operations are captured, in this thread and in its own. */
base_status cuda_capture(rank_queue *queue, rank_graph **graph, base_error *reterr)
{
    *graph = NULL;
    if (queue->capturing != NULL) {
        return base_fail(reterr, BASE_ERR_STATE, "a queue captures one graph at a time");
    }
    if (queue->failed != BASE_OK) { /* not the capture's; sync reports it */
        if (reterr != NULL) {
            *reterr = queue->error;
        }
        return queue->failed;
    }
    rank_graph *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a graph");
    }
    const cudaError_t error = cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeRelaxed);
    if (error != cudaSuccess) {
        (void)cudaGetLastError(); /* reported here, and not by the next operation */
        free(made);
        return cuda_explain(error, "beginning a capture", reterr);
    }
    queue->capturing = made;
    *graph = made;
    return BASE_OK;
}

/* What failed while operations were captured is reported here, and there is no graph then. */
base_status cuda_capture_end(rank_queue *queue, base_error *reterr)
{
    rank_graph *made = queue->capturing;
    cudaGraph_t captured = NULL;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_STATE, "this queue captures nothing");
    }
    queue->capturing = NULL;
    (void)cuda_check(queue, cudaStreamEndCapture(queue->stream, &captured), "ending a capture");
    if (queue->failed == BASE_OK) {
        (void)cuda_check(queue, cudaGraphInstantiate(&made->exec, captured, 0), "making a graph");
    }
    if (captured != NULL) {
        (void)cudaGraphDestroy(captured);
    }
    const base_status status = queue->failed;
    if (status != BASE_OK) {
        (void)cudaGetLastError();
    }
    if (status != BASE_OK && reterr != NULL) {
        *reterr = queue->error;
    }
    queue->failed = BASE_OK;
    return status;
}

void cuda_replay(rank_queue *queue, rank_graph *graph)
{
    if (graph->exec == NULL) {
        cuda_fail(queue, BASE_ERR_STATE, "a graph that was not captured to its end");
    }
    if (queue->failed == BASE_OK) {
        (void)cuda_check(queue, cudaGraphLaunch(graph->exec, queue->stream), "replaying a graph");
    }
}

/* CUDA keeps a graph under way until it has run. */
void cuda_graph_destroy(rank_queue *queue, rank_graph *graph)
{
    (void)queue;
    if (graph != NULL && graph->exec != NULL) {
        (void)cudaGraphExecDestroy(graph->exec);
    }
    free(graph);
}

base_status cuda_signal_open(rank_queue *queue, bool timed, rank_signal **signal,
                             base_error *reterr)
{
    (void)queue;
    *signal = NULL;
    rank_signal *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a signal");
    }
    const cudaError_t error =
        cudaEventCreateWithFlags(&made->event, timed ? cudaEventDefault : cudaEventDisableTiming);
    if (error != cudaSuccess) {
        free(made);
        return cuda_explain(error, "making an event", reterr);
    }
    *signal = made;
    return BASE_OK;
}

void cuda_signal_close(rank_signal *signal)
{
    if (signal != NULL) {
        (void)cudaEventDestroy(signal->event);
        free(signal);
    }
}

/* In a graph the event is a node that records or awaits it at each replay. Without the flag it would
 * only say what the captured streams have to do with each other. */
void cuda_signal_set(rank_queue *queue, rank_signal *signal)
{
    const unsigned flags =
        queue->capturing != NULL ? cudaEventRecordExternal : cudaEventRecordDefault;
    if (queue->failed == BASE_OK) {
        (void)cuda_check(queue, cudaEventRecordWithFlags(signal->event, queue->stream, flags),
                         "setting a signal");
    }
}

void cuda_signal_await(rank_queue *queue, rank_signal *signal)
{
    const unsigned flags = queue->capturing != NULL ? cudaEventWaitExternal : cudaEventWaitDefault;
    if (queue->failed == BASE_OK) {
        (void)cuda_check(queue, cudaStreamWaitEvent(queue->stream, signal->event, flags),
                         "waiting for a signal");
    }
}

/* The driver's figure is in milliseconds, with the precision of a float. */
int64_t cuda_signal_elapsed_ns(const rank_signal *from, const rank_signal *to)
{
    float ms = 0.0f;
    if (cudaEventElapsedTime(&ms, from->event, to->event) != cudaSuccess) {
        (void)cudaGetLastError(); /* one was never passed: of no other call */
        return -1;
    }
    return llround((double)ms * 1e6);
}
