/* Sends one request over CURVE and waits for its answer, reconnecting until the deadline. Called by
 * client.c, and by redeem_calls.c for the redeem endpoint. */
#include "link.h"

#include <budget.pb-c.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/clock.h"
#include "budget/wire.h"
#include "proto/monitor.h"
#include "proto/socket.h"

enum {
    POLL_MS_MAX = 1000,
    AGAIN_MS = 50, /* between two connections */
};

base_status budget_link_open(budget_link *link, const char *endpoint, const proto_keypair *keys,
                             const uint8_t service_public_key[PROTO_KEY_BYTES], base_error *reterr)
{
    *link = (budget_link){.keys = *keys};
    memcpy(link->service_public_key, service_public_key, PROTO_KEY_BYTES);
    (void)snprintf(link->endpoint, sizeof link->endpoint, "%s", endpoint);
    base_status status = budget_endpoint_check(endpoint, reterr);
    if (status == BASE_OK) {
        status = proto_arena_init(&link->arena, BUDGET_ARENA_BYTES, reterr);
    }
    if (status == BASE_OK) {
        status = proto_socket_context(&link->context, reterr);
    }
    if (status != BASE_OK) {
        budget_link_close(link);
    }
    return status;
}

static void disconnect(budget_link *link)
{
    if (link->monitor != NULL) {
        proto_monitor_stop(link->socket);
        (void)zmq_close(link->monitor);
        link->monitor = NULL;
    }
    if (link->socket != NULL) {
        (void)zmq_close(link->socket);
        link->socket = NULL;
    }
}

void budget_link_close(budget_link *link)
{
    disconnect(link);
    if (link->context != NULL) {
        (void)zmq_ctx_term(link->context);
    }
    proto_arena_fini(&link->arena);
    proto_wipe(link, sizeof *link);
}

static base_status reconnect(budget_link *link, base_error *reterr)
{
    const proto_socket_options options = {
        .kind = PROTO_SOCKET_ASK,
        .message_bytes_max = BUDGET_MESSAGE_BYTES_MAX,
        .keys = &link->keys,
        .server_key = link->service_public_key,
    };
    base_status status = proto_socket_open(link->context, &options, &link->socket, reterr);
    if (status == BASE_OK) {
        status = proto_monitor_start(link->context, link->socket, &link->monitor, reterr);
    }
    if (status == BASE_OK && zmq_connect(link->socket, link->endpoint) != 0) {
        status = proto_zmq_fail(reterr, link->endpoint);
    }
    if (status != BASE_OK) {
        disconnect(link);
    }
    return status;
}

/* Where a question stands. */
typedef struct asking {
    const budget_question *question;
    bool sent_before; /* over a connection that is gone */
    bool sent_here;   /* over the connection there is now */
} asking;

/* An answer to this question, if one is there.
 * Others are of questions given up, and are dropped. */
static base_status take_answer(budget_link *link, const asking *asked,
                               Ringfence__Budget__Response **response, base_error *why)
{
    for (;;) {
        zmq_msg_t message;
        (void)zmq_msg_init(&message);
        if (proto_zmq_recv(link->socket, &message, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&message);
            return BASE_ERR_BUSY;
        }
        const base_status status = budget_response_unpack(
            zmq_msg_data(&message), zmq_msg_size(&message), &link->arena, response, why);
        (void)zmq_msg_close(&message);
        if (status != BASE_OK ||
            strcmp((*response)->request_id, asked->question->request_id) == 0) {
            return status;
        }
    }
}

/* Looks at what has become of the connection. BASE_ERR_PEER: it is gone, BASE_ERR_AUTH: refused. */
static base_status look_at_events(budget_link *link, base_error *why)
{
    proto_bus_event_kind kind = PROTO_BUS_CONNECTED;
    int fd = -1;
    while (proto_monitor_next(link->monitor, &kind, &fd)) {
        switch (kind) {
        case PROTO_BUS_REFUSED:
        case PROTO_BUS_CUT:
            return base_fail(why, BASE_ERR_AUTH,
                             "the service at %s does not admit this key: it has been revoked, or "
                             "belongs to another service, or the service stands still, or has "
                             "too many connections",
                             link->endpoint);
        case PROTO_BUS_UNREACHABLE:
            return base_fail(why, BASE_ERR_PEER,
                             "no service at %s; start it with: budget-service serve",
                             link->endpoint);
        case PROTO_BUS_DISCONNECTED:
            return base_fail(why, BASE_ERR_PEER, "the service at %s closed the connection",
                             link->endpoint);
        default:
            break;
        }
    }
    return BASE_OK;
}

static void wait_for_more(budget_link *link, const asking *asked)
{
    zmq_pollitem_t items[] = {
        {.socket = link->socket, .events = ZMQ_POLLIN | (asked->sent_here ? 0 : ZMQ_POLLOUT)},
        {.socket = link->monitor, .events = ZMQ_POLLIN},
    };
    const int wait_ms = base_deadline_poll_ms(asked->question->deadline_ns, POLL_MS_MAX);
    (void)zmq_poll(items, link->socket != NULL ? 2 : 0,
                   link->socket != NULL || wait_ms < AGAIN_MS ? wait_ms : AGAIN_MS);
}

/* One look at the connection. BASE_ERR_BUSY: wait; BASE_OK: answered;
 * else the connection failed. */
static base_status advance(budget_link *link, asking *asked, Ringfence__Budget__Response **response,
                           base_error *why)
{
    if (!asked->sent_here && proto_zmq_send(link->socket, asked->question->request,
                                            asked->question->request_bytes, ZMQ_DONTWAIT) >= 0) {
        asked->sent_here = true;
    }
    base_status status = take_answer(link, asked, response, why);
    if (status == BASE_ERR_BUSY) {
        status = look_at_events(link, why);
        return status == BASE_OK ? BASE_ERR_BUSY : status;
    }
    return status;
}

budget_link_result budget_link_ask(budget_link *link, const budget_question *question,
                                   Ringfence__Budget__Response **response, base_error *why)
{
    asking asked = {.question = question};
    bool reused = link->socket != NULL; /* it may have died while nobody asked */
    base_status status = BASE_ERR_TIMEOUT;
    while (base_now_ns() < question->deadline_ns) {
        if (link->socket == NULL) {
            status = reconnect(link, why);
            asked.sent_before = asked.sent_before || asked.sent_here;
            asked.sent_here = false;
            reused = false;
        }
        status = link->socket != NULL ? advance(link, &asked, response, why) : status;
        if (status == BASE_OK) {
            return BUDGET_LINK_ANSWERED;
        }
        if (status != BASE_ERR_BUSY) {
            disconnect(link);
            if (status == BASE_ERR_UNSUPPORTED) { /* such a service does nothing that we ask */
                return asked.sent_before ? BUDGET_LINK_NO_ANSWER : BUDGET_LINK_NOT_DONE;
            }
            if (!asked.sent_before && !asked.sent_here && !reused) {
                return BUDGET_LINK_NOT_DONE;
            }
            if (reused) {
                continue;
            }
        }
        wait_for_more(link, &asked);
    }
    if (status == BASE_ERR_BUSY || status == BASE_ERR_TIMEOUT) {
        (void)base_fail(why, BASE_ERR_TIMEOUT, "no answer from the service at %s in time",
                        link->endpoint);
    }
    disconnect(link); /* a late answer is of no use to anybody */
    return asked.sent_before || asked.sent_here ? BUDGET_LINK_NO_ANSWER : BUDGET_LINK_NOT_DONE;
}
