/* Steps that are captured once and replayed. Called through cuda.c's table. */
#include <stdlib.h>

#include "backend/cuda/queue.h"
#include "base/status.h"

struct rank_graph {
    cudaGraphExec_t exec; /* NULL until capture_end */
};

/* Relaxed: NCCL allocates while its operations are captured, in this thread and in its own. */
base_status cuda_capture(rank_queue *queue, rank_graph **graph, base_error *reterr)
{
    *graph = NULL;
    if (queue->capturing != NULL) {
        return base_fail(reterr, BASE_ERR_STATE, "a queue captures one graph at a time");
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
