/* What ranks exchange before they connect: where they listen, how their frames are
 * protected, and a share of the key. */
#ifndef COLL_SRC_TCP_RECORD_H
#define COLL_SRC_TCP_RECORD_H

#include "core/context.h"
#include "transport/socket/interface.h"
#include "transport/tcp/handshake.h"

/* As the exchange carries it. */
typedef struct coll_tcp_record {
    char address[COLL_ADDRESS_BYTES];
    uint8_t share[COLL_JOB_KEY_BYTES]; /* of the job's key */
    uint16_t port;
    uint8_t auth;
    uint8_t has_key;
    uint8_t zero[4];
} coll_tcp_record;

/* Whether all records can be what ranks say; all ranks must agree on how frames are protected. */
COLL_MUST_CHECK coll_status coll_tcp_records_check(const coll_context *context,
                                                   coll_tcp_record *all, coll_error *reterr);

/* The key of this context: everybody's shares, under the job's key if there is one. */
void coll_tcp_records_key(const uint8_t *job_key, const coll_tcp_record *all, int size,
                          uint8_t key[COLL_JOB_KEY_BYTES]);

#endif
