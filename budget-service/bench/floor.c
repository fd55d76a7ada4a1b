/* Times what no guard could be faster than: a CURVE round trip, and one durable append. Called by
 * authorize.c. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "proto/socket.h"
#include "proto/zap.h"
#include "service_bench.h"

enum {
    QUESTION_BYTES = 256,
    ANSWER_BYTES = 1536, /* an answer with a token */
    APPEND_BYTES = 4096,
};

static bool admit(void *user, const char *domain, const uint8_t key[PROTO_KEY_BYTES],
                  char user_id[PROTO_ZAP_USER_BYTES])
{
    (void)user;
    (void)domain;
    (void)key;
    (void)snprintf(user_id, PROTO_ZAP_USER_BYTES, "bench");
    return true;
}

/* Answers every question until one of no bytes comes. */
static void *echo(void *socket)
{
    uint8_t routing[16];
    uint8_t question[QUESTION_BYTES];
    uint8_t answer[ANSWER_BYTES] = {0};
    for (;;) {
        zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
        (void)zmq_poll(&item, 1, -1);
        const int routing_bytes = zmq_recv(socket, routing, sizeof routing, 0);
        if (routing_bytes < 0) {
            continue;
        }
        const int got = zmq_recv(socket, question, sizeof question, 0);
        (void)zmq_send(socket, routing, (size_t)routing_bytes, ZMQ_SNDMORE);
        (void)zmq_send(socket, answer, sizeof answer, 0);
        if (got == 0) {
            return NULL;
        }
    }
}

static void ask(void *socket, size_t size_bytes)
{
    uint8_t question[QUESTION_BYTES] = {0};
    uint8_t answer[ANSWER_BYTES];
    zmq_pollitem_t out = {.socket = socket, .events = ZMQ_POLLOUT};
    zmq_pollitem_t in = {.socket = socket, .events = ZMQ_POLLIN};
    (void)zmq_poll(&out, 1, -1);
    (void)zmq_send(socket, question, size_bytes, 0);
    (void)zmq_poll(&in, 1, -1);
    (void)zmq_recv(socket, answer, sizeof answer, 0);
}

/* Two contexts, as service and client have each their own. */
static void open_sockets(bench_floor *floor, const char *dir)
{
    base_error error = {0};
    char endpoint[BASE_PATH_BYTES + 16];
    proto_keypair keys[2];
    const proto_zap_options zap_options = {.admit = admit};
    proto_keypair_make(&keys[0]);
    proto_keypair_make(&keys[1]);
    const proto_socket_options options[2] = {
        {.kind = PROTO_SOCKET_SERVE,
         .message_bytes_max = 4096,
         .keys = &keys[0],
         .zap_domain = "bench"},
        {.kind = PROTO_SOCKET_ASK,
         .message_bytes_max = 4096,
         .keys = &keys[1],
         .server_key = keys[0].public_key},
    };
    (void)snprintf(endpoint, sizeof endpoint, "ipc://%s/echo.sock", dir);
    for (int i = 0; i < 2; i++) {
        if (proto_socket_context(&floor->contexts[i], &error) != BASE_OK ||
            (i == 0 &&
             proto_zap_start(floor->contexts[0], &zap_options, &floor->zap, &error) != BASE_OK) ||
            proto_socket_open(floor->contexts[i], &options[i], &floor->sockets[i], &error) !=
                BASE_OK) {
            bench_die("echo", &error);
        }
    }
    if (zmq_bind(floor->sockets[0], endpoint) != 0 ||
        zmq_connect(floor->sockets[1], endpoint) != 0 ||
        pthread_create(&floor->thread, NULL, echo, floor->sockets[0]) != 0) {
        (void)proto_zmq_fail(&error, endpoint);
        bench_die("echo", &error);
    }
}

void bench_floor_open(bench_floor *floor, const bench_service *bench)
{
    base_error error = {0};
    *floor = (bench_floor){.fd = -1};
    open_sockets(floor, bench->dir);
    (void)snprintf(floor->path, sizeof floor->path, "%s/append", bench->dir);
    floor->fd = open(floor->path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (floor->fd < 0) {
        (void)base_fail_errno(&error, errno, "%s", floor->path);
        bench_die("append", &error);
    }
}

void bench_floor_close(bench_floor *floor)
{
    ask(floor->sockets[1], 0);
    (void)pthread_join(floor->thread, NULL);
    (void)zmq_close(floor->sockets[1]);
    (void)zmq_close(floor->sockets[0]);
    (void)zmq_ctx_shutdown(floor->contexts[0]);
    proto_zap_join(floor->zap);
    (void)zmq_ctx_term(floor->contexts[0]);
    (void)zmq_ctx_term(floor->contexts[1]);
    (void)close(floor->fd);
    (void)unlink(floor->path);
}

int64_t bench_echo_ns(bench_floor *floor)
{
    const int64_t begun_ns = base_now_ns();
    ask(floor->sockets[1], QUESTION_BYTES);
    return base_now_ns() - begun_ns;
}

int64_t bench_append_ns(bench_floor *floor)
{
    base_error error = {0};
    uint8_t page[APPEND_BYTES];
    memset(page, 'x', sizeof page);
    const int64_t begun_ns = base_now_ns();
    if (write(floor->fd, page, sizeof page) != (ssize_t)sizeof page || fdatasync(floor->fd) != 0) {
        (void)base_fail_errno(&error, errno, "%s", floor->path);
        bench_die("append", &error);
    }
    return base_now_ns() - begun_ns;
}
