/* The figures behind a context's `auto`: read from a file, or measured. */
#ifndef COLL_SRC_CALIBRATE_H
#define COLL_SRC_CALIBRATE_H

#include "coll/coll.h"

/* Collective, once the world is there: decides what AUTO stands for, and measures or reads the
 * costs where it depends on the operation. path: of the cached figures, rank 0's; NULL: none. */
COLL_MUST_CHECK coll_status coll_tune_context(coll_context *context, const char *path,
                                              int64_t deadline_ns, coll_error *reterr);

#endif
