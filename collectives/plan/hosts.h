/* Which rank is on which host, as tables that plans can look things up in. Hosts are numbered from
 * 0; a rank's local rank is its index among the ranks of its host, in ascending order. */
#ifndef COLL_SRC_PLAN_HOSTS_H
#define COLL_SRC_PLAN_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct coll_hosts {
    int ranks;
    int count;
    int local_ranks_min;        /* ranks of the smallest host */
    const uint16_t *host;       /* (ranks) */
    const uint16_t *local_rank; /* (ranks) */
    const uint16_t *begin;      /* (count + 1), into members */
    const uint16_t *members;    /* (ranks), host by host */
} coll_hosts;

/* Words that coll_hosts_make needs for so many ranks. */
#define COLL_HOSTS_WORDS(ranks) (4 * (ranks) + 1)

/* Fills *hosts from host_of (ranks), whose numbers are below `ranks` but need not be dense: hosts
 * are numbered anew by their first rank. `words` holds the tables, is the caller's, and must live
 * as long as *hosts. 1 <= ranks <= 65535. */
void coll_hosts_make(coll_hosts *hosts, const uint16_t *host_of, int ranks, uint16_t *words);

/* Whether each host has the next 2^k ranks, the same k for all, and the last one at most as many:
 * then the canonical order over all ranks is that over the hosts of those over their ranks. */
bool coll_hosts_are_aligned(const coll_hosts *hosts);

#endif
