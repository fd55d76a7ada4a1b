/* The ranks' flight records on one page, DIRECTORY/flight.html, and each rank's own in
 * DIRECTORY/flight-rank-N.json.
 *
 * The page has a timeline of each rank's operations. It says which rank waited for which, how far
 * the ranks are in each communicator, where they disagree on an operation, and what each did last.
 * The records come from ranks and are not trusted. A record that is not such JSON is shown as
 * missing. */
#ifndef LAUNCH_FLIGHT_PAGE_H
#define LAUNCH_FLIGHT_PAGE_H

#include "base/status.h"

/* records[rank] is a JSON text, or NULL: what an earlier attempt left of that rank goes. attempt: of the job, which
 * the page says; 0: there can be one alone. cause: why it failed, or "". The directory exists. */
BASE_MUST_CHECK base_status launch_flight_write(const char *directory, const char *const *records,
                                                int ranks, int attempt, const char *cause,
                                                base_error *reterr);

#endif
