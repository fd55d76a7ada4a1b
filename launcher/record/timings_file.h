/* timings.jsonl while a run writes it. A reader can follow it: lines are on disk half a second after their
 * step, and at each checkpoint. On a full disk it keeps its whole lines, and gets no more. Called by record.c. */
#ifndef LAUNCH_TIMINGS_FILE_H
#define LAUNCH_TIMINGS_FILE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/path.h"
#include "record/steps.h"

enum { LAUNCH_TIMINGS_PATH_BYTES = BASE_PATH_BYTES + 64 };

typedef struct launch_timings_file {
    FILE *stream; /* NULL: not open */
    int64_t flushed_ns;
    bool failed; /* it has lost lines; that was reported, and nothing more is written to it */
    char path[LAUNCH_TIMINGS_PATH_BYTES];
} launch_timings_file;

/* Names it in a directory; opens nothing. */
void launch_timings_file_name(launch_timings_file *file, const char *directory);

/* Opens it empty. */
BASE_MUST_CHECK base_status launch_timings_file_open(launch_timings_file *file, base_error *reterr);

/* Writes it again, or opens it, with the lines of the steps that all ranks have. The old one stays until
 * the new one is whole. */
BASE_MUST_CHECK base_status launch_timings_file_keep(launch_timings_file *file,
                                                     const launch_steps *steps, base_error *reterr);

/* Adds a line, unless it has failed. */
BASE_MUST_CHECK base_status launch_timings_file_put(launch_timings_file *file,
                                                    const launch_step *step, const proto_job *job,
                                                    base_error *reterr);

/* Closes it, and gives what it has the name for steps before this one, `kept`. False: there are none. */
bool launch_timings_file_set_aside(launch_timings_file *file, uint64_t first_step,
                                   char kept[LAUNCH_TIMINGS_PATH_BYTES + 32]);

/* An earlier failure was reported when it happened. */
BASE_MUST_CHECK base_status launch_timings_file_close(launch_timings_file *file,
                                                      base_error *reterr);

/* Closes it if it is open. */
void launch_timings_file_fini(launch_timings_file *file);

#endif
