/* What no guard could be faster than: a CURVE round trip, and one durable append. */
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
    SAMPLES = 500,
    WARMUP = 50,
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

static double measure_echo(void *socket)
{
    int64_t taken_ns[SAMPLES];
    for (int i = -WARMUP; i < SAMPLES; i++) {
        const int64_t begun_ns = base_now_ns();
        ask(socket, QUESTION_BYTES);
        if (i >= 0) {
            taken_ns[i] = base_now_ns() - begun_ns;
        }
    }
    ask(socket, 0);
    return bench_percentile_us(taken_ns, SAMPLES, 50);
}

/* Two contexts, as service and client have each their own. */
double bench_echo_us(const bench_service *bench)
{
    base_error error = {0};
    char endpoint[BASE_PATH_BYTES + 16];
    void *contexts[2] = {NULL, NULL};
    void *sockets[2] = {NULL, NULL};
    proto_keypair keys[2];
    proto_zap *zap = NULL;
    pthread_t thread;
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
    (void)snprintf(endpoint, sizeof endpoint, "ipc://%s/echo.sock", bench->dir);
    for (int i = 0; i < 2; i++) {
        if (proto_socket_context(&contexts[i], &error) != BASE_OK ||
            (i == 0 && proto_zap_start(contexts[0], &zap_options, &zap, &error) != BASE_OK) ||
            proto_socket_open(contexts[i], &options[i], &sockets[i], &error) != BASE_OK) {
            bench_die("echo", &error);
        }
    }
    if (zmq_bind(sockets[0], endpoint) != 0 || zmq_connect(sockets[1], endpoint) != 0 ||
        pthread_create(&thread, NULL, echo, sockets[0]) != 0) {
        (void)proto_zmq_fail(&error, endpoint);
        bench_die("echo", &error);
    }
    const double taken_us = measure_echo(sockets[1]);
    (void)pthread_join(thread, NULL);
    (void)zmq_close(sockets[1]);
    (void)zmq_close(sockets[0]);
    (void)zmq_ctx_shutdown(contexts[0]);
    proto_zap_join(zap);
    (void)zmq_ctx_term(contexts[0]);
    (void)zmq_ctx_term(contexts[1]);
    return taken_us;
}

double bench_append_us(const bench_service *bench)
{
    base_error error = {0};
    char path[BASE_PATH_BYTES + 16];
    int64_t taken_ns[SAMPLES];
    uint8_t page[APPEND_BYTES];
    (void)snprintf(path, sizeof path, "%s/append", bench->dir);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    memset(page, 'x', sizeof page);
    for (int i = -WARMUP; i < SAMPLES; i++) {
        const int64_t begun_ns = base_now_ns();
        if (write(fd, page, sizeof page) != (ssize_t)sizeof page || fdatasync(fd) != 0) {
            (void)base_fail_errno(&error, errno, "%s", path);
            bench_die("append", &error);
        }
        if (i >= 0) {
            taken_ns[i] = base_now_ns() - begun_ns;
        }
    }
    (void)close(fd);
    (void)unlink(path);
    return bench_percentile_us(taken_ns, SAMPLES, 50);
}
