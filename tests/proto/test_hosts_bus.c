/* Both ROUTERs of a job on several hosts, the head's for agents and the launcher's for ranks, and
 * the job key: only who has a key gets in, and each as its own node or rank. Garbage, recorded bytes
 * and messages of the wrong side do not. */
#include <arpa/inet.h>
#include <control.pb-c.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/splitmix.h"
#include "proto/bus.h"
#include "proto/job_key.h"
#include "relay.h"
#include "support.h"

enum { NODES = 3, WAIT_MS = 10000, RECORD_BYTES = 64 * 1024, WRONG_RECORDINGS = 40 };

/* One of a launcher's two ROUTERs: the head's for agents, or the launcher's for ranks, which has a
 * rank for each node here. */
typedef struct net {
    bool agents;
    proto_job_key key;
    proto_keypair pairs[NODES];
    proto_bus *head;
    struct sockaddr_in at;
} net;

static void net_open(net *n, bool agents)
{
    base_error error;
    uint8_t public_keys[NODES][PROTO_KEY_BYTES];
    *n = (net){.agents = agents, .key = {.run_id = "0123456789abcdef"}};
    proto_random_key(n->key.seed);
    for (int node = 0; node < NODES; node++) {
        proto_job_key_node(&n->key, node, &n->pairs[node]);
        memcpy(public_keys[node], n->pairs[node].public_key, PROTO_KEY_BYTES);
    }
    const proto_bus_listen_options options = {
        .address = "127.0.0.1",
        .keys = &n->pairs[0],
        .world_size = NODES,
        .rank_public_keys = (const uint8_t(*)[PROTO_KEY_BYTES])public_keys,
        .agents = agents,
    };
    assert_ok(proto_bus_listen(&options, &n->head, &error), &error);
    const char *colon = strrchr(proto_bus_endpoint(n->head), ':');
    assert_non_null(colon);
    n->at = (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_addr = {htonl(INADDR_LOOPBACK)},
                                 .sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10))};
}

static proto_bus *connect_at(const net *n, const struct sockaddr_in *at, const proto_keypair *keys,
                             const uint8_t *head_key)
{
    base_error error;
    proto_bus *bus = NULL;
    proto_key_file key = {.rank = *keys};
    (void)snprintf(key.endpoint, sizeof key.endpoint, "tcp://127.0.0.1:%d", ntohs(at->sin_port));
    memcpy(key.launcher_public_key, head_key, PROTO_KEY_BYTES);
    const proto_bus_agent_options options = {
        .endpoint = key.endpoint, .keys = keys, .head_public_key = head_key, .nodes = NODES};
    assert_ok(n->agents ? proto_bus_connect_head(&options, &bus, &error)
                        : proto_bus_connect(&key, NODES, &bus, &error),
              &error);
    return bus;
}

static proto_bus *connect_as(const net *n, int node)
{
    return connect_at(n, &n->at, &n->pairs[node], n->pairs[0].public_key);
}

static void wait_readable(proto_bus *bus, int64_t deadline_ns)
{
    struct pollfd polled[PROTO_BUS_FDS];
    proto_bus_polls(bus, polled);
    (void)poll(polled, PROTO_BUS_FDS, base_deadline_poll_ms(deadline_ns, 100));
    assert_true(base_now_ns() < deadline_ns);
}

static base_status next_message(proto_bus *bus, int *node, Ringfence__Control__Envelope **got)
{
    base_error error;
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    for (;;) {
        const base_status status = proto_bus_recv(bus, node, got, &error);
        if (status != BASE_OK || *got != NULL) {
            return status;
        }
        wait_readable(bus, deadline_ns);
    }
}

/* Waits for an event, and sees that no message comes before it. Returns whose it is. */
static int wait_event(proto_bus *bus, proto_bus_event_kind kind)
{
    base_error error;
    int node = PROTO_NO_RANK;
    proto_bus_event event = {.kind = 0};
    Ringfence__Control__Envelope *got = NULL;
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    while (event.kind != kind) {
        if (!proto_bus_next_event(bus, &event)) {
            wait_readable(bus, deadline_ns);
        }
        assert_ok(proto_bus_recv(bus, &node, &got, &error), &error);
        assert_null(got);
    }
    return event.rank;
}

