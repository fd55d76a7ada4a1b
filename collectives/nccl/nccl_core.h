/* The inside of the NCCL backend.
 *
 * What is started goes to the GPU as a batch: one operation, or a group of them. A batch has up to
 * two phases of calls to NCCL. A call may return before NCCL has enqueued its kernels, so the next
 * phase, and our own kernels behind it, wait until ncclCommGetAsyncError says success: `poll` moves
 * the batch on.
 *
 * One rank has no batches: start enqueues a copy, or nothing. */
#ifndef COLL_NCCL_CORE_H
#define COLL_NCCL_CORE_H

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "coll/nccl.h"
#include "nccl/nccl_kernels.h"

enum {
    COLL_NCCL_BATCH_MAX = 64, /* operations of a group */
    COLL_NCCL_PHASES_MAX = 2,
};

typedef struct coll_nccl_op coll_nccl_op;

typedef struct coll_nccl_comm {
    ncclComm_t comm;
    int rank;
    int size;
    int device;
    bool alone; /* one rank, and NCCL is not called */
    bool grouping;
    bool under_way; /* the batch has been launched, up to `phase` */
    int phase;
    int batch_count;
    coll_nccl_op *batch[COLL_NCCL_BATCH_MAX];
    coll_nccl_notes notes; /* `numbers` come with the first operation */
} coll_nccl_comm;

struct coll_nccl_op {
    coll_nccl_comm *comm;
    coll_op_desc desc;
    cudaStream_t stream;
    cudaEvent_t ended;
    bool captured; /* the last start was: `ended` is not recorded then */
    bool warming;  /* its first run, on memory of its own: */
    void *warm_send;
    void *warm_recv;
    void
        *parts; /* direct: this rank's piece of every rank's vector, and of the result. Staged: what
                    is sent */
    size_t element_bytes;
};

/* A piece of a vector that one rank combines. */
typedef struct coll_nccl_piece {
    size_t offset; /* elements */
    size_t count;
} coll_nccl_piece;

/* COLL_ERR_IO with the library's own text; COLL_OK for success, and for NCCL's "in progress". */
coll_status coll_nccl_check(const coll_nccl_comm *comm, ncclResult_t result, const char *what,
                            coll_error *reterr);
coll_status coll_nccl_cuda(cudaError_t result, const char *what, coll_error *reterr);
/* Of what cudaEventQuery or cudaStreamQuery said of `what`. */
coll_status coll_nccl_ended(cudaError_t result, const char *what, bool *done, coll_error *reterr);
coll_status coll_nccl_fail(coll_error *reterr, coll_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* nccl_op.c */
coll_status coll_nccl_op_make(void *comm, const coll_op_desc *desc, void **made,
                              coll_error *reterr);
coll_status coll_nccl_group(void *comm, bool begin, coll_error *reterr);
coll_status coll_nccl_start(void *op, uint64_t sequence, bool *captured, coll_error *reterr);
coll_status coll_nccl_test(void *op, bool *done, coll_error *reterr);
void coll_nccl_op_free(void *op);
/* NCCL has taken the batch's phase: on to the next. *done: that was the last. */
coll_status coll_nccl_advance(coll_nccl_comm *comm, bool *done, coll_error *reterr);

/* nccl_calls.c: the calls to NCCL of a phase, between ncclGroupStart and ncclGroupEnd. */
bool coll_nccl_is_direct(const coll_nccl_op *op);
/* Whether it is sent from a copy: NCCL receives a part before or after it sends what stood there. */
bool coll_nccl_is_staged(const coll_nccl_op *op);
/* Bytes of the buffers that this rank has in op; 0 for one that it does not. */
void coll_nccl_buffers(const coll_nccl_op *op, size_t *send_bytes, size_t *recv_bytes);
/* Which part of the vector a rank combines. */
coll_nccl_piece coll_nccl_piece_of(const coll_nccl_op *op, int rank);
/* Where this rank's combined piece goes. */
void *coll_nccl_combined(const coll_nccl_op *op);
ncclResult_t coll_nccl_call(const coll_nccl_op *op, int phase);

#endif
