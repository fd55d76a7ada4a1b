/* Clients that do not use the library: raw requests, and raw sockets that misbehave. */
#ifndef TEST_SERVICE_RAW_H
#define TEST_SERVICE_RAW_H

#include <budget.pb-c.h>
#include <stddef.h>

#include "client/link.h"
#include "service_fixture.h"

/* A link to the service's endpoint with the key of DIR/clients/NAME.key; name NULL: a fresh key, to
 * the redeem endpoint. */
void raw_open(const service_fixture *fixture, const char *name, budget_link *link);

/* Asks; *response lives until the next question. Fails the test when there is no answer. */
void raw_ask(budget_link *link, Ringfence__Budget__Request *request,
             Ringfence__Budget__Response **response);

/* A DEALER of ours in the context, with every option as a client has it, not connected yet; the
 * endpoint in fixture is to be connected to. */
void *raw_socket(const service_fixture *fixture, void *context, const char *name);

/* Waits up to 10 s for the answer to a raw request on such a socket; its verdict. */
Ringfence__Budget__Verdict raw_verdict(void *socket, proto_arena *arena);

/* Packs into data (size_bytes); the packed size. */
size_t raw_pack(Ringfence__Budget__Request *request, uint8_t *data, size_t size_bytes);

/* The service answers a client as it should. */
void assert_alive(const service_fixture *fixture);

/* Resident memory of the service. */
size_t service_rss_bytes(const service_fixture *fixture);

#endif
