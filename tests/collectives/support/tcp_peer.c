/* A peer at the other end of a TCP connection that sends what the test likes. Used by the tests of
 * frames. */
#include "tcp_peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"

tcp_peer *tcp_peer_open(coll_tcp_auth auth)
{
    static const uint8_t key[COLL_SEAL_KEY_BYTES] = {1};
    int ends[2];
    tcp_peer *p = net_stage_alloc(sizeof *p);
    assert_true(sodium_init() >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    coll_seal_init(&p->seal, auth, false, key);
    p->end = ends[1];
    p->here.quiet = true;
    conn_stage_open(&p->here, ends[0], &p->seal, PEER_CHUNK);
    p->op = (coll_op){.comm = &p->here.core.comm, .sequence = 1, .word = coll_flag_word(1, 0x1234)};
    return p;
}

void tcp_peer_close(tcp_peer *p)
{
    conn_stage_close(&p->here);
    (void)close(p->end);
    free(p);
}

void tcp_peer_put(tcp_peer *p, const void *bytes, size_t size_bytes)
{
    if (size_bytes > 0) {
        assert_int_equal(send(p->end, bytes, size_bytes, MSG_NOSIGNAL), (ssize_t)size_bytes);
    }
    conn_stage_receive(&p->here);
}

void tcp_peer_put_frame(tcp_peer *p, coll_frame_kind kind, const uint8_t *body, uint32_t body_bytes,
                        size_t first)
{
    uint8_t tag[COLL_SEAL_TAG_BYTES];
    static uint8_t sealed[PEER_CHUNK];
    coll_frame_head head = {.magic = COLL_FRAME_MAGIC,
                            .kind = kind,
                            .comm_id = STAGE_COMM_ID,
                            .number = p->number++,
                            .body_bytes = body_bytes};
    assert_true(body_bytes <= sizeof sealed);
    const uint8_t *wire = coll_seal_close(&p->seal, &head, body, sealed, tag);
    tcp_peer_put(p, &head, sizeof head);
    tcp_peer_put(p, wire, first);
    tcp_peer_put(p, wire + first, body_bytes - first);
    tcp_peer_put(p, tag, coll_seal_tag_bytes(&p->seal));
}

void tcp_peer_put_flag(tcp_peer *p, uint64_t word)
{
    uint8_t body[COLL_FRAME_FLAG_BYTES] = {0};
    memcpy(body, &word, sizeof word);
    tcp_peer_put_frame(p, COLL_FRAME_FLAG, body, sizeof body, 10);
}

size_t tcp_peer_get(const tcp_peer *p, uint8_t *data, size_t size_bytes)
{
    const ssize_t got = recv(p->end, data, size_bytes, MSG_DONTWAIT);
    return got > 0 ? (size_t)got : 0;
}
