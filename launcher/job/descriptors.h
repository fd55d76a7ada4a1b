/* The limit of open files: ulimit -n. */
#ifndef LAUNCH_DESCRIPTORS_H
#define LAUNCH_DESCRIPTORS_H

#include <stdint.h>

#include "base/status.h"

/* Makes room for as many open files as this launcher and each of its ranks may need: raises the soft limit,
 * which ranks inherit, up to the hard one. Call it before ZeroMQ is used: where that gets no
 * descriptor, it ends the process. BASE_ERR_LIMIT: the hard limit is too low. */
BASE_MUST_CHECK base_status launch_descriptors_ensure(int64_t ranks, int64_t nodes,
                                                      base_error *reterr);

#endif
