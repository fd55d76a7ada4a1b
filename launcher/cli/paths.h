/* Finds programs. All buffers have BASE_PATH_BYTES. */
#ifndef LAUNCH_PATHS_H
#define LAUNCH_PATHS_H

#include <stddef.h>

#include "base/limits.h"
#include "base/status.h"

/* Makes a path absolute, without links, "." and "..". The last components need not exist, but must
 * then not have "..": BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_path_resolve(char path[BASE_PATH_BYTES], base_error *reterr);

/* Finds the rank program in the directory of the running program, and checks that it may be run. */
BASE_MUST_CHECK base_status launch_path_rank(char path[BASE_PATH_BYTES], base_error *reterr);

#endif
