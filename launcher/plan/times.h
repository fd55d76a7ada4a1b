/* How long products, reading and links take on the device of a plan. Pure. */
#ifndef LAUNCH_PLAN_TIMES_H
#define LAUNCH_PLAN_TIMES_H

#include "plan/estimate.h"

/* Seconds of so many operations, and of reading so many bytes of a rank's memory. */
double launch_products_s(const launch_ask *ask, double flops);
double launch_reading_s(const launch_ask *ask, double bytes);

/* Whether every group of `span` neighbouring ranks lies inside a host, and the link that it has so. */
bool launch_link_is_inside(const launch_ask *ask, const launch_layout *layout, int64_t span);
const coll_tp_link *launch_link_over(const launch_ask *ask, const launch_layout *layout,
                                     int64_t span);

/* Until a neighbour has a message: half of what two ranks' all-reduce takes, which is two of them. */
double launch_hop_s(const coll_tp_link *link, double bytes);

#endif
