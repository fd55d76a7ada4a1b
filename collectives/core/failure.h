/* A communicator's first failure, and the abort of its context: what forbids to go on. */
#ifndef COLL_SRC_FAILURE_H
#define COLL_SRC_FAILURE_H

#include "coll/coll.h"
#include "ringfence/coll_error.h"

/* Records the communicator's first failure and returns its status. */
coll_status coll_comm_fail(coll_comm *comm, coll_status status, const char *format, ...)
    BASE_PRINTF(3, 4);
/* Fails the communicator because this rank has no memory for what an operation or an arena needs: so
 * its peers learn of it, which would wait for it until their deadline. COLL_ERR_MEMORY. */
COLL_MUST_CHECK coll_status coll_comm_lacks(coll_comm *comm, size_t size_bytes, const char *what,
                                            coll_error *reterr);
/* Takes over the failure of a peer, a rank of the communicator, with its message; or that of
 * another rank whose failure the peer has taken over: 1 + that rank in `origin`, else 0. */
void coll_comm_fail_as(coll_comm *comm, int peer, uint32_t origin, int32_t status, char *message);
/* The failure or abort that forbids to go on, into reterr; COLL_OK if there is none. */
COLL_MUST_CHECK coll_status coll_comm_check(coll_comm *comm, coll_error *reterr);
/* Whether a program that polls or sends has to look for peers that have failed or gone: once in a
 * tick of the kernel's clock, because that look asks the kernel about each peer that is waited
 * for. */
bool coll_watch_is_due(coll_context *context);
/* Fails with the reason once the context is aborted. */
COLL_MUST_CHECK coll_status coll_abort_check(coll_context *context, coll_error *reterr);

#endif
