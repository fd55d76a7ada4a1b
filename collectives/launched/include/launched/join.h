/* From a joined control client to a context: what the rank program and coll_launched_open share.
 *
 * Not installed: it speaks of the control plane. One thread. */
#ifndef LAUNCHED_JOIN_H
#define LAUNCHED_JOIN_H

#include "coll/coll.h"
#include "proto/client.h"

/* What does the operations on streams; as in coll_context_options. */
typedef struct coll_launched_device {
    const coll_backend *backend;
    void *user;
} coll_launched_device;

/* Makes the context that the job asks for, over the launcher's exchange, and lets the launcher's
 * abort and its wish for a flight record reach it. Wipes identity's key. device NULL: there are no
 * operations on streams. *unreached is that of coll_context_options. The caller owns *context, and
 * calls coll_launched_leave before destroying it. */
COLL_MUST_CHECK coll_status coll_launched_join(proto_client *client, proto_identity *identity,
                                               const coll_launched_device *device,
                                               coll_context **context, int *unreached,
                                               coll_error *reterr);

/* The client forgets the context. */
void coll_launched_leave(proto_client *client);

#endif
