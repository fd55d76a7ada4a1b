/* The port that MASTER_PORT names to a user's program: rank 0 may listen there, and the others find
 * it, as PyTorch's init_process_group does. Called by start.c. One thread. */
#ifndef LAUNCH_MASTER_PORT_H
#define LAUNCH_MASTER_PORT_H

#include "base/ports.h"
#include "base/status.h"

/* Chooses a free port of this host, of those in `ports`. The socket *fd, which does not listen, is bound to it: as long as it is open,
 * the system gives the port to nobody who asks for any, and a program that sets SO_REUSEADDR can bind to it and
 * listen. The caller closes *fd. */
BASE_MUST_CHECK base_status launch_master_port_hold(const base_ports *ports, int *fd, int *port,
                                                    base_error *reterr);

#endif
