/* What a rank learns of its zmq connections, and which descriptors it touches for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/clock.h"
#include "support.h"
#include "transport/zmq/monitor.h"

enum { EVENT_MS = 5000, ENDPOINT_BYTES = 64 };

static int configured; /* connections that were set to tcp's options */

bool __wrap_coll_tcp_options_met(int fd);

bool __wrap_coll_tcp_options_met(int fd)
{
    assert_true(fd >= 0);
    configured++;
    return true;
}

typedef struct pair {
    void *zmq;
    void *listener;
    void *connector;
    void *monitors[2]; /* of the listener, the connector */
    uint16_t port;
} pair;

static bool read_news(void *monitor, uint16_t port)
{
    int fd = -1;
    return coll_zmq_monitor_read(monitor, port, BASE_NS_PER_S, &fd);
}

static void connect_pair(pair *p)
{
    char endpoint[ENDPOINT_BYTES];
    size_t endpoint_bytes = sizeof endpoint;
    coll_error error;
    memset(p, 0, sizeof *p);
    configured = 0;
    p->zmq = zmq_ctx_new();
    p->listener = zmq_socket(p->zmq, ZMQ_DEALER);
    p->connector = zmq_socket(p->zmq, ZMQ_DEALER);
    assert_ok(coll_zmq_monitor_open(p->zmq, p->listener, 0, &p->monitors[0], &error), &error);
    assert_ok(coll_zmq_monitor_open(p->zmq, p->connector, 1, &p->monitors[1], &error), &error);
    assert_int_equal(zmq_bind(p->listener, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(zmq_getsockopt(p->listener, ZMQ_LAST_ENDPOINT, endpoint, &endpoint_bytes), 0);
    p->port = (uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10);
    assert_false(read_news(p->monitors[0], 0)); /* it listens */
    assert_int_equal(zmq_connect(p->connector, endpoint), 0);
    for (int i = 0; i < 2; i++) {
        zmq_pollitem_t item = {.socket = p->monitors[i], .events = ZMQ_POLLIN};
        assert_int_equal(zmq_poll(&item, 1, EVENT_MS), 1);
    }
}

static void close_connector(pair *p)
{
    const int none = 0;
    (void)zmq_socket_monitor(p->connector, NULL, 0);
    (void)zmq_setsockopt(p->connector, ZMQ_LINGER, &none, sizeof none);
    (void)zmq_close(p->connector);
    (void)zmq_close(p->monitors[1]);
}

static void close_listener(pair *p)
{
    (void)zmq_socket_monitor(p->listener, NULL, 0);
    (void)zmq_close(p->listener);
    (void)zmq_close(p->monitors[0]);
    (void)zmq_ctx_term(p->zmq);
}

static void both_ends_are_set(void **state)
{
    pair p;
    (void)state;
    connect_pair(&p);
    assert_false(read_news(p.monitors[0], p.port));
    assert_int_equal(configured, 1);
    assert_false(read_news(p.monitors[1], p.port));
    assert_int_equal(configured, 2);
    close_connector(&p);
    close_listener(&p);
}

static void others_are_left_alone(void **state)
{
    pair p;
    (void)state;
    connect_pair(&p);
    assert_false(read_news(p.monitors[0], (uint16_t)(p.port - 1)));
    assert_false(read_news(p.monitors[1], 0));
    assert_int_equal(configured, 0);
    close_connector(&p);
    close_listener(&p);
}

static void an_end_is_noticed(void **state)
{
    pair p;
    (void)state;
    connect_pair(&p);
    assert_false(read_news(p.monitors[0], p.port));
    close_connector(&p);
    zmq_pollitem_t item = {.socket = p.monitors[0], .events = ZMQ_POLLIN};
    assert_int_equal(zmq_poll(&item, 1, EVENT_MS), 1);
    assert_true(read_news(p.monitors[0], p.port));
    assert_false(read_news(p.monitors[0], p.port)); /* once */
    close_listener(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_are_set),
        cmocka_unit_test(others_are_left_alone),
        cmocka_unit_test(an_end_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
