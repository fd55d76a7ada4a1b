/* The access check of a ZeroMQ context (ZAP, RFC 27). A thread is asked about every connection. It
 * admits the CURVE keys that its caller's function admits. NULL, PLAIN and GSSAPI are refused.
 *
 * It binds inproc://zeromq.zap.01 before the context has any other socket. So no connection is made
 * without it. It ends when the context is shut down. If it ends otherwise, the process aborts. */
#ifndef PROTO_ZAP_H
#define PROTO_ZAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/key.h"

enum {
    PROTO_ZAP_USER_BYTES = 2 * PROTO_KEY_BYTES + 1, /* room for a key in hex, with NUL */
    PROTO_ZAP_FRAMES = 7,                           /* of a request with CURVE */
    PROTO_ZAP_FRAME_BYTES = 256,
};

/* Called on the access-check thread. domain is the listening socket's. If it returns true, the key
 * is admitted. user_id then names the key, and every message of its connection has it as
 * "User-Id". */
typedef bool (*proto_zap_admit_fn)(void *user, const char *domain,
                                   const uint8_t key[PROTO_KEY_BYTES],
                                   char user_id[PROTO_ZAP_USER_BYTES]);

typedef struct proto_zap_options {
    proto_zap_admit_fn admit;
    void *user; /* must outlive the thread */
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

/* Checks one request: first its form, then the key by admit. count is how many frames came, which
 * may be more than `frames` holds. Pure except for admit. */
bool proto_zap_check(const proto_zap_frame frames[PROTO_ZAP_FRAMES], int count,
                     const proto_zap_options *options, char user_id[PROTO_ZAP_USER_BYTES]);

#endif
