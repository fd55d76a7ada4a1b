/* Opens the two endpoints and admits clients. Called by service.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/clock.h"
#include "base/log.h"
#include "budget/wire.h"
#include "proto/socket.h"
#include "service.h"

static const char *const domains[SERVICE_ENDPOINTS] = {BUDGET_ZAP_DOMAIN, BUDGET_ZAP_DOMAIN_REDEEM};
static const int64_t message_bytes_max[SERVICE_ENDPOINTS] = {BUDGET_MESSAGE_BYTES_MAX,
                                                             BUDGET_REDEEM_BYTES_MAX};
static const char *const socket_names[SERVICE_ENDPOINTS] = {"service.sock", "redeem.sock"};

typedef struct key_list {
    uint8_t (*keys)[PROTO_KEY_BYTES];
    size_t count;
} key_list;

static bool collect_key(void *context, const budget_ledger_client *client)
{
    key_list *list = context;
    if (!client->revoked && list->count < BUDGET_CLIENTS_MAX) {
        memcpy(list->keys[list->count++], client->public_key, PROTO_KEY_BYTES);
    }
    return true;
}

base_status service_admission_load(budget_service *service, base_error *reterr)
{
    key_list list = {.keys = malloc(BUDGET_CLIENTS_MAX * sizeof list.keys[0])};
    if (list.keys == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the list of clients");
    }
    const base_status status = budget_ledger_clients(service->ledger, collect_key, &list, reterr);
    if (status != BASE_OK) {
        free(list.keys);
        return status;
    }
    service_admission_set(&service->admission, list.keys, list.count);
    return BASE_OK;
}

/* What to bind: the option, or in DIR/run; the redeem endpoint of a TCP service has a port of its
 * own, which the system chooses. */
static base_status choose(const budget_service *service, int endpoint,
                          char address[BASE_PATH_BYTES], base_error *reterr)
{
    const char *asked = endpoint == SERVICE_ENDPOINT_ASK ? service->options->listen
                                                         : service->options->listen_redeem;
    const char *listen = service->options->listen;
    int length = 0;
    if (asked != NULL) {
        length = snprintf(address, BASE_PATH_BYTES, "%s", asked);
    } else if (listen != NULL && strncmp(listen, "tcp://", 6) == 0) {
        const char *colon = strrchr(listen, ':');
        length = snprintf(address, BASE_PATH_BYTES, "%.*s:*", (int)(colon - listen), listen);
    } else if (listen != NULL) {
        length = snprintf(address, BASE_PATH_BYTES, "%s.redeem", listen);
    } else {
        length = snprintf(address, BASE_PATH_BYTES, "ipc://%s/run/%s", service->dir,
                          socket_names[endpoint]);
    }
    if (length >= BASE_PATH_BYTES) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%s: too long a path", service->dir);
    }
    return budget_endpoint_check(address, reterr);
}

static base_status bind_failed(const char *address, base_error *reterr)
{
    return zmq_errno() == ENODEV
               ? base_fail(reterr, BASE_ERR_INVALID,
                           "%s: ADDRESS must be one of this host's, in numbers, or the name of an "
                           "interface, or *",
                           address)
               : proto_zmq_fail(reterr, address);
}

static base_status open_endpoint(budget_service *service, int endpoint, base_error *reterr)
{
    char address[BASE_PATH_BYTES];
    size_t bound_bytes = sizeof service->endpoints[endpoint];
    const proto_socket_options options = {
        .kind = PROTO_SOCKET_SERVE,
        .message_bytes_max = message_bytes_max[endpoint],
        .keys = service->curve,
        .zap_domain = domains[endpoint],
    };
    void **socket = &service->sockets[endpoint];
    base_status status = choose(service, endpoint, address, reterr);
    if (status == BASE_OK) {
        status = proto_socket_open(service->context, &options, socket, reterr);
    }
    if (status == BASE_OK) {
        status = service_connections_open(&service->connections[endpoint], service->context,
                                          *socket, reterr);
    }
    if (status == BASE_OK && (zmq_bind(*socket, address) != 0 ||
                              zmq_getsockopt(*socket, ZMQ_LAST_ENDPOINT,
                                             service->endpoints[endpoint], &bound_bytes) != 0)) {
        status = bind_failed(address, reterr);
    }
    return status;
}

base_status service_sockets_open(budget_service *service, base_error *reterr)
{
    const proto_zap_options zap_options = {.admit = service_admission_admit,
                                           .user = &service->admission};
    base_status status = proto_socket_context(&service->context, reterr);
    if (status == BASE_OK) {
        status = service_admission_load(service, reterr);
    }
    if (status == BASE_OK) {
        status = proto_zap_start(service->context, &zap_options, &service->zap, reterr);
    }
    for (int i = 0; i < SERVICE_ENDPOINTS && status == BASE_OK; i++) {
        status = open_endpoint(service, i, reterr);
    }
    service->memory_base_bytes = service_memory_bytes();
    return status;
}

void service_sockets_close(budget_service *service)
{
    for (int i = 0; i < SERVICE_ENDPOINTS; i++) {
        service_connections_close(&service->connections[i]);
        if (service->sockets[i] != NULL) {
            (void)zmq_close(service->sockets[i]);
        }
    }
    if (service->context != NULL) {
        /* Sockets that linger have their time; then the admission thread is let go. */
        (void)zmq_ctx_shutdown(service->context);
        proto_zap_join(service->zap);
        (void)zmq_ctx_term(service->context);
    }
}

void service_flood_check(budget_service *service)
{
    int connected = 0;
    for (int i = 0; i < SERVICE_ENDPOINTS; i++) {
        service_connections_update(&service->connections[i]);
        connected += service_connections_count(&service->connections[i]);
    }
    const int64_t now_ns = base_now_ns();
    if (connected == 0 || now_ns < service->flood_check_ns) {
        return;
    }
    service->flood_check_ns = now_ns + SERVICE_FLOOD_CHECK_MS * BASE_NS_PER_MS;
    if (service_memory_bytes() > service->memory_base_bytes + SERVICE_FLOOD_BYTES) {
        base_log(BASE_LOG_WARNING,
                 "messages without end take up memory: all %d connections are "
                 "closed",
                 connected);
        for (int i = 0; i < SERVICE_ENDPOINTS; i++) {
            service_connections_end_all(&service->connections[i]);
        }
    }
}
