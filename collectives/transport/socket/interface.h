/* Which address a rank listens on, and sends to its peers.
 *
 * From an interface's name, a numeric address of this host, a network, a list of names to leave
 * out, or, if nothing is said, the source address of the route to the rendezvous. An address that
 * others cannot connect to (loopback, 0.0.0.0, one of no interface) is refused with a message that
 * says what there is to choose from. Blocks no longer than the system takes to list its
 * interfaces. */
#ifndef COLL_SRC_INTERFACE_H
#define COLL_SRC_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>

#include "ringfence/coll_error.h"

enum { COLL_ADDRESS_BYTES = 64, COLL_INTERFACE_NAME_BYTES = 16, COLL_INTERFACES_MAX = 4096 };

/* One address of one interface that is up. */
typedef struct coll_interface {
    char name[COLL_INTERFACE_NAME_BYTES];
    char address[COLL_ADDRESS_BYTES]; /* numeric */
} coll_interface;

/* Writes the address to listen on. `beyond`: ranks on other hosts must reach it. `rendezvous` and
 * `choice` may be NULL. COLL_ERR_INVALID: nothing fits, or `choice` is no choice; COLL_ERR_IO: the
 * system does not say. */
COLL_MUST_CHECK coll_status coll_interface_choose(const char *choice, const char *rendezvous,
                                                  bool beyond, char address[COLL_ADDRESS_BYTES],
                                                  coll_error *reterr);

/* The same from a given list, without the rendezvous. Pure. choice is not NULL. */
COLL_MUST_CHECK coll_status coll_interface_pick(const coll_interface *list, size_t count,
                                                const char *choice, bool beyond,
                                                char address[COLL_ADDRESS_BYTES],
                                                coll_error *reterr);

/* Where this rank, which listens on `own`, reaches a peer that listens on `theirs`: the same but
 * for the scope of an address that holds on one link only, whose name is each host's own. */
void coll_address_reach(const char *own, const char *theirs, char address[COLL_ADDRESS_BYTES]);

/* 127.0.0.0/8, ::1, and their like written as IPv6. */
bool coll_address_is_loopback(const char *address);
/* 0.0.0.0 and ::. */
bool coll_address_is_any(const char *address);

#endif
