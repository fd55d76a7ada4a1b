/* The access-check thread (ZAP) of a ZeroMQ context. It asks its caller's function about each CURVE
 * key. bus.c starts it for a job, and budget-service for its clients. */
#include "proto/zap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/assert.h"
#include "proto/socket.h"

/* The frames of a request, by RFC 27. */
enum {
    FRAME_VERSION,
    FRAME_REQUEST_ID,
    FRAME_DOMAIN,
    FRAME_ADDRESS,
    FRAME_IDENTITY,
    FRAME_MECHANISM,
    FRAME_CREDENTIALS,
    FRAME_COUNT,
};
_Static_assert(FRAME_COUNT == (int)PROTO_ZAP_FRAMES, "the header says how many there are");

struct proto_zap {
    void *socket;
    pthread_t thread;
    proto_zap_options options;
};

static bool frame_is(const proto_zap_frame *got, const char *text)
{
    return got->size_bytes == strlen(text) && memcmp(got->data, text, got->size_bytes) == 0;
}

/* Reads one request. Frames after the first FRAME_COUNT are dropped. False: the context has
 * ended. */
static bool read_request(void *socket, proto_zap_frame frames[FRAME_COUNT], int *count)
{
    int more = 1;
    *count = 0;
    while (more != 0) {
        proto_zap_frame spare;
        proto_zap_frame *into = *count < FRAME_COUNT ? &frames[*count] : &spare;
        int got = -1;
        do {
            got = zmq_recv(socket, into->data, PROTO_ZAP_FRAME_BYTES, 0);
        } while (got < 0 && zmq_errno() == EINTR);
        if (got < 0) {
            return false;
        }
        into->size_bytes = got > PROTO_ZAP_FRAME_BYTES ? 0 : (size_t)got;
        *count += 1;
        size_t more_bytes = sizeof more;
        if (zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &more_bytes) != 0) {
            return false;
        }
    }
    return true;
}

bool proto_zap_check(const proto_zap_frame frames[PROTO_ZAP_FRAMES], int count,
                     const proto_zap_options *options, char user_id[PROTO_ZAP_USER_BYTES])
{
    char domain[PROTO_ZAP_FRAME_BYTES];
    user_id[0] = '\0';
    if (count != FRAME_COUNT || !frame_is(&frames[FRAME_VERSION], "1.0") ||
        !frame_is(&frames[FRAME_MECHANISM], "CURVE") ||
        frames[FRAME_CREDENTIALS].size_bytes != PROTO_KEY_BYTES ||
        frames[FRAME_DOMAIN].size_bytes == 0 || frames[FRAME_DOMAIN].size_bytes >= sizeof domain) {
        return false;
    }
    memcpy(domain, frames[FRAME_DOMAIN].data, frames[FRAME_DOMAIN].size_bytes);
    domain[frames[FRAME_DOMAIN].size_bytes] = '\0';
    return strlen(domain) == frames[FRAME_DOMAIN].size_bytes &&
           options->admit(options->user, domain, frames[FRAME_CREDENTIALS].data, user_id);
}

static bool send_frame(void *socket, const void *data, size_t size_bytes, bool last)
{
    return proto_zmq_send(socket, data, size_bytes, last ? 0 : ZMQ_SNDMORE) >= 0;
}

static bool send_reply(void *socket, const proto_zap_frame *request_id, bool admitted,
                       const char *user)
{
    const char *code = admitted ? "200" : "400";
    const char *text = admitted ? "OK" : "this key is not on the list";
    return send_frame(socket, "1.0", 3, false) &&
           send_frame(socket, request_id->data, request_id->size_bytes, false) &&
           send_frame(socket, code, 3, false) && send_frame(socket, text, strlen(text), false) &&
           send_frame(socket, user, strlen(user), false) && send_frame(socket, "", 0, true);
}

static void *zap_thread(void *user)
{
    proto_zap *zap = user;
    proto_zap_frame frames[FRAME_COUNT] = {0};
    char user_id[PROTO_ZAP_USER_BYTES] = "";
    int count = 0;
    while (read_request(zap->socket, frames, &count)) {
        const bool admitted = proto_zap_check(frames, count, &zap->options, user_id);
        if (!send_reply(zap->socket, &frames[FRAME_REQUEST_ID], admitted,
                        admitted ? user_id : "")) {
            break;
        }
    }
    /* Without this thread every new connection would wait for ever. So end the process, and admit
     * nobody. In order, only the shutdown of the context ends the thread. */
    const bool shut_down = zmq_errno() == ETERM;
    BASE_ASSERT(shut_down);
    (void)zmq_close(zap->socket);
    return NULL;
}

base_status proto_zap_start(void *context, const proto_zap_options *options, proto_zap **zap,
                            base_error *reterr)
{
    const proto_socket_options socket_options = {.kind = PROTO_SOCKET_ZAP, .message_bytes_max = -1};
    proto_zap *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the admission thread");
    }
    made->options = *options;
    base_status status = proto_socket_open(context, &socket_options, &made->socket, reterr);
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
