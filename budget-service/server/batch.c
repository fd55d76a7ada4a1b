/* Runs a batch: applies every request that waits, commits them at once, and only then answers.
 * Called by service.c's loop. */
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "budget/wire.h"
#include "ledger/failpoint.h"
#include "proto/socket.h"
#include "service.h"

/* A message's routing id and its body; further frames have been dropped. */
typedef struct received_message {
    zmq_msg_t frames[2];
    int count; /* with those; 0: no message */
} received_message;

/* One message, checked and handled; *taken: the item has an answer (or will have). A message of the
 * wrong form is not answered: its connection is ended. */
static base_status handle_message(budget_service *service, int endpoint, received_message *message,
                                  bool *taken, base_error *reterr)
{
    zmq_msg_t *routing = &message->frames[0];
    zmq_msg_t *body = &message->frames[1];
    service_item *item = &service->items[service->item_count];
    Ringfence__Budget__Request *request = NULL;
    base_error error = {0};
    *taken = false;
    service_item_reset(item);
    const size_t id_bytes = zmq_msg_size(routing);
    if (message->count != 1 + SERVICE_FRAMES_MAX || id_bytes == 0 ||
        id_bytes > SERVICE_ROUTING_ID_BYTES) {
        service_connections_end(&service->connections[endpoint], zmq_msg_get(body, ZMQ_SRCFD));
        return BASE_OK;
    }
    /* The ranks of a job redeem under one key:
     * there the limit of all connections is the only one. */
    const int key_max =
        endpoint == SERVICE_ENDPOINT_ASK ? SERVICE_CONNECTIONS_KEY_MAX : SERVICE_CONNECTIONS_MAX;
    if (!service_connections_asked(&service->connections[endpoint], zmq_msg_get(body, ZMQ_SRCFD),
                                   zmq_msg_gets(body, "User-Id"), key_max)) {
        return BASE_OK;
    }
    item->asker.endpoint = endpoint;
    memcpy(item->asker.routing_id, zmq_msg_data(routing), id_bytes);
    item->asker.routing_id_bytes = id_bytes;
    *taken = true;
    const base_status status = budget_request_unpack(zmq_msg_data(body), zmq_msg_size(body),
                                                     &service->arena, &request, &error);
    if (request != NULL) { /* a refusal, too, says which question it answers */
        (void)snprintf(item->asker.request_id, sizeof item->asker.request_id, "%s",
                       request->request_id);
    }
    if (status != BASE_OK) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED, error.message,
                                   reterr);
    }
    return service_access_check(service, zmq_msg_gets(body, "User-Id"), request, item, reterr);
}

