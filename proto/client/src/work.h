/* Requests on their way from the control thread to rank 0's own thread, and the credit for events
 * that go back. Private.
 *
 * Nothing here has a lock: proto_client guards it. No allocation after create. */
#ifndef PROTO_CLIENT_WORK_H
#define PROTO_CLIENT_WORK_H

#include "proto/client.h"
#include "queue.h"

enum {
    /* the longest work, as often as the launcher may send it without a verdict, and the cancels of
     * all open requests, of as many that have ended meanwhile, and the end */
    PROTO_CLIENT_WORK_BYTES = PROTO_REQUESTS_UNJUDGED_MAX * ((int)sizeof(proto_work) + 4) +
                              (2 * PROTO_REQUESTS_OPEN_MAX + 1) * 256,
};

typedef struct client_work {
    client_queue queue;
    proto_work incoming; /* being copied in */
    bool woken;          /* since the last wait */
    bool blocked;        /* an event found no room in the client's queue */
    uint64_t sent;       /* events */
    uint64_t taken;      /* of them, by the launcher: its credit */
} client_work;

BASE_MUST_CHECK base_status client_work_create(client_work **work, base_error *reterr);
void client_work_destroy(client_work *work); /* NULL is fine */

/* Puts in what has come: incoming, or a kind with an id. BASE_ERR_LIMIT: more than was agreed. */
BASE_MUST_CHECK base_status client_work_put(client_work *work, base_error *reterr);
BASE_MUST_CHECK base_status client_work_put_id(client_work *work, proto_work_kind kind, uint64_t id,
                                               base_error *reterr);

/* False: there is none. */
bool client_work_take(client_work *work, proto_work *taken);

/* The launcher has taken so many events in all. BASE_ERR_INVALID: more than were sent, or fewer
 * than before. */
BASE_MUST_CHECK base_status client_work_credit(client_work *work, uint64_t events,
                                               base_error *reterr);

/* Whether another event may be sent. */
bool client_work_may_send(const client_work *work);

#endif
