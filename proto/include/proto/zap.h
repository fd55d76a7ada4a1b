/* Admission (ZAP, ZeroMQ RFC 27): a thread that is asked about every connection of a context, lets
 * in the CURVE keys that its caller admits, and nobody else. NULL, PLAIN and GSSAPI are refused.
 *
 * It binds inproc://zeromq.zap.01 before any other socket of the context exists, so no connection
 * is ever made without it. It ends when the context is shut down; if it ends otherwise, the
 * process is aborted. */
#ifndef PROTO_ZAP_H
#define PROTO_ZAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/key.h"

enum {
    PROTO_ZAP_USER_BYTES = 2 * PROTO_KEY_BYTES + 1, /* a key in hex fits; with NUL */
    PROTO_ZAP_FRAMES = 7,                           /* of a request with CURVE */
    PROTO_ZAP_FRAME_BYTES = 256,
};

/* Called on the admission thread. domain is the listening socket's. True lets the key in; user_id
 * then names it, and is found at every message of its connection as "User-Id". */
typedef bool (*proto_zap_admit_fn)(void *user, const char *domain,
                                   const uint8_t key[PROTO_KEY_BYTES],
                                   char user_id[PROTO_ZAP_USER_BYTES]);

typedef struct proto_zap_options {
    proto_zap_admit_fn admit;
    void *user; /* outlives the handler */
} proto_zap_options;

typedef struct proto_zap proto_zap;

BASE_MUST_CHECK base_status proto_zap_start(void *context, const proto_zap_options *options,
                                            proto_zap **zap, base_error *reterr);

/* After zmq_ctx_shutdown: waits for the thread and frees. NULL is fine. */
void proto_zap_join(proto_zap *zap);

typedef struct proto_zap_frame {
    uint8_t data[PROTO_ZAP_FRAME_BYTES];
    size_t size_bytes;
} proto_zap_frame;

/* One request, judged: its form, then admit. count is how many frames came, which may be more than
 * there are in frames. Pure but for admit. */
bool proto_zap_judge(const proto_zap_frame frames[PROTO_ZAP_FRAMES], int count,
                     const proto_zap_options *options, char user_id[PROTO_ZAP_USER_BYTES]);

#endif
