/* The figures behind a context's `auto`: read from a file, or measured. */
#ifndef COLL_SRC_CALIBRATE_H
#define COLL_SRC_CALIBRATE_H

#include "coll/coll.h"

/* Collective, once the world is there: decides what AUTO stands for, and measures or reads the
 * costs where it depends on the operation. Rank 0 keeps them in a file. The one that the options
 * name must be a file of costs, or room for one. Where the environment names one that is neither,
 * costs are measured, and it is left as it is. */
COLL_MUST_CHECK coll_status coll_tune_context(coll_context *context,
                                              const coll_context_options *options,
                                              int64_t deadline_ns, coll_error *reterr);

#endif
