/* Which host a process runs on. Two processes are on one host if boot id and namespaces are the same.
 * Thread safe. */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stdint.h>

#include "base/limits.h"

enum { BASE_BOOT_ID_BYTES = 37 }; /* with the final NUL */

typedef struct base_host {
    char hostname[BASE_HOSTNAME_BYTES];
    char boot_id[BASE_BOOT_ID_BYTES];
    uint64_t pid_namespace;
    uint64_t net_namespace;  /* of the calling thread */
    uint64_t time_namespace; /* which shifts base_now_ns */
    uint32_t cpus;           /* that the calling thread may run on */
} base_host;

/* What the system does not say is "" or 0. */
void base_host_get(base_host *host);

#endif
