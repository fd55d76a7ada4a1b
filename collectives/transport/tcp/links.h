/* Connects every two ranks: the lower one listens, on one port that the system picks; addresses and
 * ports go through the caller's exchange, and both sides of each connection prove that they know
 * the job's key (handshake.h). A stranger who connects is closed without an answer, and holds
 * nothing up. A lost connection is not made again: what was under way is lost, and the communicator
 * with it. */
#ifndef COLL_SRC_TCP_LINKS_H
#define COLL_SRC_TCP_LINKS_H

#include "transport/tcp/conn.h"

/* Collective: one exchange, then connects this rank with every other, and waits for all. Fills
 * connections, by context rank. `status`, with *reterr: of what this rank did before. If that is not
 * COLL_OK, it only says so. */
COLL_MUST_CHECK coll_status coll_tcp_links_open(coll_context *context,
                                                const coll_context_options *options,
                                                int64_t deadline_ns, coll_status status,
                                                coll_conn **connections, coll_error *reterr);

#endif
