/* Chooses the address that a rank listens on and sends to its peers. Called by the links of tcp and
 * zmq while they connect. */
#include "transport/socket/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ringfence/interface.h"

enum { LIST_BYTES = 360, BYTES_V4 = 4, BYTES_V6 = 16 };

/* The bytes of a numeric address, and how many (4 or 16); 0 if it is none. IPv4 written as IPv6
 * counts as IPv4. */
static size_t address_bytes(const char *text, uint8_t bytes[BYTES_V6])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (inet_pton(AF_INET, text, bytes) == 1) {
        return BYTES_V4;
    }
    if (inet_pton(AF_INET6, text, bytes) != 1) {
        return 0;
    }
    if (memcmp(bytes, mapped, sizeof mapped) == 0) {
        memmove(bytes, bytes + sizeof mapped, BYTES_V4);
        return BYTES_V4;
    }
    return BYTES_V6;
}

bool coll_address_is_loopback(const char *address)
{
    static const uint8_t one[BYTES_V6] = {[15] = 1};
    uint8_t bytes[BYTES_V6];
    const size_t size = address_bytes(address, bytes);
    return (size == BYTES_V4 && bytes[0] == 127) ||
           (size == BYTES_V6 && memcmp(bytes, one, sizeof one) == 0);
}

bool coll_address_is_any(const char *address)
{
    static const uint8_t any[BYTES_V6];
    uint8_t bytes[BYTES_V6];
    const size_t size = address_bytes(address, bytes);
    return size != 0 && memcmp(bytes, any, size) == 0;
}

/* IPv6 addresses that hold on one link only need a scope, which peers do not know. */
static bool is_link_local(const char *address)
{
    uint8_t bytes[BYTES_V6];
    return address_bytes(address, bytes) == BYTES_V6 && bytes[0] == 0xfe &&
           (bytes[1] & 0xc0) == 0x80;
}

void coll_address_reach(const char *own, const char *theirs, char address[COLL_ADDRESS_BYTES])
{
    const int bare = (int)strcspn(theirs, "%");
    (void)snprintf(address, COLL_ADDRESS_BYTES, "%.*s", bare, theirs);
    if (is_link_local(address)) {
        (void)snprintf(address, COLL_ADDRESS_BYTES, "%.*s%s", bare, theirs,
                       own + strcspn(own, "%"));
    }
}

/* "lo 127.0.0.1, eth0 10.0.0.2" */
static void list_text(const coll_interface *list, size_t count, char *text, size_t size_bytes)
{
    size_t used = 0;
    (void)snprintf(text, size_bytes, "no interface that is up");
    for (size_t i = 0; i < count && used + 1 < size_bytes; i++) {
        if (is_link_local(list[i].address)) {
            continue;
        }
        const int added = snprintf(text + used, size_bytes - used, "%s%s %s", used == 0 ? "" : ", ",
                                   list[i].name, list[i].address);
        used += added > 0 ? (size_t)added : 0;
    }
}

/* Whether an address lies in "10.0.0.0/8"; -1 if that is no network. */
static int lies_in(const char *address, const char *network)
{
    char text[COLL_ADDRESS_BYTES];
    uint8_t prefix[BYTES_V6];
    uint8_t bytes[BYTES_V6];
    const char *slash = strchr(network, '/');
    char *end = NULL;
    if (slash == NULL || (size_t)(slash - network) >= sizeof text) {
        return -1;
    }
    memcpy(text, network, (size_t)(slash - network));
    text[slash - network] = '\0';
    const size_t size = address_bytes(text, prefix);
    const unsigned long bits = strtoul(slash + 1, &end, 10);
    if (size == 0 || slash[1] < '0' || slash[1] > '9' || *end != '\0' || bits > 8 * size) {
        return -1;
    }
    if (address_bytes(address, bytes) != size) {
        return 0;
    }
    for (unsigned long bit = 0; bit < bits; bit++) {
        if (((bytes[bit / 8] ^ prefix[bit / 8]) >> (7 - bit % 8) & 1) != 0) {
            return 0;
        }
    }
    return 1;
}

/* Whether a name is in "a,b,c". */
static bool is_listed(const char *name, const char *names)
{
    const size_t length = strlen(name);
    for (const char *at = names; *at != '\0';) {
        const size_t word = strcspn(at, ",");
        if (word == length && memcmp(at, name, length) == 0) {
            return true;
        }
        at += word + (at[word] == ',' ? 1 : 0);
    }
    return false;
}

static bool matches(const coll_interface *one, const char *choice)
{
    if (choice[0] == '^') {
        return !is_listed(one->name, choice + 1) && !coll_address_is_loopback(one->address);
    }
    if (strchr(choice, '/') != NULL) {
        return lies_in(one->address, choice) == 1;
    }
    uint8_t wanted[BYTES_V6];
    uint8_t bytes[BYTES_V6];
    const size_t size = address_bytes(choice, wanted);
    if (size != 0) {
        /* All of 127.0.0.0/8 is this host's. */
        return (address_bytes(one->address, bytes) == size && memcmp(bytes, wanted, size) == 0) ||
               (coll_address_is_loopback(choice) && coll_address_is_loopback(one->address));
    }
    return strcmp(one->name, choice) == 0;
}

static coll_status refuse_loopback(const char *address, const coll_interface *list, size_t count,
                                   coll_error *reterr)
{
    char there[LIST_BYTES];
    list_text(list, count, there, sizeof there);
    return coll_fail(
        reterr, COLL_ERR_INVALID,
        "ranks on other hosts cannot reach %s: name an interface, an address or a "
        "network (coll_context_options.interface, --interface of a launcher; here are: %s)",
        address, there);
}

