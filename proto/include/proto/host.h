/* Which host a process runs on. Two processes are on one host if boot id and namespaces are the
 * same. Pure but for the system's files; thread safe. */
#ifndef PROTO_HOST_H
#define PROTO_HOST_H

#include <stdint.h>

#include "base/limits.h"

enum { PROTO_BOOT_ID_BYTES = 64 };

typedef struct proto_host {
    char hostname[BASE_HOSTNAME_BYTES];
    char boot_id[PROTO_BOOT_ID_BYTES];
    uint64_t pid_namespace;
    uint64_t net_namespace;
    uint32_t cpus; /* that this process may run on */
} proto_host;

void proto_host_get(proto_host *host);

#endif