/* A message that may come at any time: an agent's Heartbeat, or a rank's Step. */
static void send_message(const net *n, proto_bus *bus)
{
    base_error error;
    Ringfence__Control__Heartbeat heartbeat = RINGFENCE__CONTROL__HEARTBEAT__INIT;
    Ringfence__Control__Step step = RINGFENCE__CONTROL__STEP__INIT;
    ProtobufCMessage *body = n->agents ? &heartbeat.base : &step.base;
    assert_ok(proto_bus_send(bus, PROTO_NO_RANK, body, &error), &error);
}

static void expect_message(net *n, int node)
{
    int from = PROTO_NO_RANK;
    Ringfence__Control__Envelope *got = NULL;
    assert_status(next_message(n->head, &from, &got), BASE_OK);
    assert_int_equal(from, node);
    assert_int_equal(got->body_case, n->agents ? RINGFENCE__CONTROL__ENVELOPE__BODY_HEARTBEAT
                                               : RINGFENCE__CONTROL__ENVELOPE__BODY_STEP);
}

/* The next message is one that this node sends now. So nothing has come before it. */
static void expect_nothing_but(net *n, int node)
{
    base_error error;
    int from = PROTO_NO_RANK;
    Ringfence__Control__Envelope *got = NULL;
    proto_bus *right = connect_as(n, node);
    send_message(n, right);
    expect_message(n, node);
    assert_ok(proto_bus_recv(n->head, &from, &got, &error), &error);
    assert_null(got);
    proto_bus_close(right);
    proto_bus_forget(n->head, node);
}

static void the_key_says_which_node(void **state)
{
    net n;
    net_open(&n, **(bool **)state);
    for (int node = 1; node < NODES; node++) {
        expect_nothing_but(&n, node);
    }
    proto_bus_close(n.head);
}

/* Keys of another run: of the one that connects, and of the head that it looks for. */
static void another_key_gets_nowhere(void **state)
{
    net n;
    proto_keypair other_agent;
    proto_keypair other_head;
    net_open(&n, **(bool **)state);
    proto_job_key other = n.key;
    other.run_id[0] = 'f'; /* the same seed, another run */
    proto_job_key_node(&other, 1, &other_agent);
    proto_job_key_node(&other, 0, &other_head);
    proto_bus *stranger = connect_at(&n, &n.at, &other_agent, n.pairs[0].public_key);
    send_message(&n, stranger);
    (void)wait_event(n.head, PROTO_BUS_REFUSED);
    proto_bus *lost = connect_at(&n, &n.at, &n.pairs[1], other_head.public_key);
    send_message(&n, lost);
    (void)wait_event(n.head, PROTO_BUS_REFUSED);
    expect_nothing_but(&n, 1);
    proto_bus_close(stranger);
    proto_bus_close(lost);
    proto_bus_close(n.head);
}

static void send_raw(const net *n, const void *bytes, size_t size_bytes)
{
    char answer[256];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&n->at, sizeof n->at), 0);
    assert_true(send(fd, bytes, size_bytes, MSG_NOSIGNAL) > 0);
    (void)shutdown(fd, SHUT_WR);
    while (recv(fd, answer, sizeof answer, 0) > 0) { /* until the head hangs up */
    }
    (void)close(fd);
}

static void garbage_disturbs_nobody(void **state)
{
    static uint8_t garbage[4096];
    net n;
    net_open(&n, **(bool **)state);
    memset(garbage, 0xa5, sizeof garbage);
    send_raw(&n, garbage, sizeof garbage);
    send_raw(&n, "GET / HTTP/1.1\r\n\r\n", 18);
    expect_nothing_but(&n, 1);
    proto_bus_close(n.head);
}

