/* Swaps memory between the ranks of a communicator: each hands its own segment to all others and
 * maps theirs. */
#ifndef COLL_SRC_SHM_SWAP_H
#define COLL_SRC_SHM_SWAP_H

#include "transport/shm/fdpass.h"
#include "transport/shm/layout.h"

/* Where the segments go. */
typedef struct coll_shm_store {
    void (*keep)(void *user, int rank, void *data); /* called as each is mapped, own one first */
    void *user;
} coll_shm_store;

/* The label of memory of the communicator: of its segments (arena 0), or of an arena. */
coll_fdpass_label coll_shm_label(const coll_comm *comm, uint32_t arena, size_t size_bytes);

/* Collective over comm, on one host. A label that says why this rank has no segment is handed to
 * all in its place, and the call fails. On failure segments may have been kept, which the caller
 * unmaps. Blocks until the deadline at most, and moves every started operation of the context
 * meanwhile. If a peer says why it has failed, comm has failed for the same reason. */
COLL_MUST_CHECK coll_status coll_shm_swap(coll_comm *comm, coll_fdpass_label *label,
                                          const coll_shm_store *store, int64_t deadline_ns,
                                          coll_error *reterr);

#endif
