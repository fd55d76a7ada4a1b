/* Which peers have posted an operation. For transports over sockets. */
#ifndef COLL_SRC_ARRIVAL_H
#define COLL_SRC_ARRIVAL_H

#include "core/op.h"

/* Whether a peer has posted op. If it has posted another operation instead, or other counts, the
 * communicator fails. */
bool coll_op_sees(coll_op *op, int peer);

/* Whether all peers have. *moved becomes true if more have than at the last call. */
bool coll_op_all_arrived(coll_op *op, bool *moved);
/* Whether those peers have that an inline operation has to wait for. A rank that takes nothing from
 * a peer does not wait for its flag, but compares it when it arrives. */
bool coll_op_needed_arrived(coll_op *op, bool *moved);

#endif
