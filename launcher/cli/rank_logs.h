/* Keeps the last output of a failed job's ranks. */
#ifndef LAUNCH_CLI_RANK_LOGS_H
#define LAUNCH_CLI_RANK_LOGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "base/status.h"

/* Of one job. Begins with zeros. */
typedef struct launch_rank_logs {
    char directory[BASE_PATH_BYTES]; /* where they are; "": nowhere */
    bool begun;                      /* what an earlier job left there is gone */
} launch_rank_logs;

/* Writes DIRECTORY/rank-N.log: the record's directory, or, if the record had not begun, OUT.failed
 * beside it. The job's first call removes what an earlier one left there. OUT "": nothing is kept.
 * Only a warning is logged if that fails. */
void launch_rank_logs_write(launch_rank_logs *logs, const char *out, bool recording, int rank,
                            const char *text, size_t bytes);

#endif
