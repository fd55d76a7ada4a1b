/* What identifies a rank: the host it runs on, by boot id and namespaces rather than by name, its
 * process, the processors it may use, and what it asked for.
 * Exchanged as a record of fixed size. */
#ifndef COLL_SRC_IDENTITY_H
#define COLL_SRC_IDENTITY_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/host.h"
#include "coll/coll.h"
#include "common/limits.h"

enum { COLL_IDENTITY_BYTES = 384, COLL_CPUS_BYTES = 128 };

typedef struct coll_identity {
    uint32_t version;
    uint32_t rank;
    uint32_t world_size;
    uint32_t transport;
    uint32_t algorithm;
    uint32_t pid;
    uint32_t uid;
    uint32_t cpu_quota; /* whole processors of the cgroup's quota, rounded up; 0: no quota */
    uint64_t pid_namespace;
    uint64_t net_namespace;
    char boot_id[BASE_BOOT_ID_BYTES];
    char host[COLL_HOST_BYTES];
    uint8_t cpus[COLL_CPUS_BYTES]; /* affinity mask, bit by bit */
} coll_identity;

/* This process. What the system does not say is left empty, and then equals nobody's. */
void coll_identity_get(coll_identity *identity);

void coll_identity_encode(const coll_identity *identity, uint8_t record[COLL_IDENTITY_BYTES]);
COLL_MUST_CHECK coll_status coll_identity_decode(const uint8_t record[COLL_IDENTITY_BYTES],
                                                 coll_identity *identity, coll_error *reterr);

/* Same boot id, pid and network namespaces: memory and abstract sockets can be shared. */
bool coll_identity_same_host(const coll_identity *a, const coll_identity *b);

/* Whether some rank is on another host than `rank`. */
bool coll_identity_reaches_beyond(const coll_identity *all, int count, int rank);

/* Processors that the ranks on this rank's host may use together, at least 1: the union of their
 * affinity masks, within the smallest quota. */
int coll_identity_cpus(const coll_identity *all, int count, const coll_identity *mine);

#endif
