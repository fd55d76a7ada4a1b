/* The same over one end of a connection (net_stage.h): what the core sends leaves by its socket. */
#ifndef TEST_COLL_CONN_STAGE_H
#define TEST_COLL_CONN_STAGE_H

#include "net_stage.h"
#include "transport/tcp/conn.h"

typedef struct conn_stage {
    net_stage core; /* first */
    coll_conn *conn;
    bool quiet; /* what the core sends is dropped */
} conn_stage;

/* On zeroed memory; takes the socket over. */
void conn_stage_open(conn_stage *s, int fd, const coll_seal *seal, size_t chunk_bytes);
void conn_stage_close(conn_stage *s);

/* Takes what has come. */
void conn_stage_receive(conn_stage *s);

#endif
