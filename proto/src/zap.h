/* Admission (ZAP, ZeroMQ RFC 27): a thread that lets in the public keys on a list, each as the rank
 * it belongs to, and nobody else. Private to proto.
 *
 * It binds inproc://zeromq.zap.01 before any other socket of the context exists, so no connection
 * is ever made without it. It ends when the context is shut down. */
#ifndef PROTO_ZAP_H
#define PROTO_ZAP_H

#include <stdint.h>

#include "base/status.h"
#include "proto/key.h"

typedef struct proto_zap proto_zap;

/* Copies the keys; rank i is the owner of keys[i]. */
BASE_MUST_CHECK base_status proto_zap_start(void *context, const uint8_t (*keys)[PROTO_KEY_BYTES],
                                            int count, proto_zap **zap, base_error *reterr);

/* After zmq_ctx_shutdown: waits for the thread and frees. NULL is fine. */
void proto_zap_join(proto_zap *zap);

#endif
