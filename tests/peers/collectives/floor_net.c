/* Two ranks over a socket, or over ZeroMQ.
 *
 * tcp: one socket that does not pace (bbr is set to reno) and has 4 MiB of buffer. Each side sends
 * all it has in one call and then receives, polling, straight to where it belongs; only all-reduce
 * and reduce-scatter receive into memory beside and add. Of what was tried between two namespaces
 * nothing was faster: less per call (64 KiB: half as fast), receiving between sends, halves instead
 * of the whole vector, adding while more arrives.
 *
 * zmq: a PAIR, with CURVE where ours has it; messages of 512 KiB at most, received polling. From
 * 1 MiB on more settings would be better: ours is. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "../../../collectives/bench/gate.h"
#include "floor.h"

enum { ENDPOINT_BYTES = 64, KEY_TEXT_BYTES = 41, MESSAGE_BYTES = 512 * 1024 };

static struct {
    peer_options options;
    float *theirs; /* room for what the peer sends */
    size_t theirs_bytes;
    int socket;
    void *zmq;
} net;

static const char *own_address(void)
{
    return net.options.address != NULL ? net.options.address : "127.0.0.1";
}

/* Before it connects or listens: windows and pacing are settled then. */
static void set_up(int link)
{
    const int one = 1;
    const int buffer = 4 << 20;
    char congestion[17] = "";
    socklen_t length = sizeof congestion - 1;
    if (setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        setsockopt(link, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer) != 0 ||
        setsockopt(link, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) != 0 ||
        getsockopt(link, IPPROTO_TCP, TCP_CONGESTION, congestion, &length) != 0 ||
        (strncmp(congestion, "bbr", 3) == 0 &&
         setsockopt(link, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) != 0)) {
        peer_die("cannot set the socket up: %s", strerror(errno));
    }
}

static void open_tcp(const peer_options *options)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct sockaddr_in all[2];
    socklen_t length = sizeof own;
    int link = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int listener = link;
    net.options = *options;
    set_up(link);
    if (inet_pton(AF_INET, own_address(), &own.sin_addr) != 1 ||
        bind(link, (struct sockaddr *)&own, sizeof own) != 0 || listen(link, 1) != 0 ||
        getsockname(link, (struct sockaddr *)&own, &length) != 0) {
        peer_die("cannot listen on %s: %s", own_address(), strerror(errno));
    }
    peer_exchange(&own, all, sizeof own);
    if (net.options.rank == 0) {
        link = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    } else {
        link = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        set_up(link);
        if (connect(link, (struct sockaddr *)&all[0], sizeof all[0]) != 0) {
            peer_die("cannot connect: %s", strerror(errno));
        }
    }
    if (fcntl(link, F_SETFL, O_NONBLOCK) != 0) {
        peer_die("cannot set the socket up: %s", strerror(errno));
    }
    net.socket = link;
}

/* Nobody asks who has the other key. */
static void encrypt(void)
{
    char keys[2][2][KEY_TEXT_BYTES];
    const int server = net.options.rank == 0;
    if (zmq_curve_keypair(keys[net.options.rank][0], keys[net.options.rank][1]) != 0) {
        peer_die("cannot make a CURVE key pair");
    }
    peer_exchange(keys[net.options.rank], keys, sizeof keys[0]);
    if (zmq_setsockopt(net.zmq, ZMQ_CURVE_PUBLICKEY, keys[net.options.rank][0], KEY_TEXT_BYTES) !=
            0 ||
        zmq_setsockopt(net.zmq, ZMQ_CURVE_SECRETKEY, keys[net.options.rank][1], KEY_TEXT_BYTES) !=
            0 ||
        (server ? zmq_setsockopt(net.zmq, ZMQ_CURVE_SERVER, &server, sizeof server)
                : zmq_setsockopt(net.zmq, ZMQ_CURVE_SERVERKEY, keys[0][0], KEY_TEXT_BYTES)) != 0) {
        peer_die("cannot encrypt: %s", zmq_strerror(zmq_errno()));
    }
}

