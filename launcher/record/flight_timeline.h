/* The timeline of flight.html: a lane for each rank, with its operations as bars on one clock in
 * ms. The records are not trusted. An operation whose time cannot be drawn is left out. Pure. */
#ifndef LAUNCH_FLIGHT_TIMELINE_H
#define LAUNCH_FLIGHT_TIMELINE_H

#include <jansson.h>

#include "base/buffer.h"

/* ranks[rank]: its record, an object with the arrays "completed" and "pending"; NULL: none. */
void launch_flight_timeline(json_t *const *ranks, int rank_count, base_buffer *text);

#endif
