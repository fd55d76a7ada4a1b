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
    coll_reduce reduce;
    int divisor; /* of AVERAGE: the ranks */
} coll_nccl_tree;

cudaError_t coll_nccl_tree_run(cudaStream_t stream, const coll_nccl_tree *tree);

/* Adds 1 to a number in pinned memory, in the order of the stream. */
cudaError_t coll_nccl_count_run(cudaStream_t stream, uint64_t *number);

#ifdef __cplusplus
}
#endif

#endif
