/* Clients that break the rules of the wire: none of them stops the service or makes it swell. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "budget/wire.h"
#include "proto/monitor.h"
#include "proto/socket.h"
#include "service_raw.h"

enum {
    WAIT_MS = 20 * 1000,
    FRAMES = 1000 * 1000,
    RSS_GROWTH_MAX = 160 << 20,
    IDLE_CONNECTIONS = 300,
};

typedef struct hostile_test {
    service_fixture service;
    void *context;
    proto_arena arena;
} hostile_test;

static int setup(void **state)
{
    base_error error;
    hostile_test *made = calloc(1, sizeof *made);
    fixture_make(&made->service);
    fixture_start(&made->service);
    assert_ok(proto_socket_context(&made->context, &error), &error);
    assert_ok(proto_arena_init(&made->arena, BUDGET_ARENA_BYTES, &error), &error);
    *state = made;
    return 0;
}

static int teardown(void **state)
{
    hostile_test *made = *state;
    (void)zmq_ctx_term(made->context);
    proto_arena_fini(&made->arena);
    fixture_remove(&made->service);
    free(made);
    return 0;
}

/* Blocks, up to a deadline; -1 when the service does not take it. */
static int send_all(void *socket, const void *data, size_t size_bytes, int flags)
{
    const int timeout_ms = WAIT_MS;
    (void)zmq_setsockopt(socket, ZMQ_SNDTIMEO, &timeout_ms, sizeof timeout_ms);
    return zmq_send(socket, data, size_bytes, flags);
}

static void *monitor_of(hostile_test *hostile, void *socket)
{
    base_error error;
    void *monitor = NULL;
    assert_ok(proto_monitor_start(hostile->context, socket, &monitor, &error), &error);
    return monitor;
}

static void close_both(void *socket, void *monitor)
{
    proto_monitor_stop(socket);
    (void)zmq_close(monitor);
    (void)zmq_close(socket);
}

/* Waits for the end of the connection, or its refusal. */
static proto_bus_event_kind wait_for_end(void *monitor)
{
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    for (;;) {
        proto_bus_event_kind kind = PROTO_BUS_CONNECTED;
        int fd = -1;
        zmq_pollitem_t item = {.socket = monitor, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, base_deadline_poll_ms(deadline_ns, WAIT_MS)) != 1) {
            fail_msg("the connection is still there");
        }
        while (proto_monitor_next(monitor, &kind, &fd)) {
            if (kind != PROTO_BUS_CONNECTED) {
                return kind;
            }
        }
    }
}

static void test_oversized(void **state)
{
    hostile_test *hostile = *state;
    const size_t data_bytes = BUDGET_MESSAGE_BYTES_MAX + 4096;
    uint8_t *data = calloc(1, data_bytes);
    void *socket = raw_socket(&hostile->service, hostile->context, "request");
    void *monitor = monitor_of(hostile, socket);
    assert_int_equal(zmq_connect(socket, hostile->service.endpoint), 0);
    assert_true(send_all(socket, data, data_bytes, 0) >= 0);
    assert_int_equal(wait_for_end(monitor), PROTO_BUS_DISCONNECTED);
    close_both(socket, monitor);
    /* the redeem endpoint has a smaller limit */
    socket = raw_socket(&hostile->service, hostile->context, NULL);
    monitor = monitor_of(hostile, socket);
    assert_int_equal(zmq_connect(socket, hostile->service.redeem_endpoint), 0);
    assert_true(send_all(socket, data, 2 * BUDGET_REDEEM_BYTES_MAX, 0) >= 0);
    assert_int_equal(wait_for_end(monitor), PROTO_BUS_DISCONNECTED);
    close_both(socket, monitor);
    free(data);
    assert_alive(&hostile->service);
}

