/* Which peers have shown an operation. */
#ifndef COLL_SRC_ARRIVAL_H
#define COLL_SRC_ARRIVAL_H

#include "core/op.h"

/* Whether a peer's flag shows op; one that shows another operation in its place fails. */
bool coll_op_sees(coll_op *op, int peer);

/* Whether all peers' flags do; *moved: one more than before. */
bool coll_op_all_arrived(coll_op *op, bool *moved);
/* Whether those do without which an operation over flags cannot end. A rank that takes nothing from
 * a peer does not wait for its flag; it is compared when it comes. */
bool coll_op_needed_arrived(coll_op *op, bool *moved);

#endif
