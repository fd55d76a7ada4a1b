/* Network namespaces as hosts: each has one port on a bridge that joins them. Threads and processes
 * enter one, and are on that host as far as libcoll can tell. All goes with the last of them. */
#ifndef TEST_COLL_NETNS_H
#define TEST_COLL_NETNS_H

#include <stdbool.h>

#include "ringfence/coll_error.h"

enum { NETNS_HOSTS_MAX = 4 };

/* Runs a command of the shell; false if it fails. */
bool netns_run(const char *format, ...) BASE_PRINTF(1, 2);

/* Moves this process into a namespace of its own, with the bridge. False where that takes more than
 * it may do, or programs that are not there. */
bool netns_begin(void);

/* Makes a host, connected; its interface is called `port`, has fd00::N and fe80::N and is up, as lo
 * is. False if that fails. */
bool netns_make(int host, int n);

/* Runs a command on a host; false if it fails. */
bool netns_run_on(int host, const char *format, ...) BASE_PRINTF(2, 3);

/* Moves this thread to a host. */
bool netns_enter(int host);

#endif
