/* A communicator of two ranks over links of the test's own: what is below net.h is the test, and
 * the core above it is what users run. This rank is 0. */
#ifndef TEST_COLL_NET_STAGE_H
#define TEST_COLL_NET_STAGE_H

#include "transport/socket/net.h"

enum { STAGE_RANKS = 2, STAGE_PEER = 1, STAGE_COMM_ID = 7 };

typedef struct net_stage {
    coll_net net; /* first, as a transport has it: context.net points here */
    coll_context context;
    coll_comm comm;
    coll_identity identities[STAGE_RANKS];
} net_stage;

/* Zeroed memory, aligned as communicators and connections are; free ends it. */
void *net_stage_alloc(size_t size_bytes);

/* On zeroed memory. Links and table stay the caller's; frames of data have chunk_bytes. */
void net_stage_open(net_stage *s, const coll_net_links *links, const coll_transport_table *table,
                    size_t chunk_bytes);
/* The communicator goes first where somebody looks at what it leaves; `close` ends all. */
void net_stage_close_comm(net_stage *s);
void net_stage_close(net_stage *s);

/* Of links over which nothing goes. */
void net_stage_send_nothing(coll_context *context, int peer, const coll_net_frames *frames,
                            coll_net_when when);

/* Bytes that distinguish each from the next. */
void net_stage_fill(uint8_t *data, size_t size_bytes);

#endif
