/* Reads which ports ranks may listen at. Called by tcp/listen.c and zmq/links.c. */
#include "transport/socket/ports.h"

#include <stdlib.h>

#define PORTS_VARIABLE "RINGFENCE_COLL_PORTS"

coll_status coll_ports_allowed(base_ports *ports, coll_error *reterr)
{
    const char *text = getenv(PORTS_VARIABLE);
    *ports = (base_ports){.low = 0};
    if (text == NULL || base_ports_parse(text, ports)) {
        return COLL_OK;
    }
    return coll_fail(reterr, COLL_ERR_INVALID,
                     PORTS_VARIABLE "=%s: must be LOW-HIGH, as in 29500-29599", text);
}

coll_status coll_ports_taken(const base_ports *ports, const char *address, coll_error *reterr)
{
    return coll_fail(reterr, COLL_ERR_IO,
                     "all ports from %d to %d of %s are taken (" PORTS_VARIABLE
                     ", --listen-ports of a launcher)",
                     ports->low, ports->high, address);
}