static int tcp_socket(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static bool has_ended(int fd)
{
    uint8_t bytes[256];
    ssize_t got = 0;
    do {
        got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (got > 0);
    return got == 0 || errno != EAGAIN;
}

/* Strangers that say nothing, more than there may be: the first of them are closed. Who has a key
 * stays, and gets in. */
static void silent_connections_are_bounded(void **state)
{
    enum { SILENT_MAX = NODES + PROTO_PENDING_EXTRA_MAX, SURPLUS = 10 };
    int silent[SILENT_MAX + SURPLUS];
    proto_bus_event event;
    net n;
    net_open(&n, **(bool **)state);
    proto_bus *first = connect_as(&n, 1);
    send_message(&n, first);
    expect_message(&n, 1);
    for (int i = 0; i < SILENT_MAX + SURPLUS; i++) {
        silent[i] = tcp_socket();
        assert_int_equal(connect(silent[i], (const struct sockaddr *)&n.at, sizeof n.at), 0);
    }
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    for (int i = 0; i < SURPLUS; i++) {
        while (!has_ended(silent[i])) {
            assert_true(base_now_ns() < deadline_ns);
            while (proto_bus_next_event(n.head, &event)) {
                assert_int_equal(event.rank, PROTO_NO_RANK);
            }
        }
    }
    for (int i = SURPLUS; i < SILENT_MAX + SURPLUS; i++) {
        assert_false(has_ended(silent[i]));
    }
    send_message(&n, first);
    expect_message(&n, 1);
    expect_nothing_but(&n, 2);
    for (int i = 0; i < SILENT_MAX + SURPLUS; i++) {
        (void)close(silent[i]);
    }
    proto_bus_close(first);
    proto_bus_close(n.head);
}

/* Passes on what has come to one socket. */
static void pass_on(int from, int to)
{
    uint8_t bytes[4096];
    const ssize_t got = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) {
        assert_int_equal(send(to, bytes, (size_t)got, MSG_NOSIGNAL), got);
    }
}

/* A stranger's connection fails. The next one, a node's, gets the same descriptor, and its message is
 * read before the events of the stranger's end are. All sockets of the test itself are made
 * before, so that the descriptor is free. */
static void a_used_descriptor_is_not_taken_for_the_former(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t at_bytes = sizeof at;
    char answer[256];
    int node = PROTO_NO_RANK;
    Ringfence__Control__Envelope *got = NULL;
    proto_bus_event event;
    base_error error;
    net n;
    net_open(&n, **(bool **)state);
    const int listener = tcp_socket();
    assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &at_bytes), 0);
    proto_bus *bus = connect_at(&n, &at, &n.pairs[1], n.pairs[0].public_key);
    send_message(&n, bus);
    const int from_agent = accept(listener, NULL, NULL);
    const int to_head = tcp_socket();
    const int stranger = tcp_socket();
    assert_int_equal(connect(stranger, (const struct sockaddr *)&n.at, sizeof n.at), 0);
    assert_int_equal(send(stranger, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    (void)shutdown(stranger, SHUT_WR);
    while (recv(stranger, answer, sizeof answer, 0) > 0) { /* until the head hangs up */
    }
    assert_int_equal(connect(to_head, (const struct sockaddr *)&n.at, sizeof n.at), 0);
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    while (got == NULL) {
        assert_true(base_now_ns() < deadline_ns);
        pass_on(from_agent, to_head);
        pass_on(to_head, from_agent);
        assert_ok(proto_bus_recv(n.head, &node, &got, &error), &error);
    }
    assert_int_equal(node, 1);
    while (proto_bus_next_event(n.head, &event)) {
        assert_int_equal(event.rank, PROTO_NO_RANK);
    }
    (void)close(to_head);
    assert_int_equal(wait_event(n.head, PROTO_BUS_DISCONNECTED), 1);
    (void)close(from_agent);
    (void)close(stranger);
    (void)close(listener);
    proto_bus_close(bus);
    proto_bus_close(n.head);
}

typedef struct recording {
    uint8_t bytes[RECORD_BYTES];
    size_t used_bytes;
} recording;

/* What the agent sends passes unchanged, and is kept. */
static void record(test_relay *relay, void *user, int side, const uint8_t *bytes, size_t size_bytes)
{
    recording *r = user;
    if (side == 0 && r->used_bytes + size_bytes <= sizeof r->bytes) {
        memcpy(r->bytes + r->used_bytes, bytes, size_bytes);
        r->used_bytes += size_bytes;
    }
    test_relay_emit(relay, side, bytes, size_bytes);
}

/* Neither as it was, nor with a wrong bit anywhere. */
static void a_recorded_connection_is_worth_nothing(void **state)
{
    static recording r;
    struct sockaddr_in at;
    net n;
    uint64_t random = 35;
    net_open(&n, **(bool **)state);
    r.used_bytes = 0;
    test_relay *relay = test_relay_start(&n.at, &at, 0, record, &r);
    proto_bus *bus = connect_at(&n, &at, &n.pairs[1], n.pairs[0].public_key);
    send_message(&n, bus);
    expect_message(&n, 1);
    proto_bus_close(bus);
    test_relay_stop(relay);
    assert_true(r.used_bytes > 0);
    proto_bus_forget(n.head, 1);
    send_raw(&n, r.bytes, r.used_bytes);
    expect_nothing_but(&n, 2);
    for (int i = 0; i < WRONG_RECORDINGS; i++) {
        uint8_t *byte = &r.bytes[base_splitmix_next(&random) % r.used_bytes];
        const uint8_t bit = (uint8_t)(1U << (base_splitmix_next(&random) % 8));
        *byte ^= bit;
        send_raw(&n, r.bytes, r.used_bytes);
        *byte ^= bit;
    }
    expect_nothing_but(&n, 2);
    proto_bus_close(n.head);
}

static void a_rank_s_message_is_none_of_an_agent(void **state)
{
    (void)state;
    base_error error;
    int node = PROTO_NO_RANK;
    Ringfence__Control__Envelope *got = NULL;
    Ringfence__Control__Step step = RINGFENCE__CONTROL__STEP__INIT;
    net n;
    net_open(&n, true);
    proto_bus *bus = connect_as(&n, 2);
    assert_ok(proto_bus_send(bus, PROTO_NO_RANK, &step.base, &error), &error);
    assert_status(next_message(n.head, &node, &got), BASE_ERR_INVALID);
    assert_int_equal(node, 2);
    proto_bus_close(bus);
    proto_bus_close(n.head);
}

static void a_key_file_is_read_as_it_was_written(void **state)
{
    (void)state;
    static const char no_hex[] =
        "ringfence job key 1\nrun 0123456789abcdeX\n"
        "seed 0000000000000000000000000000000000000000000000000000000000000000\n";
    static const char *const spoiled[] = {"", "ringfence job key 1\n",
                                          "ringfence job key 2\nrun 0123456789abcdef\nseed 00\n",
                                          no_hex};
    base_error error;
    proto_job_key made;
    proto_job_key got;
    proto_keypair a;
    proto_keypair b;
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_shared_path("key"));
    proto_job_key_make(&made);
    assert_ok(proto_job_key_write(path, &made, &error), &error);
    assert_status(proto_job_key_write(path, &made, &error), BASE_ERR_IO);
    assert_ok(proto_job_key_read(path, &got, &error), &error);
    assert_string_equal(got.run_id, made.run_id);
    proto_job_key_node(&made, 1, &a);
    proto_job_key_node(&got, 1, &b);
    assert_memory_equal(&a, &b, sizeof a);
    proto_job_key_node(&got, 2, &b);
    assert_memory_not_equal(a.public_key, b.public_key, PROTO_KEY_BYTES);
    proto_rank_key(got.seed, 1, &b);
    assert_memory_not_equal(a.public_key, b.public_key, PROTO_KEY_BYTES);
    assert_int_equal(chmod(path, 0640), 0);
    assert_status(proto_job_key_read(path, &got, &error), BASE_ERR_AUTH);
    for (size_t i = 0; i < sizeof spoiled / sizeof spoiled[0]; i++) {
        assert_int_equal(unlink(path), 0);
        assert_ok(base_file_write(path, spoiled[i], strlen(spoiled[i]), &error), &error);
        assert_int_equal(chmod(path, 0600), 0);
        assert_status(proto_job_key_read(path, &got, &error), BASE_ERR_AUTH);
    }
}

/* A test of both ROUTERs. */
#define ON_BOTH(test)                                                                              \
    cmocka_unit_test_prestate(test, &for_agents), cmocka_unit_test_prestate(test, &for_ranks)

int main(void)
{
    static bool for_agents = true;
    static bool for_ranks = false;
    const struct CMUnitTest tests[] = {
        ON_BOTH(the_key_says_which_node),
        ON_BOTH(another_key_gets_nowhere),
        ON_BOTH(garbage_disturbs_nobody),
        ON_BOTH(silent_connections_are_bounded),
        ON_BOTH(a_used_descriptor_is_not_taken_for_the_former),
        ON_BOTH(a_recorded_connection_is_worth_nothing),
        cmocka_unit_test(a_rank_s_message_is_none_of_an_agent),
        cmocka_unit_test(a_key_file_is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
