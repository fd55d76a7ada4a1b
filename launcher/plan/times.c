/* Times of single pieces of work, and which link a group of ranks has. Called by bill.c, experts.c, training.c and
 * decoding.c. */
#include "plan/times.h"

double launch_products_s(const launch_ask *ask, double flops)
{
    return flops / (ask->device.flops[ask->precision] * ask->efficiency);
}

double launch_reading_s(const launch_ask *ask, double bytes)
{
    return bytes / (ask->device.memory_bytes_per_s * ask->memory_efficiency);
}

bool launch_link_is_inside(const launch_ask *ask, const launch_layout *layout, int64_t span)
{
    return launch_layout_ranks(layout) <= ask->device.host_ranks ||
           ask->device.host_ranks % span == 0;
}

const coll_tp_link *launch_link_over(const launch_ask *ask, const launch_layout *layout,
                                     int64_t span)
{
    return launch_link_is_inside(ask, layout, span) ? &ask->device.inside : &ask->device.between;
}

double launch_hop_s(const coll_tp_link *link, double bytes)
{
    return link->latency_s / 2 + bytes / link->bandwidth_bytes_per_s;
}