/* Fills the batch from both sockets in turns. Not BASE_OK: what the ledger was asked is lost. */
static base_status fill(budget_service *service, bool *received, base_error *reterr)
{
    bool waiting[SERVICE_ENDPOINTS] = {true, true};
    base_status status = BASE_OK;
    *received = true;
    for (int i = 0; service->item_count < SERVICE_BATCH_MAX && (waiting[0] || waiting[1]); i++) {
        const int endpoint = i % SERVICE_ENDPOINTS;
        received_message message;
        bool taken = false;
        (void)zmq_msg_init(&message.frames[0]);
        (void)zmq_msg_init(&message.frames[1]);
        if (proto_zmq_take(service->sockets[endpoint], message.frames, 2, &message.count,
                           "cannot receive questions", reterr) != BASE_OK) {
            *received = false;
            status = BASE_ERR_IO;
        } else if (message.count > 0) {
            status = handle_message(service, endpoint, &message, &taken, reterr);
            service->item_count += taken ? 1 : 0;
        }
        waiting[endpoint] = message.count > 0;
        (void)zmq_msg_close(&message.frames[0]);
        (void)zmq_msg_close(&message.frames[1]);
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

/* Where the ledger stands, which every answer to a known client ends with. */
static base_status put_end(budget_service *service, service_item *item, base_error *reterr)
{
    Ringfence__Budget__Response end = RINGFENCE__BUDGET__RESPONSE__INIT;
    uint8_t head[BUDGET_DIGEST_BYTES];
    end.version = BUDGET_WIRE_VERSION;
    end.request_id = item->asker.request_id;
    if (item->asker.identified) {
        budget_ledger_head(service->ledger, &end.sequence, head);
        end.head.data = head;
        end.head.len = sizeof head;
        end.known_head.data = item->asker.known_head;
        end.known_head.len = item->asker.remembered ? sizeof item->asker.known_head : 0;
    }
    return service_item_put(item, &end, reterr);
}

base_status service_reply(budget_service *service, service_item *item, base_error *reterr)
{
    void *socket = service->sockets[item->asker.endpoint];
    const base_status status = put_end(service, item, reterr);
    if (status != BASE_OK) {
        return status;
    }
    /* A client that has left, or does not read, loses its answer and asks again. */
    if (proto_zmq_send(socket, item->asker.routing_id, item->asker.routing_id_bytes,
                       ZMQ_DONTWAIT | ZMQ_SNDMORE) >= 0) {
        (void)proto_zmq_send(socket, item->packed, item->packed_bytes, ZMQ_DONTWAIT);
    }
    return BASE_OK;
}

/* Everything was undone: everybody may ask again. */
static base_status make_transient(budget_service *service, const char *why, base_error *reterr)
{
    char message[BUDGET_TEXT_BYTES_MAX + 1];
    (void)snprintf(message, sizeof message,
                   "the ledger could not be written (%.300s); nothing was done, ask again", why);
    for (int i = 0; i < service->item_count; i++) {
        const base_status status = service_item_refuse(
            &service->items[i], RINGFENCE__BUDGET__VERDICT__VERDICT_TRANSIENT, message, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

static base_status commit(budget_service *service, base_status filled, const base_error *why,
                          base_error *reterr)
{
    base_error error = *why;
    base_status status = filled;
    if (status == BASE_OK) {
        status = service_unheard_prepare(service, &error);
    }
    if (status == BASE_OK) {
        status = budget_ledger_commit(service->ledger, &error);
    } else {
        budget_ledger_rollback(service->ledger);
    }
    if (budget_ledger_broken(service->ledger)) {
        return base_fail(reterr, BASE_ERR_IO,
                         "%s; what is on disk is not known, so the service ends", error.message);
    }
    service_unheard_settle(service, status == BASE_OK);
    const bool clients_changed = service->clients_changed;
    service->clients_changed = false;
    if (status != BASE_OK) {
        service_log_failure(service, error.message);
        return make_transient(service, error.message, reterr);
    }
    /* Committed: a failure from here on ends the service. */
    return clients_changed ? service_admission_load(service, reterr) : BASE_OK;
}

static base_status answer_all(budget_service *service, base_error *reterr)
{
    for (int i = 0; i < service->item_count; i++) {
        service_item *item = &service->items[i];
        if (item->stage == SERVICE_LATER) {
            continue;
        }
        BUDGET_FAILPOINT("before-sign");
        base_status status = service_sign(service, item, reterr);
        BUDGET_FAILPOINT("after-sign");
        BUDGET_FAILPOINT("before-reply");
        if (status == BASE_OK) {
            status = service_reply(service, item, reterr);
        }
        BUDGET_FAILPOINT("after-reply");
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

base_status service_batch(budget_service *service, int *count, base_error *reterr)
{
    base_error error = {0};
    bool received = true;
    service->item_count = 0;
    base_status status = budget_clock_read(&service->clock, reterr);
    if (status == BASE_OK) {
        status = budget_ledger_begin(service->ledger, &service->clock, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    const base_status filled = fill(service, &received, &error);
    if (!received) {
        budget_ledger_rollback(service->ledger);
        service_unheard_settle(service, false);
        return base_fail(reterr, BASE_ERR_IO, "%s", error.message);
    }
    status = commit(service, filled, &error, reterr);
    if (status == BASE_OK) {
        status = answer_all(service, reterr);
    }
    *count = service->item_count;
    return status;
}
