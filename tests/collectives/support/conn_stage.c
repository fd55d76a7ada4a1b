/* One end of a TCP connection with a core above it. Used by test_tcp_pieces.c. */
#include "conn_stage.h"

#include "support.h"
#include "transport/tcp/tcp.h"

static void send_frames(coll_context *context, int peer, const coll_net_frames *frames,
                        coll_net_when when)
{
    const conn_stage *s = context->net;
    (void)peer;
    if (!s->quiet) {
        coll_conn_send(context, s->conn, frames, when);
    }
}

static bool has_room(coll_context *context, int peer)
{
    const conn_stage *s = context->net;
    (void)peer;
    return coll_conn_backlog(s->conn) < COLL_CONN_BACKLOG_BYTES;
}

static void forget(coll_context *context, coll_comm *comm)
{
    const conn_stage *s = context->net;
    coll_conn_forget(s->conn, comm);
}

static const coll_net_links links = {.send = send_frames, .has_room = has_room, .forget = forget};

void conn_stage_open(conn_stage *s, int fd, const coll_seal *seal, size_t chunk_bytes)
{
    s->conn = coll_conn_create(STAGE_PEER);
    assert_non_null(s->conn);
    coll_conn_open(s->conn, fd, seal, seal);
    net_stage_open(&s->core, &links, &coll_tcp_transport, chunk_bytes);
}

void conn_stage_close(conn_stage *s)
{
    net_stage_close_comm(&s->core);
    coll_conn_destroy(s->conn);
    net_stage_close(&s->core);
}

void conn_stage_receive(conn_stage *s)
{
    (void)coll_conn_receive(&s->core.context, s->conn);
}
