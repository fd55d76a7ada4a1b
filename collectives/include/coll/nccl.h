/* NCCL as a backend of libcoll (coll/backend.h). Part of ringfence-cuda.so, never of
 * libcoll, and not installed.
 *
 * The communicator is non-blocking: no call waits for a peer, and libcoll's deadlines hold. Before
 * NCCL is asked, the ranks compare the GPUs that they use: two on one GPU are an error that names
 * both. `native` is NCCL's own all-reduce. `direct` has the canonical order at the traffic of a
 * ring: every rank gets a piece of all vectors, combines it as a balanced tree, and gives it to
 * all. So the bits depend on neither the number of hosts nor NCCL's choice of an algorithm.
 *
 * On a communicator of one rank an operation is a copy, or nothing where it is in place: what one
 * vector adds up to is that vector. NCCL is not called, and nothing is counted.
 *
 * NCCL reads NCCL_… from the environment. libcoll sets none of them. */
#ifndef COLL_NCCL_H
#define COLL_NCCL_H

#include "coll/backend.h"

/* What coll_context_options.backend_user points to; read by each open. */
typedef struct coll_nccl_options {
    size_t size;      /* sizeof(coll_nccl_options) */
    int device;       /* CUDA's number of this rank's GPU */
    bool shares_gpu;  /* for tests only: ranks may use one GPU together */
    bool mixes_cards; /* ranks may have GPUs of different kinds: the slowest decides */
    bool calls_alone; /* for tests only: NCCL is called on one rank, too */
} coll_nccl_options;

extern const coll_backend coll_nccl_backend;

/* Of the library that is loaded, as 22809; 0: it does not say. */
int coll_nccl_version(void);

#endif
