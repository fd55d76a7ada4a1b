/* Runs an operation's plan over a transport's streams. */
#ifndef COLL_SRC_EXEC_H
#define COLL_SRC_EXEC_H

#include "core/op.h"

void coll_exec_begin(coll_op *op);
/* Moves what can be moved; true when all tracks have ended. */
bool coll_exec_advance(coll_op *op, bool *moved);
/* Whether some track cannot go on before the peer sends, or takes, something. */
bool coll_exec_awaits(const coll_op *op, int peer);

#endif
