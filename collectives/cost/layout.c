/* From which rank is on which host to what the cost model asks of it. Called when a communicator is
 * made. */
#include "cost/layout.h"

void coll_cost_layout(const coll_hosts *hosts, coll_layout *layout)
{
    *layout = (coll_layout){.ranks = hosts->ranks,
                            .hosts = hosts->count,
                            .host_ranks_min = hosts->local_ranks_min,
                            .contiguous = true,
                            .aligned = coll_hosts_are_aligned(hosts)};
    for (int host = 0; host < hosts->count; host++) {
        const int ranks = hosts->begin[host + 1] - hosts->begin[host];
        layout->host_ranks_max = ranks > layout->host_ranks_max ? ranks : layout->host_ranks_max;
    }
    for (int i = 0; i < hosts->ranks; i++) {
        layout->contiguous = layout->contiguous && hosts->members[i] == i;
    }
}
