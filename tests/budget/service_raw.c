/* Requests and sockets that do not go through the client library. Used by the tests of hostile and
 * racing clients. */
#include "service_raw.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/clock.h"
#include "budget/wire.h"
#include "proto/socket.h"

enum { ANSWER_MS = 10 * 1000 };

static void find_keys(const service_fixture *fixture, const char *name, proto_keypair *keys,
                      uint8_t service_key[PROTO_KEY_BYTES])
{
    base_error error;
    char path[BASE_PATH_BYTES + 64];
    budget_client_key key;
    budget_service_address address;
    assert_ok(budget_service_address_read(fixture->dir, &address, &error), &error);
    memcpy(service_key, address.public_key, PROTO_KEY_BYTES);
    if (name == NULL) {
        proto_keypair_make(keys);
        return;
    }
    (void)snprintf(path, sizeof path, "%s/clients/%s.key", fixture->dir, name);
    assert_ok(budget_client_key_read(path, &key, &error), &error);
    *keys = key.keys;
}

void raw_open(const service_fixture *fixture, const char *name, budget_link *link)
{
    base_error error;
    proto_keypair keys;
    uint8_t service_key[PROTO_KEY_BYTES];
    find_keys(fixture, name, &keys, service_key);
    assert_ok(budget_link_open(link, name != NULL ? fixture->endpoint : fixture->redeem_endpoint,
                               &keys, service_key, &error),
              &error);
}

size_t raw_pack(Ringfence__Budget__Request *request, uint8_t *data, size_t size_bytes)
{
    static unsigned count;
    static char request_id[32];
    (void)snprintf(request_id, sizeof request_id, "raw-%u", count++);
    if (request->request_id[0] == '\0') {
        request->request_id = request_id;
    }
    request->version = BUDGET_WIRE_VERSION;
    assert_true(ringfence__budget__request__get_packed_size(request) <= size_bytes);
    return ringfence__budget__request__pack(request, data);
}

void raw_ask(budget_link *link, Ringfence__Budget__Request *request,
             Ringfence__Budget__Response **response)
{
    base_error why = {0};
    uint8_t data[BUDGET_REDEEM_BYTES_MAX];
    const budget_question question = {.request = data,
                                      .request_bytes = raw_pack(request, data, sizeof data),
                                      .request_id = request->request_id,
                                      .deadline_ns =
                                          base_deadline_after_ns(ANSWER_MS * BASE_NS_PER_MS)};
    if (budget_link_ask(link, &question, response, &why) != BUDGET_LINK_ANSWERED) {
        fail_msg("no answer: %s", why.message);
    }
}

void *raw_socket(const service_fixture *fixture, void *context, const char *name)
{
    base_error error;
    proto_keypair keys;
    uint8_t service_key[PROTO_KEY_BYTES];
    void *socket = NULL;
    find_keys(fixture, name, &keys, service_key);
    const proto_socket_options options = {
        .kind = PROTO_SOCKET_ASK,
        .message_bytes_max = -1,
        .keys = &keys,
        .server_key = service_key,
    };
    assert_ok(proto_socket_open(context, &options, &socket, &error), &error);
    return socket;
}

Ringfence__Budget__Verdict raw_verdict(void *socket, proto_arena *arena)
{
    base_error error = {0};
    Ringfence__Budget__Response *response = NULL;
    zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
    zmq_msg_t message;
    if (zmq_poll(&item, 1, ANSWER_MS) != 1) {
        fail_msg("no answer in time");
    }
    (void)zmq_msg_init(&message);
    assert_true(zmq_msg_recv(&message, socket, 0) >= 0);
    assert_ok(budget_response_unpack(zmq_msg_data(&message), zmq_msg_size(&message), arena,
                                     &response, &error),
              &error);
    (void)zmq_msg_close(&message);
    return response->verdict;
}

void assert_alive(const service_fixture *fixture)
{
    base_error why;
    budget_report report;
    const budget_status_sinks sinks = {0};
    budget_client *client = fixture_client(fixture, "request", ANSWER_MS);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    budget_client_close(client);
}

size_t service_rss_bytes(const service_fixture *fixture)
{
    char path[64];
    unsigned long total = 0;
    unsigned long resident = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/statm", (int)fixture->pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &total, &resident), 2); /* NOLINT(cert-err34-c) */
    (void)fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}