coll_status coll_interface_check(const char *choice, coll_error *reterr)
{
    if (coll_address_is_any(choice)) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "%s is every interface, and nobody can connect to that: name one", choice);
    }
    return strchr(choice, '/') == NULL || lies_in("0.0.0.0", choice) >= 0
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_INVALID, "'%s' is no network (as 10.0.0.0/8)", choice);
}

coll_status coll_interface_pick(const coll_interface *list, size_t count, const char *choice,
                                bool beyond, char address[COLL_ADDRESS_BYTES], coll_error *reterr)
{
    char there[LIST_BYTES];
    uint8_t bytes[BYTES_V6];
    const coll_interface *best = NULL;
    const coll_status status = coll_interface_check(choice, reterr);
    if (status != COLL_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        if (!matches(&list[i], choice) || is_link_local(list[i].address)) {
            continue;
        }
        /* IPv4 first, and what others can reach before loopback. */
        const bool better = best == NULL ||
                            (coll_address_is_loopback(best->address) &&
                             !coll_address_is_loopback(list[i].address)) ||
                            (address_bytes(best->address, bytes) == BYTES_V6 &&
                             address_bytes(list[i].address, bytes) == BYTES_V4);
        best = better ? &list[i] : best;
    }
    if (best == NULL) {
        list_text(list, count, there, sizeof there);
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "no interface of this host fits '%s' (here are: "
                         "%s)",
                         choice, there);
    }
    const char *found = coll_address_is_loopback(choice) ? choice : best->address;
    if (beyond && coll_address_is_loopback(found)) {
        return refuse_loopback(found, list, count, reterr);
    }
    (void)snprintf(address, COLL_ADDRESS_BYTES, "%s", found);
    return COLL_OK;
}

static bool has_address(const struct ifaddrs *at)
{
    return at->ifa_addr != NULL && (at->ifa_flags & IFF_UP) != 0 &&
           (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6);
}

/* The caller frees *list. */
static coll_status list_interfaces(coll_interface **list, size_t *count, coll_error *reterr)
{
    struct ifaddrs *all = NULL;
    size_t room = 1;
    *count = 0;
    if (getifaddrs(&all) != 0) {
        return coll_fail_errno(reterr, errno, "cannot list the network interfaces");
    }
    for (const struct ifaddrs *at = all; at != NULL && room < COLL_INTERFACES_MAX;
         at = at->ifa_next) {
        room += has_address(at);
    }
    *list = calloc(room, sizeof **list);
    for (const struct ifaddrs *at = all; *list != NULL && at != NULL && *count < room;
         at = at->ifa_next) {
        if (!has_address(at)) {
            continue;
        }
        coll_interface *one = &(*list)[*count];
        const socklen_t size = at->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                                  : sizeof(struct sockaddr_in6);
        if (getnameinfo(at->ifa_addr, size, one->address, sizeof one->address, NULL, 0,
                        NI_NUMERICHOST) == 0) {
            one->address[strcspn(one->address, "%")] = '\0';
            (void)snprintf(one->name, sizeof one->name, "%s", at->ifa_name);
            ++*count;
        }
    }
    freeifaddrs(all);
    return *list != NULL ? COLL_OK
                         : coll_fail(reterr, COLL_ERR_MEMORY, "no memory for %zu interfaces", room);
}

/* The address that this host would send to `remote` from:
 * asked with a socket that sends nothing. */
static coll_status route_source(const char *remote, char address[COLL_ADDRESS_BYTES],
                                coll_error *reterr)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_DGRAM};
    struct addrinfo *to = NULL;
    struct sockaddr_storage from;
    socklen_t from_bytes = sizeof from;
    if (coll_address_is_any(remote) || getaddrinfo(remote, "9", &hints, &to) != 0) {
        return coll_fail(reterr, COLL_ERR_INVALID, "the rendezvous' address '%s' is none to reach",
                         remote);
    }
    const int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    coll_status status = COLL_OK;
    if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) != 0 ||
        getsockname(fd, (struct sockaddr *)&from, &from_bytes) != 0) {
        status = coll_fail(reterr, COLL_ERR_IO, "no route to the rendezvous at %s: %s", remote,
                           strerror(errno));
    } else if (getnameinfo((struct sockaddr *)&from, from_bytes, address, COLL_ADDRESS_BYTES, NULL,
                           0, NI_NUMERICHOST) != 0) {
        status = coll_fail(reterr, COLL_ERR_IO, "the route to %s has no address", remote);
    }
    freeaddrinfo(to);
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

coll_status coll_interface_choose(const char *choice, const char *rendezvous, bool beyond,
                                  char address[COLL_ADDRESS_BYTES], coll_error *reterr)
{
    coll_interface *list = NULL;
    size_t count = 0;
    coll_status status = COLL_OK;
    const bool chosen = choice != NULL && choice[0] != '\0';
    (void)snprintf(address, COLL_ADDRESS_BYTES, "127.0.0.1");
    if (!chosen && rendezvous != NULL && rendezvous[0] != '\0') {
        status = route_source(rendezvous, address, reterr);
    }
    if (status != COLL_OK || (!chosen && !(beyond && coll_address_is_loopback(address)))) {
        return status;
    }
    status = list_interfaces(&list, &count, reterr);
    if (status == COLL_OK) {
        status = chosen ? coll_interface_pick(list, count, choice, beyond, address, reterr)
                        : refuse_loopback(address, list, count, reterr);
    }
    free(list);
    return status;
}
