/* The ranks' flight records, folded into one page: DIRECTORY/flight.html, and each rank's own in
 * DIRECTORY/flight-rank-N.json.
 *
 * The page has a timeline of each rank's operations, and says who was waiting for whom, where the
 * ranks stand in each communicator, where they disagree on an operation, and what each did last.
 * Texts come from ranks and are not believed: what is no such JSON is shown as missing. */
#ifndef LAUNCH_FLIGHT_PAGE_H
#define LAUNCH_FLIGHT_PAGE_H

#include "base/status.h"

/* records[rank] is a JSON text, or NULL. cause: why the job failed, or "". The directory is
 * there. */
BASE_MUST_CHECK base_status launch_flight_write(const char *directory, const char *const *records,
                                                int ranks, const char *cause, base_error *reterr);

#endif
