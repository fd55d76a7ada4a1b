/* A communicator's first failure, and the abort of its context: what forbids to go on. */
#ifndef COLL_SRC_FAILURE_H
#define COLL_SRC_FAILURE_H

#include "base/status.h"
#include "coll/coll.h"

/* Records the communicator's first failure and returns its status. */
base_status coll_comm_fail(coll_comm *comm, base_status status, const char *format, ...)
    BASE_PRINTF(3, 4);
/* Takes over the failure of a peer, a rank of the communicator, with its message; or that of
 * another rank whose failure the peer has taken over: 1 + that rank in `origin`, else 0. */
void coll_comm_fail_as(coll_comm *comm, int peer, uint32_t origin, int32_t status, char *message);
/* The failure or abort that forbids to go on, into reterr; BASE_OK if there is none. */
BASE_MUST_CHECK base_status coll_comm_check(coll_comm *comm, base_error *reterr);
/* Fails with the reason once the context is aborted. */
BASE_MUST_CHECK base_status coll_abort_check(coll_context *context, base_error *reterr);

#endif
