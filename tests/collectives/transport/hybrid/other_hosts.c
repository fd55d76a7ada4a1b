/* Stands in for what tells hosts apart. */
#include "other_hosts.h"

#include <stdio.h>

#include "core/identity.h"
#include "transport/socket/interface.h"

_Thread_local int other_host_here;

void __real_coll_identity_get(coll_identity *identity);
void __wrap_coll_identity_get(coll_identity *identity);
bool __wrap_coll_address_is_loopback(const char *address);
coll_status __wrap_coll_interface_choose(const char *choice, const char *rendezvous, bool beyond,
                                         char address[COLL_ADDRESS_BYTES], coll_error *reterr);

void __wrap_coll_identity_get(coll_identity *identity)
{
    __real_coll_identity_get(identity);
    (void)snprintf(identity->host, sizeof identity->host, "host%d", other_host_here);
    identity->net_namespace += (uint64_t)other_host_here;
}

bool __wrap_coll_address_is_loopback(const char *address)
{
    (void)address;
    return false;
}

coll_status __wrap_coll_interface_choose(const char *choice, const char *rendezvous, bool beyond,
                                         char address[COLL_ADDRESS_BYTES], coll_error *reterr)
{
    (void)choice;
    (void)rendezvous;
    (void)beyond;
    (void)reterr;
    (void)snprintf(address, COLL_ADDRESS_BYTES, "127.0.0.1");
    return COLL_OK;
}
