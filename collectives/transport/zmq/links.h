/* The sockets of the zmq transport: one DEALER pair, encrypted, between every two ranks, over TCP.
 *
 * The lower rank of a pair listens, on a port the system picks; addresses, ports and CURVE public
 * keys go through the caller's exchange. The listener asks for the connecting rank's very key
 * (ZAP), the connecting rank for the listener's, so neither a stranger nor another rank can take a
 * place. With COLL_TCP_AUTH_OFF there are no keys, and nobody is asked: frames travel as they are.
 * A lost connection is not made again: what was under way is lost, and the communicator with
 * it. */
#ifndef COLL_SRC_ZMQ_LINKS_H
#define COLL_SRC_ZMQ_LINKS_H

#include <zmq.h>

#include "transport/socket/net.h"

/* Messages that wait to leave, which this rank's own credits keep below: 16 flags and some data of
 * each communicator, of which there may be a thousand and more. And those that wait to be read, for
 * which a peer's word is not taken: 32 MiB at most, after which its sending stops. */
enum { COLL_ZMQ_SEND_HWM = 64 * 1024, COLL_ZMQ_RECEIVE_HWM = 16 };

typedef struct coll_zmq_links {
    void *zmq;
    int own_rank; /* lower ones were connected to, higher ones have connected */
    bool encrypted;
    void *sockets[COLL_RANKS_MAX];  /* by context rank; NULL for this one */
    void *monitors[COLL_RANKS_MAX]; /* report what becomes of each connection */
    bool suspect[COLL_RANKS_MAX];   /* some connection of the socket has ended */
    int fds[COLL_RANKS_MAX];        /* of the only connection each has had; else see monitor.h */
    int64_t host_timeout_ns;
    void *zap;
} coll_zmq_links;

/* Collective: one exchange, then connects every pair and waits for everybody's first frame. `status`,
 * with *reterr: of what this rank did before. If that is not COLL_OK, it only says so. */
COLL_MUST_CHECK coll_status coll_zmq_links_open(coll_context *context, coll_zmq_links *links,
                                                const coll_context_options *options,
                                                int64_t deadline_ns, coll_status status,
                                                coll_error *reterr);

/* Whether a rank's host is silent (silence.h). False where a stranger has connected, too: which of the two
 * connections is its own is not known. The higher rank of the two looks. */
bool coll_zmq_links_is_silent(const coll_zmq_links *links, int rank);

/* Whether the connection to a rank has ended.
 * What came before its end may still wait to be read. */
bool coll_zmq_links_is_lost(coll_zmq_links *links, int rank);

/* Closes, and gives what was sent time to leave, but for ranks that have left: a short one for those
 * whose bits are set in `doubted`. */
void coll_zmq_links_close(coll_zmq_links *links, const bool *left, uint64_t doubted);

#endif
