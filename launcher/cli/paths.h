/* Where things are. All buffers have BASE_PATH_BYTES. */
#ifndef LAUNCH_PATHS_H
#define LAUNCH_PATHS_H

#include <stddef.h>

#include "base/limits.h"
#include "base/status.h"

/* An absolute path without links, "." and "..", as far as there is such a directory; what is not
 * there yet must not have "..": BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_path_resolve(char path[BASE_PATH_BYTES], base_error *reterr);

/* The rank program, in the same directory as the running one; it is there and may be run. */
BASE_MUST_CHECK base_status launch_path_rank(char path[BASE_PATH_BYTES], base_error *reterr);

/* A program as a shell finds it: by its path, or in PATH. BASE_ERR_NOTFOUND, or BASE_ERR_IO when it
 * is there and cannot be run. */
BASE_MUST_CHECK base_status launch_path_program(const char *name, char path[BASE_PATH_BYTES],
                                                base_error *reterr);

/* The installed data: ../share/ringfence from the running program. */
BASE_MUST_CHECK base_status launch_path_share(char path[BASE_PATH_BYTES], base_error *reterr);

#endif