static void open_zmq(const peer_options *options)
{
    char endpoint[ENDPOINT_BYTES] = "";
    char all[2][ENDPOINT_BYTES];
    size_t length = sizeof endpoint;
    net.options = *options;
    (void)bench_bind(options->rank, options->size); /* and with it the library's threads */
    net.zmq = zmq_socket(zmq_ctx_new(), ZMQ_PAIR);
    if (strcmp(options->tcp_auth, "off") != 0) {
        encrypt();
    }
    (void)snprintf(endpoint, sizeof endpoint, "tcp://%s:*", own_address());
    if (net.options.rank == 0 &&
        (zmq_bind(net.zmq, endpoint) != 0 ||
         zmq_getsockopt(net.zmq, ZMQ_LAST_ENDPOINT, endpoint, &length) != 0)) {
        peer_die("cannot bind %s", endpoint);
    }
    peer_exchange(endpoint, all, sizeof endpoint);
    if (net.options.rank == 1 && zmq_connect(net.zmq, all[0]) != 0) {
        peer_die("cannot connect to %s", all[0]);
    }
}

/* Room for what the peer sends. */
static float *room_for(size_t size_bytes)
{
    if (net.theirs_bytes < size_bytes) {
        free(net.theirs);
        net.theirs = aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
        net.theirs_bytes = size_bytes;
    }
    return net.theirs;
}

static void run_tcp(const peer_task *task, int root, const floor_buffers *buffers)
{
    const floor_swap s = floor_swap_of(task, net.options.rank, root);
    const size_t give_bytes = s.give_count * sizeof(float);
    const size_t take_bytes = s.take_count * sizeof(float);
    uint8_t *into = (uint8_t *)(s.with != NULL ? room_for(take_bytes) : s.take);
    size_t sent = 0;
    size_t received = 0;
    (void)buffers;
    if (s.keep_count > 0) {
        memcpy(s.kept, s.keep, s.keep_count * sizeof(float));
    }
    while (sent < give_bytes || received < take_bytes) {
        if (sent < give_bytes) {
            const ssize_t moved =
                send(net.socket, (const uint8_t *)s.give + sent, give_bytes - sent, MSG_NOSIGNAL);
            sent += moved > 0 ? (size_t)moved : 0;
        }
        if (received < take_bytes) {
            const ssize_t moved = recv(net.socket, into + received, take_bytes - received, 0);
            if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR)) {
                peer_die("the other side is gone");
            }
            received += moved > 0 ? (size_t)moved : 0;
        }
    }
    if (s.with != NULL) {
        floor_add(s.take, s.with, net.theirs, s.take_count);
    }
}

static void run_zmq(const peer_task *task, int root, const floor_buffers *buffers)
{
    const floor_swap s = floor_swap_of(task, net.options.rank, root);
    const size_t most = MESSAGE_BYTES / sizeof(float);
    size_t sent = 0;
    size_t received = 0;
    (void)buffers;
    if (s.keep_count > 0) {
        memcpy(s.kept, s.keep, s.keep_count * sizeof(float));
    }
    while (sent < s.give_count || received < s.take_count) {
        zmq_msg_t message;
        if (sent < s.give_count) {
            const size_t part = floor_smaller(most, s.give_count - sent);
            const int size = zmq_send(net.zmq, s.give + sent, part * sizeof(float), ZMQ_DONTWAIT);
            sent += size >= 0 ? part : 0;
        }
        if (received == s.take_count) {
            continue;
        }
        (void)zmq_msg_init(&message);
        if (zmq_msg_recv(&message, net.zmq, ZMQ_DONTWAIT) < 0) {
            (void)sched_yield(); /* to the library's threads */
            continue;
        }
        const size_t part = zmq_msg_size(&message) / sizeof(float);
        if (s.with != NULL) {
            floor_add(s.take + received, s.with + received, zmq_msg_data(&message), part);
        } else {
            memcpy(s.take + received, zmq_msg_data(&message), part * sizeof(float));
        }
        received += part;
        (void)zmq_msg_close(&message);
    }
}

static bool has(peer_kind kind)
{
    return kind < PEER_SCAN;
}

const floor_way floor_tcp = {.open = open_tcp, .has = has, .run = run_tcp};
const floor_way floor_zmq = {.open = open_zmq, .has = has, .run = run_zmq};
