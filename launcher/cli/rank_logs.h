/* Keeps the last output of a failed job's ranks. */
#ifndef LAUNCH_CLI_RANK_LOGS_H
#define LAUNCH_CLI_RANK_LOGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "base/status.h"

/* Writes DIRECTORY/rank-N.log: the record's directory, or, if the record had not begun, OUT.failed
 * beside it. OUT "": nothing is kept. Only a warning is logged if that fails. *directory is where
 * they are; "": nowhere. */
void launch_rank_logs_write(const char *out, bool recording, int rank, const char *text,
                            size_t bytes, char directory[BASE_PATH_BYTES]);

#endif
