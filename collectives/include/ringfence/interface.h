/* Whether a text can choose an interface, for programs of this project that hand it to libcoll later.
 * Not installed. Any thread. */
#ifndef RINGFENCE_INTERFACE_H
#define RINGFENCE_INTERFACE_H

#include "coll/status.h"

/* COLL_ERR_INVALID: no host has an interface that fits, because the text is all interfaces
 * ("0.0.0.0"), or a network that there cannot be ("10.0.0.0/99"). Does not ask the system. */
COLL_MUST_CHECK coll_status coll_interface_check(const char *choice, coll_error *reterr);

#endif
