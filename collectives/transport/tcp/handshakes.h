/* The handshakes under way while a rank is connected: its own with the ranks that it connects to, and
 * those of whoever connects to it. Used by links.c. */
#ifndef COLL_SRC_TCP_HANDSHAKES_H
#define COLL_SRC_TCP_HANDSHAKES_H

#include "transport/tcp/handshake.h"

/* A peer has one at most; the others are for strangers. */
enum { COLL_HANDSHAKES_MAX = 2 * COLL_RANKS_MAX };

typedef enum coll_handshake_stage {
    COLL_HANDSHAKE_FREE = 0,
    COLL_HANDSHAKE_PAUSE,      /* connector: has failed, and tries again soon; has no socket */
    COLL_HANDSHAKE_CONNECTING, /* connector: waits for the socket */
    COLL_HANDSHAKE_ANSWER,     /* connector: waits for the listener's hello and proof */
    COLL_HANDSHAKE_HELLO,      /* listener: waits for a hello and its tag */
    COLL_HANDSHAKE_PROOF,      /* listener: waits for the connector's proof */
} coll_handshake_stage;

/* A handshake under way. */
typedef struct coll_handshake {
    coll_handshake_stage stage;
    int fd;
    int peer;         /* -1: not known yet */
    uint64_t arrival; /* HELLO: its number among the connections accepted */
    int64_t until_ns; /* PAUSE: when to try again */
    coll_hello own;
    coll_hello theirs;
    uint8_t received[COLL_ANSWER_BYTES];
    size_t received_bytes;
} coll_handshake;

typedef struct coll_handshakes {
    uint64_t accepted;
    coll_handshake all[COLL_HANDSHAKES_MAX]; /* the first: with the ranks below this one */
} coll_handshakes;

/* Closes its socket. */
void coll_handshake_drop(coll_handshake *g);

/* Room for a connection that was accepted, where need be the oldest's without a hello. */
coll_handshake *coll_handshakes_place(coll_handshakes *all);

/* Drops the oldest of the accepted connections without a hello, and returns its place; NULL: there is
 * none. */
coll_handshake *coll_handshakes_drop_oldest(coll_handshakes *all);

/* Drops what the peer has tried before. It makes a new try only where it has given up that one. */
void coll_handshakes_drop_earlier(coll_handshakes *all, int peer);

#endif
