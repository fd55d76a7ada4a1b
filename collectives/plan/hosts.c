/* Tables of which rank is on which host, and whether hosts lie so that two_level is canonical.
 * Called by comm_make.c, the cost model, and the simulator. */
#include "plan/hosts.h"

#include "base/assert.h"

void coll_hosts_make(coll_hosts *hosts, const uint16_t *host_of, int ranks, uint16_t *words)
{
    uint16_t *host = words;
    uint16_t *local_rank = host + ranks;
    uint16_t *members = local_rank + ranks;
    uint16_t *begin = members + ranks;
    int placed = 0;
    int count = 0;
    BASE_ASSERT(ranks >= 1);
    hosts->local_ranks_min = ranks;
    for (int first = 0; first < ranks; first++) {
        bool known = false;
        for (int rank = 0; rank < first && !known; rank++) {
            known = host_of[rank] == host_of[first];
        }
        if (known) {
            continue;
        }
        begin[count] = (uint16_t)placed;
        for (int rank = first; rank < ranks; rank++) {
            if (host_of[rank] == host_of[first]) {
                host[rank] = (uint16_t)count;
                local_rank[rank] = (uint16_t)(placed - begin[count]);
                members[placed++] = (uint16_t)rank;
            }
        }
        const int here = placed - begin[count++];
        hosts->local_ranks_min = here < hosts->local_ranks_min ? here : hosts->local_ranks_min;
    }
    begin[count] = (uint16_t)placed;
    hosts->ranks = ranks;
    hosts->count = count;
    hosts->host = host;
    hosts->local_rank = local_rank;
    hosts->members = members;
    hosts->begin = begin;
}

bool coll_hosts_are_aligned(const coll_hosts *hosts)
{
    const int first = hosts->begin[1];
    if (hosts->count > 1 && (first & (first - 1)) != 0) {
        return false;
    }
    for (int i = 0; i < hosts->ranks; i++) {
        if (hosts->members[i] != i) {
            return false;
        }
    }
    for (int h = 1; h < hosts->count; h++) {
        const int here = hosts->begin[h + 1] - hosts->begin[h];
        if (here > first || (here < first && h < hosts->count - 1)) {
            return false;
        }
    }
    return true;
}
