/* Parses the rendezvous of a job on several hosts, and lists a host's addresses. Called
 * by cli/ for its check, by the head, by agents, and by engine/bootstrap.c. */
#include "engine/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { PORT_MAX = 65535 };

bool launch_address_split(const char *text, int port_min, launch_address *address)
{
    const char *at = text;
    const char *colon = strrchr(at, ':');
    const char *end = colon;
    char *after = NULL;
    const bool brackets = at[0] == '[';
    if (brackets) {
        at++;
        end = colon != NULL && colon > at && colon[-1] == ']' ? colon - 1 : NULL;
    }
    const bool whole = colon != NULL && end != NULL && end > at &&
                       (brackets || memchr(at, ':', (size_t)(end - at)) == NULL) &&
                       (size_t)(end - at) < sizeof address->host;
    const long port =
        whole && colon[1] >= '0' && colon[1] <= '9' ? strtol(colon + 1, &after, 10) : -1;
    if (port < port_min || port > PORT_MAX || *after != '\0') {
        return false;
    }
    memcpy(address->host, at, (size_t)(end - at));
    address->host[end - at] = '\0';
    address->port = (int)port;
    return true;
}

base_status launch_address_parse(const char *text, launch_address *address, base_error *reterr)
{
    const char *at = strncmp(text, "tcp://", 6) == 0 ? text + 6 : text;
    if (!launch_address_split(at, 1, address)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--rendezvous '%s': must be tcp://HOST:PORT, as in tcp://node0:29400 or "
                         "tcp://[fd00::1]:29400",
                         text);
    }
    if (strchr(address->host, '%') != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--rendezvous '%s': a link-local address is another one on each host: "
                         "name one without %%",
                         text);
    }
    return BASE_OK;
}

/* Adds the addresses of one family that other hosts may know. */
static void add_own(const struct ifaddrs *all, int family, base_addresses *addresses)
{
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        char numeric[BASE_NUMERIC_BYTES];
        const bool inet6 = family == AF_INET6;
        const socklen_t length = inet6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != family ||
            (one->ifa_flags & IFF_UP) == 0 ||
            getnameinfo(one->ifa_addr, length, numeric, sizeof numeric, NULL, 0, NI_NUMERICHOST) !=
                0 ||
            launch_address_is_loopback(numeric) ||
            strchr(numeric, '%') != NULL || /* of this link alone */
            base_addresses_have(addresses, numeric) || addresses->count + 1 == BASE_ADDRESSES_MAX) {
            continue;
        }
        memcpy(addresses->numeric[addresses->count++], numeric, sizeof numeric);
    }
}

void launch_address_own(base_addresses *addresses)
{
    struct ifaddrs *all = NULL;
    addresses->count = 0;
    if (getifaddrs(&all) == 0) {
        add_own(all, AF_INET, addresses);
        add_own(all, AF_INET6, addresses);
        freeifaddrs(all);
    }
    /* launchers of the same host, where it has no other address */
    (void)snprintf(addresses->numeric[addresses->count++], BASE_NUMERIC_BYTES, "127.0.0.1");
}

bool launch_address_is_loopback(const char *numeric)
{
    return strncmp(numeric, "127.", 4) == 0 || strcmp(numeric, "::1") == 0;
}

void launch_address_endpoint(const char *numeric, int port, char endpoint[PROTO_ENDPOINT_BYTES])
{
    const bool brackets = strchr(numeric, ':') != NULL;
    (void)snprintf(endpoint, PROTO_ENDPOINT_BYTES, "tcp://%s%s%s:%d", brackets ? "[" : "", numeric,
                   brackets ? "]" : "", port);
}

int launch_address_port(const char *endpoint)
{
    const char *colon = strrchr(endpoint, ':');
    return colon != NULL ? (int)strtol(colon + 1, NULL, 10) : 0;
}
