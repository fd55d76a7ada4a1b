/* Shared memory, for ranks of one host. */
#ifndef COLL_SRC_SHM_H
#define COLL_SRC_SHM_H

#include "core/transport.h"

extern const coll_transport_table coll_shm_transport;

/* In place of comm_open, where this rank has no memory for so many bytes of it: says so to the ranks of
 * the communicator, and fails. */
COLL_MUST_CHECK coll_status coll_shm_tell_lack(coll_comm *comm, size_t size_bytes,
                                               int64_t deadline_ns, coll_error *reterr);

#endif
