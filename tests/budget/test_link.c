/* client/link.h: what a client makes of a service of another version. */
#include "client/link.h"

#include <budget.pb-c.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/clock.h"
#include "budget/wire.h"
#include "proto/socket.h"
#include "proto/zap.h"
#include "support.h"

enum { WAIT_MS = 20 * 1000, ANSWER_BYTES = 256 };

/* A service that answers one question, in a version of its own, with a field that is new. */
typedef struct other_service {
    void *context;
    void *socket;
    proto_zap *zap;
    proto_keypair keys;
    char endpoint[128];
    unsigned version;
    pthread_t thread;
} other_service;

static bool admit_all(void *user, const char *domain, const uint8_t key[PROTO_KEY_BYTES],
                      char user_id[PROTO_ZAP_USER_BYTES])
{
    (void)user;
    (void)domain;
    (void)key;
    (void)snprintf(user_id, PROTO_ZAP_USER_BYTES, "anybody");
    return true;
}

static void *answer_once(void *user)
{
    static const uint8_t field_99[] = {0x98, 0x06, 0x01};
    const other_service *service = user;
    Ringfence__Budget__Response response = RINGFENCE__BUDGET__RESPONSE__INIT;
    uint8_t answer[ANSWER_BYTES];
    uint8_t routing_id[16];
    zmq_pollitem_t item = {.socket = service->socket, .events = ZMQ_POLLIN};
    if (zmq_poll(&item, 1, WAIT_MS) == 1) {
        const int id_bytes = zmq_recv(service->socket, routing_id, sizeof routing_id, 0);
        (void)zmq_recv(service->socket, answer, sizeof answer, 0);
        response.version = service->version;
        const size_t bytes = ringfence__budget__response__pack(&response, answer);
        memcpy(answer + bytes, field_99, sizeof field_99);
        (void)zmq_send(service->socket, routing_id, (size_t)id_bytes, ZMQ_SNDMORE);
        (void)zmq_send(service->socket, answer, bytes + sizeof field_99, 0);
    }
    return NULL;
}

static void start(other_service *service, unsigned version)
{
    base_error error;
    size_t endpoint_bytes = sizeof service->endpoint;
    const proto_zap_options zap = {.admit = admit_all};
    const proto_socket_options options = {
        .kind = PROTO_SOCKET_SERVE,
        .message_bytes_max = -1,
        .keys = &service->keys,
        .zap_domain = "other",
    };
    service->version = version;
    proto_keypair_make(&service->keys);
    assert_ok(proto_socket_context(&service->context, &error), &error);
    assert_ok(proto_zap_start(service->context, &zap, &service->zap, &error), &error);
    assert_ok(proto_socket_open(service->context, &options, &service->socket, &error), &error);
    assert_int_equal(zmq_bind(service->socket, "tcp://127.0.0.1:*"), 0);
    assert_int_equal(
        zmq_getsockopt(service->socket, ZMQ_LAST_ENDPOINT, service->endpoint, &endpoint_bytes), 0);
    assert_int_equal(pthread_create(&service->thread, NULL, answer_once, service), 0);
}

static void stop(other_service *service)
{
    (void)pthread_join(service->thread, NULL);
    (void)zmq_close(service->socket);
    (void)zmq_ctx_shutdown(service->context);
    proto_zap_join(service->zap);
    (void)zmq_ctx_term(service->context);
}

/* It says so at once, and that nothing was done. */
static void another_version_is_named(void **state)
{
    static const struct {
        unsigned version;
        const char *message;
    } cases[] = {
        {BUDGET_WIRE_VERSION + 1, "the service speaks version 7 of the protocol, and the client "
                                  "version 6: update the client"},
        {BUDGET_WIRE_VERSION - 1, "the service speaks version 5 of the protocol, and the client "
                                  "version 6: update the service"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error;
        base_error why = {0};
        other_service service = {.context = NULL};
        budget_link link = {.socket = NULL};
        proto_keypair keys;
        Ringfence__Budget__Response *response = NULL;
        const budget_question question = {.request = "",
                                          .request_id = "r-1",
                                          .deadline_ns =
                                              base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS)};
        start(&service, cases[i].version);
        proto_keypair_make(&keys);
        assert_ok(budget_link_open(&link, service.endpoint, &keys, service.keys.public_key, &error),
                  &error);
        assert_int_equal(budget_link_ask(&link, &question, &response, &why), BUDGET_LINK_NOT_DONE);
        assert_true(base_now_ns() < question.deadline_ns);
        assert_string_equal(why.message, cases[i].message);
        budget_link_close(&link);
        stop(&service);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_version_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
