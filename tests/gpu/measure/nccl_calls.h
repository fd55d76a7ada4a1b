/* NCCL's own calls, found in the library that the plugin is linked with. */
#ifndef GPU_MEASURE_NCCL_CALLS_H
#define GPU_MEASURE_NCCL_CALLS_H

#include <stddef.h>

#include "base/status.h"

/* As nccl.h has it, which is not everywhere. */
typedef struct measure_nccl_id {
    char internal[128];
} measure_nccl_id;

typedef struct measure_nccl {
    void *comm;
    int (*get_id)(measure_nccl_id *id);
    int (*init)(void **comm, int ranks, measure_nccl_id id, int rank);
    int (*all_reduce)(const void *send, void *recv, size_t count, int type, int reduce, void *comm,
                      void *stream);
    int (*destroy)(void *comm);
} measure_nccl;

/* `handle`: the plugin's. BASE_ERR_UNSUPPORTED: it shows no NCCL. */
BASE_MUST_CHECK base_status measure_nccl_find(measure_nccl *nccl, void *handle, base_error *reterr);
BASE_MUST_CHECK base_status measure_nccl_make_id(const measure_nccl *nccl, measure_nccl_id *id,
                                                 base_error *reterr);
/* Blocks until all ranks have called it. */
BASE_MUST_CHECK base_status measure_nccl_begin(measure_nccl *nccl, int ranks,
                                               const measure_nccl_id *id, int rank,
                                               base_error *reterr);
/* Enqueues the sum of `count` floats. */
BASE_MUST_CHECK base_status measure_nccl_all_reduce(const measure_nccl *nccl, const float *send,
                                                    float *recv, size_t count, void *stream,
                                                    base_error *reterr);
/* Of one that has not begun, too. */
void measure_nccl_end(measure_nccl *nccl);

#endif
