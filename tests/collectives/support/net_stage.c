/* A communicator of two ranks over links that the test implements. Used by the tests of
 * transport/socket. */
#include "net_stage.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

void *net_stage_alloc(size_t size_bytes)
{
    const size_t whole_bytes = (size_bytes + 63) / 64 * 64;
    void *made = aligned_alloc(64, whole_bytes);
    assert_non_null(made);
    memset(made, 0, whole_bytes);
    return made;
}

void net_stage_open(net_stage *s, const coll_net_links *links, const coll_transport_table *table,
                    size_t chunk_bytes)
{
    coll_error error = {.message = ""};
    s->net.links = links;
    s->net.remote[STAGE_PEER] = true;
    s->context = (coll_context){.size = STAGE_RANKS, .net = s, .identities = s->identities};
    s->comm = (coll_comm){.context = &s->context,
                          .table = table,
                          .size = STAGE_RANKS,
                          .ranks = {0, STAGE_PEER},
                          .id = STAGE_COMM_ID};
    s->context.comms = &s->comm;
    assert_ok(coll_net_comm_open(&s->comm, 0, &error), &error);
    s->comm.chunk_bytes = chunk_bytes;
}

void net_stage_close_comm(net_stage *s)
{
    s->context.comms = NULL;
    coll_net_comm_close(&s->comm);
}

void net_stage_close(net_stage *s)
{
    net_stage_close_comm(s);
    coll_net_fini(&s->net);
}

void net_stage_send_nothing(coll_context *context, int peer, const coll_net_frames *frames,
                            coll_net_when when)
{
    (void)context;
    (void)peer;
    (void)frames;
    (void)when;
}

void net_stage_fill(uint8_t *data, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++) {
        data[i] = (uint8_t)(i * 31 + i / 251);
    }
}
