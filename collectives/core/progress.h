/* Progress: moves operations through their stages. */
#ifndef COLL_SRC_PROGRESS_H
#define COLL_SRC_PROGRESS_H

#include "core/op.h"

/* Moves all started operations of the context on, without blocking. True if anything moved.
 * Failures are stored in the communicators. */
bool coll_progress(coll_context *context);

/* The same without reading the sockets. */
bool coll_advance(coll_context *context);

#endif