static void test_malformed(void **state)
{
    hostile_test *hostile = *state;
    uint8_t data[256];
    void *socket = raw_socket(&hostile->service, hostile->context, "request");
    Ringfence__Budget__Request request = RINGFENCE__BUDGET__REQUEST__INIT;
    Ringfence__Budget__Status status = RINGFENCE__BUDGET__STATUS__INIT;
    fixture_account(&hostile->service, "phase", 1);
    assert_int_equal(zmq_connect(socket, hostile->service.endpoint), 0);

    memset(data, 0xff, sizeof data);
    assert_true(send_all(socket, data, sizeof data, 0) >= 0);
    assert_int_equal(raw_verdict(socket, &hostile->arena),
                     RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED);
    assert_true(send_all(socket, "", 0, 0) >= 0);
    assert_int_equal(raw_verdict(socket, &hostile->arena),
                     RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED);

    request.body_case = RINGFENCE__BUDGET__REQUEST__BODY_STATUS;
    request.status = &status;
    size_t size_bytes = raw_pack(&request, data, sizeof data);
    data[1] = 9; /* field 1, version */
    assert_true(send_all(socket, data, size_bytes, 0) >= 0);
    assert_int_equal(raw_verdict(socket, &hostile->arena),
                     RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED);

    request.request_id = (char *)(uintptr_t) "with space";
    size_bytes = raw_pack(&request, data, sizeof data);
    assert_true(send_all(socket, data, size_bytes, 0) >= 0);
    assert_int_equal(raw_verdict(socket, &hostile->arena),
                     RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED);

    Ringfence__Budget__TotalSpent spent = RINGFENCE__BUDGET__TOTAL_SPENT__INIT;
    spent.account = (char *)(uintptr_t) "phaseXother";
    request.request_id = (char *)(uintptr_t) "nul";
    request.body_case = RINGFENCE__BUDGET__REQUEST__BODY_TOTAL_SPENT;
    request.total_spent = &spent;
    size_bytes = raw_pack(&request, data, sizeof data);
    *(char *)memchr(data, 'X', size_bytes) = '\0'; /* what C reads is "phase", an account */
    assert_true(send_all(socket, data, size_bytes, 0) >= 0);
    assert_int_equal(raw_verdict(socket, &hostile->arena),
                     RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED);

    request.body_case = RINGFENCE__BUDGET__REQUEST__BODY_STATUS;
    request.status = &status;
    request.request_id = (char *)(uintptr_t) "good";
    size_bytes = raw_pack(&request, data, sizeof data);
    assert_true(send_all(socket, data, size_bytes, 0) >= 0);
    assert_int_equal(raw_verdict(socket, &hostile->arena),
                     RINGFENCE__BUDGET__VERDICT__VERDICT_DONE);
    (void)zmq_close(socket);

    /* a refusal says which question it answers, so the client need not wait for its deadline */
    budget_link link = {.socket = NULL};
    Ringfence__Budget__Response *response = NULL;
    raw_open(&hostile->service, "request", &link);
    spent.account = (char *)(uintptr_t) "a\tb";
    request.request_id = (char *)(uintptr_t) "control";
    request.body_case = RINGFENCE__BUDGET__REQUEST__BODY_TOTAL_SPENT;
    request.total_spent = &spent;
    raw_ask(&link, &request, &response);
    assert_int_equal(response->verdict, RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED);
    assert_non_null(strstr(response->reason, "control characters"));
    budget_link_close(&link);
}

static void test_two_frames(void **state)
{
    hostile_test *hostile = *state;
    void *socket = raw_socket(&hostile->service, hostile->context, "request");
    void *monitor = monitor_of(hostile, socket);
    assert_int_equal(zmq_connect(socket, hostile->service.endpoint), 0);
    assert_true(send_all(socket, "a", 1, ZMQ_SNDMORE) >= 0);
    assert_true(send_all(socket, "b", 1, 0) >= 0);
    assert_int_equal(wait_for_end(monitor), PROTO_BUS_DISCONNECTED);
    close_both(socket, monitor);
    assert_alive(&hostile->service);
}

/* A message of a million frames: its connection is ended, the service's memory stays bounded. */
static void test_million_frames(void **state)
{
    hostile_test *hostile = *state;
    static const char *const names[] = {"request", NULL};
    const size_t before_bytes = service_rss_bytes(&hostile->service);
    for (int i = 0; i < 2; i++) {
        char frame[64] = "";
        void *socket = raw_socket(&hostile->service, hostile->context, names[i]);
        void *monitor = monitor_of(hostile, socket);
        const char *endpoint =
            names[i] != NULL ? hostile->service.endpoint : hostile->service.redeem_endpoint;
        assert_int_equal(zmq_connect(socket, endpoint), 0);
        for (int frames = 1; frames < FRAMES; frames++) {
            assert_true(send_all(socket, frame, sizeof frame, ZMQ_SNDMORE) >= 0);
        }
        assert_true(send_all(socket, frame, sizeof frame, 0) >= 0); /* only now it travels */
        assert_int_equal(wait_for_end(monitor), PROTO_BUS_DISCONNECTED);
        close_both(socket, monitor);
    }
    assert_alive(&hostile->service);
    const size_t after_bytes = service_rss_bytes(&hostile->service);
    if (after_bytes > before_bytes + RSS_GROWTH_MAX) {
        fail_msg("%zu MiB resident, %zu before", after_bytes >> 20, before_bytes >> 20);
    }
}

/* NULL, PLAIN, and CURVE with a key that is not on the list. */
static void test_other_mechanisms(void **state)
{
    enum { NULL_MECHANISM, PLAIN, WRONG_KEY, MECHANISMS };
    hostile_test *hostile = *state;
    for (int mechanism = 0; mechanism < MECHANISMS; mechanism++) {
        void *socket = NULL;
        if (mechanism == WRONG_KEY) {
            socket = raw_socket(&hostile->service, hostile->context, NULL);
        } else {
            const int no_reconnect = -1;
            socket = zmq_socket(hostile->context, ZMQ_DEALER);
            (void)zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &no_reconnect, sizeof no_reconnect);
        }
        if (mechanism == PLAIN) {
            (void)zmq_setsockopt(socket, ZMQ_PLAIN_USERNAME, "admin", 5);
            (void)zmq_setsockopt(socket, ZMQ_PLAIN_PASSWORD, "admin", 5);
        }
        void *monitor = monitor_of(hostile, socket);
        assert_int_equal(zmq_connect(socket, hostile->service.endpoint), 0);
        (void)wait_for_end(monitor);
        close_both(socket, monitor);
    }
    assert_alive(&hostile->service);
}

