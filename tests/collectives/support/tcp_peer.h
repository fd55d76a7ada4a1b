/* One end of a connection, with the test at the other: it is the peer, which says what it likes, in
 * pieces as long as it likes. */
#ifndef TEST_COLL_TCP_PEER_H
#define TEST_COLL_TCP_PEER_H

#include "conn_stage.h"

enum { PEER_CHUNK = 1024 }; /* of the communicator's data */

typedef struct tcp_peer {
    conn_stage here; /* quiet, until set otherwise */
    coll_op op;      /* the first operation here */
    coll_seal seal;  /* the peer's */
    uint64_t number; /* of its next frame */
    int end;         /* its socket */
} tcp_peer;

tcp_peer *tcp_peer_open(coll_tcp_auth auth);
void tcp_peer_close(tcp_peer *p);

/* Some of a frame's bytes, which are taken here as far as they go. */
void tcp_peer_put(tcp_peer *p, const void *bytes, size_t size_bytes);
/* A whole frame in two parts, the first of them `first` bytes of the body long; no more than
 * PEER_CHUNK in all. */
void tcp_peer_put_frame(tcp_peer *p, coll_frame_kind kind, const uint8_t *body, uint32_t body_bytes,
                        size_t first);
/* The flag of an operation. */
void tcp_peer_put_flag(tcp_peer *p, uint64_t word);

/* What has come from here; 0: nothing. */
size_t tcp_peer_get(const tcp_peer *p, uint8_t *data, size_t size_bytes);

#endif
