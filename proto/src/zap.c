#include "zap.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/assert.h"
#include "socket.h"

/* A request's frames, by RFC 27. */
enum {
    FRAME_VERSION,
    FRAME_REQUEST_ID,
    FRAME_DOMAIN,
    FRAME_ADDRESS,
    FRAME_IDENTITY,
    FRAME_MECHANISM,
    FRAME_CREDENTIALS,
    FRAME_COUNT,
    FRAME_BYTES = 256,
};

typedef struct frame {
    uint8_t data[FRAME_BYTES];
    size_t size_bytes;
} frame;

struct proto_zap {
    void *socket;
    pthread_t thread;
    int count;
    uint8_t keys[][PROTO_KEY_BYTES];
};

static bool frame_is(const frame *got, const char *text)
{
    return got->size_bytes == strlen(text) && memcmp(got->data, text, got->size_bytes) == 0;
}

/* Reads one request of up to FRAME_COUNT frames; more are dropped. False: the context has ended. */
static bool read_request(void *socket, frame frames[FRAME_COUNT], int *count)
{
    int more = 1;
    *count = 0;
    while (more != 0) {
        frame spare;
        frame *into = *count < FRAME_COUNT ? &frames[*count] : &spare;
        int got = -1;
        do {
            got = zmq_recv(socket, into->data, FRAME_BYTES, 0);
        } while (got < 0 && zmq_errno() == EINTR);
        if (got < 0) {
            return false;
        }
        into->size_bytes = got > FRAME_BYTES ? 0 : (size_t)got;
        *count += 1;
        size_t more_bytes = sizeof more;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &more_bytes) != 0) {
            return false;
        }
    }
    return true;
}

/* The rank whose key it is, or -1. */
static int admitted_rank(const proto_zap *zap, const frame frames[FRAME_COUNT], int count)
{
    if (count != FRAME_COUNT || !frame_is(&frames[FRAME_VERSION], "1.0") ||
        !frame_is(&frames[FRAME_DOMAIN], proto_zap_domain) ||
        !frame_is(&frames[FRAME_MECHANISM], "CURVE") ||
        frames[FRAME_CREDENTIALS].size_bytes != PROTO_KEY_BYTES) {
        return -1;
    }
    for (int rank = 0; rank < zap->count; rank++) {
        if (memcmp(zap->keys[rank], frames[FRAME_CREDENTIALS].data, PROTO_KEY_BYTES) == 0) {
            return rank;
        }
    }
    return -1;
}

static bool send_frame(void *socket, const void *data, size_t size_bytes, bool last)
{
    return proto_zmq_send(socket, data, size_bytes, last ? 0 : ZMQ_SNDMORE) >= 0;
}

static bool send_reply(void *socket, const frame *request_id, int rank)
{
    char user[16] = "";
    if (rank >= 0) {
        (void)snprintf(user, sizeof user, "%d", rank);
    }
    const char *code = rank >= 0 ? "200" : "400";
    const char *text = rank >= 0 ? "OK" : "this key belongs to no rank of the job";
    return send_frame(socket, "1.0", 3, false) &&
           send_frame(socket, request_id->data, request_id->size_bytes, false) &&
           send_frame(socket, code, 3, false) && send_frame(socket, text, strlen(text), false) &&
           send_frame(socket, user, strlen(user), false) && send_frame(socket, "", 0, true);
}

static void *zap_thread(void *user)
{
    proto_zap *zap = user;
    frame frames[FRAME_COUNT] = {0};
    int count = 0;
    while (read_request(zap->socket, frames, &count)) {
        const int rank = admitted_rank(zap, frames, count);
        if (!send_reply(zap->socket, &frames[FRAME_REQUEST_ID], rank)) {
            break;
        }
    }
    /* Without this thread a rank that joins would wait for ever: end loudly instead, and let nobody
     * in. Only bus.c, which shuts the context down, ends it otherwise. */
    const bool shut_down = zmq_errno() == ETERM;
    BASE_ASSERT(shut_down);
    (void)zmq_close(zap->socket);
    return NULL;
}

base_status proto_zap_start(void *context, const uint8_t (*keys)[PROTO_KEY_BYTES], int count,
                            proto_zap **zap, base_error *reterr)
{
    const proto_socket_options options = {.kind = PROTO_SOCKET_ZAP, .message_bytes_max = -1};
    proto_zap *made = calloc(1, sizeof *made + (size_t)count * PROTO_KEY_BYTES);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the job's admission list");
    }
    made->count = count;
    memcpy(made->keys, keys, (size_t)count * PROTO_KEY_BYTES);
    base_status status = proto_socket_open(context, &options, &made->socket, reterr);
    if (status != BASE_OK) {
        free(made);
        return status;
    }
    if (zmq_bind(made->socket, "inproc://zeromq.zap.01") != 0) {
        status = proto_zmq_fail(reterr, "cannot bind the admission socket");
    } else {
        const int failed = pthread_create(&made->thread, NULL, zap_thread, made);
        if (failed != 0) {
            status = base_fail_errno(reterr, failed, "cannot start the admission thread");
        }
    }
    if (status != BASE_OK) {
        (void)zmq_close(made->socket);
        free(made);
        return status;
    }
    *zap = made;
    return BASE_OK;
}

void proto_zap_join(proto_zap *zap)
{
    if (zap != NULL) {
        (void)pthread_join(zap->thread, NULL);
        free(zap);
    }
}
