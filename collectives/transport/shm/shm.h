/* Shared memory, for ranks of one host. */
#ifndef COLL_SRC_SHM_H
#define COLL_SRC_SHM_H

#include "core/transport.h"

extern const coll_transport_table coll_shm_transport;

#endif
