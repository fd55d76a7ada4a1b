/* The lines of timings.jsonl: one for each step of each rank. Called by record.c. */
#ifndef LAUNCH_TIMINGS_H
#define LAUNCH_TIMINGS_H

#include <stdio.h>

#include "record/steps.h"

enum { LAUNCH_TIMINGS_LINE_BYTES_MAX = 1024 }; /* a line has fewer */

/* Writes the line of a step of the job. The stream keeps a failure. */
void launch_timings_put(FILE *stream, const launch_step *step, const proto_job *job);

/* Reads the whole lines of a file back into `steps`, which are empty: their first step becomes that of the
 * file. A file that is missing, or of other ranks or with other stages or parts of them than this job's, or
 * not in order, adds nothing, and a line that is cut ends it: whoever goes on has then only its own steps. BASE_ERR_MEMORY; BASE_ERR_IO: the file cannot be opened. */
BASE_MUST_CHECK base_status launch_timings_read(const char *path, launch_steps *steps,
                                                base_error *reterr);

/* Copies the lines of the steps that all ranks have, out of a file that they were read from or written to.
 * False: errno says why not (EIO: some are not there). */
bool launch_timings_copy(const char *path, const launch_steps *steps, FILE *to);

#endif
