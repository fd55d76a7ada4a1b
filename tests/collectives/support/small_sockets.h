/* Sockets that hold next to nothing, whatever they are asked to: as where the system's limits are
 * low. For tests that wrap setsockopt. */
#ifndef TEST_COLL_SMALL_SOCKETS_H
#define TEST_COLL_SMALL_SOCKETS_H

#include <stdbool.h>

/* Whether sockets made from now on, by any thread, are small. Set it while no ranks run. */
extern bool test_small_sockets;

#endif
