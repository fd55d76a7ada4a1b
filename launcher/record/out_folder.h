/* The output folder: taken with a lock, an older record in it moved away or removed.
 *
 * The lock is flock(2) on the folder itself, so nothing is left behind, and it ends with the
 * process. An older record is a folder with manifest.json or timings.jsonl in it. */
#ifndef LAUNCH_OUT_FOLDER_H
#define LAUNCH_OUT_FOLDER_H

#include <stdbool.h>

#include "base/limits.h"
#include "base/status.h"

enum { LAUNCH_RECORDS_KEPT_MAX = 9999 }; /* OUT.1 … OUT.9999 */

typedef struct launch_out_folder {
    int fd; /* holds the lock */
    char path[BASE_PATH_BYTES];
    char moved_to[BASE_PATH_BYTES + 16]; /* where the older record is now; empty: there was none */
} launch_out_folder;

/* Makes the folder where it is missing and takes it. BASE_ERR_BUSY names the process that has it;
 * BASE_ERR_INVALID when it holds other things than a record. With overwrite, the files of an older
 * record are removed and what else lies there stays; without, the folder is moved to PATH.1, or the
 * next number that is free. */
BASE_MUST_CHECK base_status launch_out_folder_open(const char *path, bool overwrite,
                                                   launch_out_folder *folder, base_error *reterr);

/* Releases the lock. */
void launch_out_folder_close(launch_out_folder *folder);

/* path/name in the caller's buffer. */
void launch_out_folder_path(const launch_out_folder *folder, const char *name,
                            char path[BASE_PATH_BYTES + 64]);

#endif
