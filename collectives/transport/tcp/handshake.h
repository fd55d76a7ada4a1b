/* How two ranks make sure of each other on a fresh connection, before the first frame.
 *
 *     connector → listener   hello of the connector, and its tag
 *     listener → connector   hello of the listener, and its proof
 *     connector → listener   its proof
 *
 * A hello names both ranks and brings a nonce. Its tag is BLAKE2b under the job's key over a label
 * and this hello. So a listener answers, and keeps room for, only those who know the key. The hello
 * also has the number of this try of its rank, and a listener takes no number twice: somebody who sees
 * the network's traffic and replays a hello is a stranger like any other. A proof is
 * BLAKE2b under the job's key over a label and both hellos, so it shows that its sender knows the
 * key, and is good for this connection only. The frames' keys, one per direction, come from the same
 * hellos under another label. Whoever does not know the job's key learns nothing here.
 *
 * Pure but for the nonce's randomness and the last two functions; any thread. */
#ifndef COLL_SRC_TCP_HANDSHAKE_H
#define COLL_SRC_TCP_HANDSHAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/coll.h"
#include "transport/tcp/seal.h"

enum {
    COLL_HELLO_MAGIC = 0x31546652, /* "RfT1", in this machine's byte order */
    COLL_HELLO_VERSION = 6,
    COLL_HELLO_NONCE_BYTES = 32,
    COLL_PROOF_BYTES = 32,
    COLL_JOB_KEY_BYTES = 32,
};

typedef struct coll_hello {
    uint32_t magic;
    uint32_t version;
    uint32_t rank; /* of the sender */
    uint32_t peer; /* whom it takes the other side for */
    uint32_t world_size;
    uint32_t auth;    /* coll_tcp_auth */
    uint32_t has_aes; /* 0 or 1 */
    uint32_t attempt; /* of a connector: which one it is, from 1 on; of a listener: 0 */
    uint8_t nonce[COLL_HELLO_NONCE_BYTES];
} coll_hello;

enum {
    COLL_HELLO_BYTES = 64,
    COLL_OPENING_BYTES = COLL_HELLO_BYTES + COLL_PROOF_BYTES, /* the connector's hello and tag */
    COLL_ANSWER_BYTES = COLL_HELLO_BYTES + COLL_PROOF_BYTES,  /* the listener's hello and proof */
};

_Static_assert(sizeof(coll_hello) == COLL_HELLO_BYTES, "a hello has no padding");

/* Fills a hello, with a fresh nonce. */
void coll_hello_make(coll_hello *hello, int rank, int peer, int world_size, coll_tcp_auth auth);

/* Whether a hello is one from rank `peer` to rank `rank`, in the same job's terms; peer -1: from
 * any higher rank. */
bool coll_hello_fits(const coll_hello *hello, int rank, int peer, int world_size,
                     coll_tcp_auth auth);

/* The tag of the connector's hello, as long as a proof. */
void coll_hello_tag(const uint8_t job_key[COLL_JOB_KEY_BYTES], const coll_hello *connector_hello,
                    uint8_t tag[COLL_PROOF_BYTES]);
bool coll_hello_tag_fits(const uint8_t job_key[COLL_JOB_KEY_BYTES],
                         const coll_hello *connector_hello, const uint8_t tag[COLL_PROOF_BYTES]);

void coll_proof_make(const uint8_t job_key[COLL_JOB_KEY_BYTES], bool listener,
                     const coll_hello *connector_hello, const coll_hello *listener_hello,
                     uint8_t proof[COLL_PROOF_BYTES]);
bool coll_proof_fits(const uint8_t job_key[COLL_JOB_KEY_BYTES], bool listener,
                     const coll_hello *connector_hello, const coll_hello *listener_hello,
                     const uint8_t proof[COLL_PROOF_BYTES]);

/* The seals of both directions, for the side named. */
void coll_handshake_seals(const uint8_t job_key[COLL_JOB_KEY_BYTES], bool listener,
                          const coll_hello *connector_hello, const coll_hello *listener_hello,
                          coll_seal *in, coll_seal *out);

/* Of a fresh socket, without waiting. It takes one of these messages at once, or it is no good: false. */
bool coll_handshake_send(int fd, const void *data, size_t size_bytes);
/* Reads on in `received`, which has *received_bytes, up to `wanted` in all: 1 whole, 0 not yet, -1 the end. */
int coll_handshake_receive(int fd, uint8_t *received, size_t *received_bytes, size_t wanted);

#endif
