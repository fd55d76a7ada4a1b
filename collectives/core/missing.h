/* Ranks that have not connected yet, while a context is made. */
#ifndef COLL_SRC_MISSING_H
#define COLL_SRC_MISSING_H

#include "core/context.h"

/* Called now and then by a rank that waits for connections with the ranks in `missing`, a bit each.
 * COLL_ERR_PEER: one of them, on this host, has ended; or one that is connected, by socks (-1: it is
 * not), has hung up. That one has failed, as no rank is done before all are connected. */
COLL_MUST_CHECK coll_status coll_missing_check(const coll_context *context, uint64_t missing,
                                               const int socks[COLL_RANKS_MAX], coll_error *reterr);

/* Puts before the error that this rank waited for these. Returns status. */
coll_status coll_missing_blame(const coll_context *context, uint64_t missing, coll_status status,
                               coll_error *reterr);

#endif
