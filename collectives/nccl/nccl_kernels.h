/* The kernels of the NCCL backend, as C sees them: nccl_kernels.cu. */
#ifndef COLL_NCCL_KERNELS_H
#define COLL_NCCL_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "coll/coll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `ranks` vectors of `count` elements, one behind the other, are combined into `out` as a balanced
 * tree over the ranks: neighbours pair up, level by level, and one left over waits for the next
 * level. 16-bit floats are widened, and rounded once. AVERAGE divides once, at the end. The same
 * bits as on the CPU. SUM, PRODUCT and AVERAGE of every coll_type. */
typedef struct coll_nccl_tree {
    const void *parts;
    void *out;
    size_t count;
    int ranks;
    coll_type type;
    coll_reduce_op reduce;
    int divisor; /* of AVERAGE: the ranks */
} coll_nccl_tree;

cudaError_t coll_nccl_tree_run(cudaStream_t stream, const coll_nccl_tree *tree);

/* What the device counts with, in its own memory. */
typedef struct coll_nccl_numbers {
    uint64_t started; /* operations */
    uint64_t finished;
    uint64_t since_ns; /* by the device's clock: when one of these two rose last */
    uint64_t busy_ns;  /* as long as an operation had begun and not ended */
    uint32_t locked;
    int32_t token; /* what a barrier adds up */
} coll_nccl_numbers;

/* In pinned memory: the device writes it, and never reads it. */
typedef struct coll_nccl_progress {
    uint64_t started;
    uint64_t finished;
    uint64_t busy_ns;
} coll_nccl_progress;

typedef struct coll_nccl_notes {
    coll_nccl_numbers *numbers;
    coll_nccl_progress *progress;
} coll_nccl_notes;

/* Notes that an operation begins, or has ended, in the order of the stream. */
cudaError_t coll_nccl_begin_run(cudaStream_t stream, const coll_nccl_notes *notes);
cudaError_t coll_nccl_end_run(cudaStream_t stream, const coll_nccl_notes *notes);

#ifdef __cplusplus
}
#endif

#endif
