/* What moves operations on. */
#ifndef COLL_SRC_PROGRESS_H
#define COLL_SRC_PROGRESS_H

#include "core/op.h"

/* Moves everything on without blocking; failures are kept in the communicators. */
bool coll_progress(coll_context *context);

/* The same without a look at the sockets for what has come. */
bool coll_advance(coll_context *context);

#endif
