/* The tcp transport's own state, for the transport itself and for hybrid. */
#ifndef COLL_SRC_TCP_H
#define COLL_SRC_TCP_H

#include "transport/socket/net.h"
#include "transport/tcp/conn.h"

typedef struct coll_tcp {
    coll_net net; /* first: context->net points here */
    coll_conn *connections[COLL_RANKS_MAX];
    int peers[COLL_RANKS_MAX]; /* context ranks with a connection */
    int peer_count;
} coll_tcp;

extern const coll_transport_table coll_tcp_transport;

/* Collective over the context: connects with all other ranks. `status`, with *reterr: of what this
 * rank did before. If that is not COLL_OK, it only says so to the others. */
COLL_MUST_CHECK coll_status coll_tcp_open(coll_context *context,
                                          const coll_context_options *options, int64_t deadline_ns,
                                          coll_status status, coll_error *reterr);
void coll_tcp_close(coll_context *context);
bool coll_tcp_poll(coll_context *context);
void coll_tcp_sleep(coll_context *context, bool (*changed)(coll_context *context),
                    int64_t until_ns);

#endif
