/* An exchange between all ranks while a context is made. A rank that cannot go on says so in it: so
 * the others fail at once and name the cause, and do not wait for it until their deadline. */
#ifndef COLL_SRC_RENDEZVOUS_H
#define COLL_SRC_RENDEZVOUS_H

#include "core/context.h"

enum {
    COLL_RENDEZVOUS_HEAD_BYTES = 256,                     /* before each record, */
    COLL_RENDEZVOUS_PART_BYTES_MAX = COLL_IDENTITY_BYTES, /* which has so many at most */
};

/* What a rank brings. */
typedef struct coll_rendezvous_part {
    const coll_context_options *options;
    const void *mine;
    void *all; /* (context->size × size_bytes), in rank order */
    size_t size_bytes;
    int64_t deadline_ns;
    coll_status status; /* of what this rank did before; not COLL_OK: *reterr says why */
} coll_rendezvous_part;

/* The options' exchange, of records with a status before them. Returns part->status, with its error,
 * where this rank has failed; COLL_ERR_PEER where another has; else what the exchange returns.
 * Blocks until the deadline at most, and 5 s at most where this rank has failed. `reterr` is not
 * NULL.
 *
 * Notes in the context whether it ended well here. Then the peers go on, to the next rendezvous if
 * there is one. So a rank that fails before it has to come to that, and say why. Asks for no memory,
 * which may be what this rank lacks: a context of `rank` and `size` alone is enough for a rank that
 * has failed. */
COLL_MUST_CHECK coll_status coll_rendezvous(coll_context *context, const coll_rendezvous_part *part,
                                            coll_error *reterr);

#endif
