/* Where the head listens: parsing "tcp://host:port", and numeric addresses of a host. */
#ifndef LAUNCH_ADDRESS_H
#define LAUNCH_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/resolve.h"
#include "base/status.h"
#include "proto/limits.h"

typedef struct launch_address {
    char host[BASE_HOSTNAME_BYTES]; /* a name or a numeric address, without brackets */
    int port;
} launch_address;

/* "host:port", "[fd00::1]:port", of a port from port_min on. False: it is neither. */
bool launch_address_split(const char *text, int port_min, launch_address *address);

/* "tcp://host:port", "host:port", "tcp://[fd00::1]:port". BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_address_parse(const char *text, launch_address *address,
                                                 base_error *reterr);

/* This host's own addresses: IPv4, IPv6, and 127.0.0.1 last. */
void launch_address_own(base_addresses *addresses);

/* 127.0.0.0/8 and ::1. */
bool launch_address_is_loopback(const char *numeric);

/* "tcp://10.0.0.1:29400", with brackets where IPv6 needs them. */
void launch_address_endpoint(const char *numeric, int port, char endpoint[PROTO_ENDPOINT_BYTES]);

/* The port at the end of an endpoint. */
int launch_address_port(const char *endpoint);

#endif
