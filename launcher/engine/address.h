/* Where the head listens: parsing "tcp://host:port", and numeric addresses of a host. */
#ifndef LAUNCH_ADDRESS_H
#define LAUNCH_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "proto/limits.h"

enum { LAUNCH_ADDRESSES_MAX = 8, LAUNCH_NUMERIC_BYTES = 64 };

typedef struct launch_address {
    char host[BASE_HOSTNAME_BYTES]; /* a name or a numeric address, without brackets */
    int port;
} launch_address;

typedef struct launch_addresses {
    char numeric[LAUNCH_ADDRESSES_MAX][LAUNCH_NUMERIC_BYTES];
    int count;
} launch_addresses;

/* "host:port", "[fd00::1]:port", of a port from port_min on. False: it is neither. */
bool launch_address_split(const char *text, int port_min, launch_address *address);

/* "tcp://host:port", "host:port", "tcp://[fd00::1]:port". BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_address_parse(const char *text, launch_address *address,
                                                 base_error *reterr);

/* Asks the system's resolver for a host's addresses, on a thread. The question is the caller's, and the
 * thread's until it has the answer: the caller may drop it at any time. */
typedef struct launch_question launch_question;
BASE_MUST_CHECK base_status launch_question_ask(const char *host, launch_question **question,
                                                base_error *reterr);

/* Can be read once the answer is there. */
int launch_question_fd(const launch_question *question);

/* The answer: the host's numeric addresses, IPv4 and IPv6. BASE_ERR_NOTFOUND: there are none. */
BASE_MUST_CHECK base_status launch_question_answer(const launch_question *question,
                                                   launch_addresses *addresses, base_error *reterr);

/* NULL is fine. */
void launch_question_drop(launch_question *question);

bool launch_addresses_have(const launch_addresses *addresses, const char *numeric);

/* This host's own addresses: IPv4, IPv6, and 127.0.0.1 last. */
void launch_address_own(launch_addresses *addresses);

/* 127.0.0.0/8 and ::1. */
bool launch_address_is_loopback(const char *numeric);

/* "tcp://10.0.0.1:29400", with brackets where IPv6 needs them. */
void launch_address_endpoint(const char *numeric, int port, char endpoint[PROTO_ENDPOINT_BYTES]);

/* The port at the end of an endpoint. */
int launch_address_port(const char *endpoint);

#endif