static int connect_bare(const service_fixture *fixture)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s",
                   fixture->endpoint + strlen("ipc://"));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Connections that say nothing: more than there may be keep nobody out,
 * and all are closed in time. */
static void test_silent_connections(void **state)
{
    hostile_test *hostile = *state;
    static int fds[IDLE_CONNECTIONS];
    for (int i = 0; i < IDLE_CONNECTIONS; i++) {
        fds[i] = connect_bare(&hostile->service);
    }
    struct pollfd newest = {.fd = fds[IDLE_CONNECTIONS - 1], .events = POLLIN};
    assert_int_equal(poll(&newest, 1, WAIT_MS),
                     1); /* a handshake begins, or it is closed: all are accepted */
    assert_alive(&hostile->service);
    const int64_t deadline_ns = base_deadline_after_ns(2 * WAIT_MS * BASE_NS_PER_MS);
    for (int i = 0; i < IDLE_CONNECTIONS; i++) {
        bool open = true;
        while (open) {
            char greeting[256];
            struct pollfd waited = {.fd = fds[i], .events = POLLIN};
            if (poll(&waited, 1, base_deadline_poll_ms(deadline_ns, WAIT_MS)) != 1) {
                fail_msg("connection %d says nothing and is still open", i);
            }
            open = read(fds[i], greeting, sizeof greeting) > 0;
        }
        (void)close(fds[i]);
    }
    assert_alive(&hostile->service);
}

/* A client that asks and does not read: its answers are dropped, others are served. */
/* One key that asks over as many connections as it may: a further one gets no answer until another
 * is closed, and other clients notice nothing. */
static void test_one_key_with_many_connections(void **state)
{
    enum { CONNECTIONS_OF_A_KEY = 32 /* docs/WIRE.md */ };
    hostile_test *hostile = *state;
    static budget_link links[CONNECTIONS_OF_A_KEY + 1];
    budget_link *further = &links[CONNECTIONS_OF_A_KEY];
    uint8_t data[256];
    base_error why;
    Ringfence__Budget__Request request = RINGFENCE__BUDGET__REQUEST__INIT;
    Ringfence__Budget__Status status = RINGFENCE__BUDGET__STATUS__INIT;
    Ringfence__Budget__Response *response = NULL;
    request.body_case = RINGFENCE__BUDGET__REQUEST__BODY_STATUS;
    request.status = &status;
    fixture_add_client(&hostile->service, "greedy", "request");
    for (int i = 0; i <= CONNECTIONS_OF_A_KEY; i++) {
        raw_open(&hostile->service, "greedy", &links[i]);
    }
    for (int i = 0; i < CONNECTIONS_OF_A_KEY; i++) {
        raw_ask(&links[i], &request, &response);
        assert_int_equal(response->verdict, RINGFENCE__BUDGET__VERDICT__VERDICT_DONE);
    }
    request.request_id = (char *)(uintptr_t) "further";
    budget_question question = {.request = data,
                                .request_bytes = raw_pack(&request, data, sizeof data),
                                .request_id = "further",
                                .deadline_ns = base_deadline_after_ns(BASE_NS_PER_S)};
    assert_int_not_equal(budget_link_ask(further, &question, &response, &why),
                         BUDGET_LINK_ANSWERED);
    assert_alive(&hostile->service);
    budget_link_close(&links[0]);
    question.deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    assert_int_equal(budget_link_ask(further, &question, &response, &why), BUDGET_LINK_ANSWERED);
    for (int i = 1; i <= CONNECTIONS_OF_A_KEY; i++) {
        budget_link_close(&links[i]);
    }
}

static void test_client_that_does_not_read(void **state)
{
    enum { QUESTIONS = 2000 };
    hostile_test *hostile = *state;
    uint8_t data[256];
    void *socket = raw_socket(&hostile->service, hostile->context, "request");
    Ringfence__Budget__Request request = RINGFENCE__BUDGET__REQUEST__INIT;
    Ringfence__Budget__Status status = RINGFENCE__BUDGET__STATUS__INIT;
    const int one_ms = 1;
    assert_int_equal(zmq_connect(socket, hostile->service.endpoint), 0);
    request.body_case = RINGFENCE__BUDGET__REQUEST__BODY_STATUS;
    request.status = &status;
    const size_t size_bytes = raw_pack(&request, data, sizeof data);
    assert_true(send_all(socket, data, size_bytes, 0) >= 0);
    (void)zmq_setsockopt(socket, ZMQ_SNDTIMEO, &one_ms, sizeof one_ms);
    for (int i = 0; i < QUESTIONS; i++) {
        (void)zmq_send(socket, data, size_bytes, 0);
    }
    assert_alive(&hostile->service);
    (void)zmq_close(socket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_oversized, setup, teardown),
        cmocka_unit_test_setup_teardown(test_malformed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_frames, setup, teardown),
        cmocka_unit_test_setup_teardown(test_million_frames, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_mechanisms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_silent_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_key_with_many_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(test_client_that_does_not_read, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
