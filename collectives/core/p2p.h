/* Sends and receives. */
#ifndef COLL_SRC_P2P_H
#define COLL_SRC_P2P_H

#include "core/op.h"

/* Room for the communicator's queues; made with the first operation that needs them. */
COLL_MUST_CHECK coll_status coll_p2p_open(coll_comm *comm, coll_error *reterr);
void coll_p2p_close(coll_comm *comm);
void coll_p2p_start(coll_op *op);
void coll_p2p_leave(coll_op *op);
/* Moves all sends and receives of the communicator on. */
bool coll_p2p_advance(coll_comm *comm);
/* Called when none of them is under way, and none is to come. Fails the communicator if a message is
 * here that nobody has received. */
void coll_p2p_finalize(coll_comm *comm);
/* Whether any of them is not done; the communicator's queues are there. */
bool coll_p2p_is_busy(const coll_comm *comm);
/* The first send to a peer, or receive from it, that is not done; NULL. */
coll_op *coll_p2p_first(const coll_comm *comm, int peer);

#endif
