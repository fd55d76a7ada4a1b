/* Waits until files and names are on the disk, so that a loss of power does not undo them. */
#ifndef BASE_SYNC_H
#define BASE_SYNC_H

#include "base/status.h"

/* The names in the directory that holds path. Call it after path was made, or renamed. */
BASE_MUST_CHECK base_status base_sync_parent(const char *path, base_error *reterr);

/* The files that lie in the directory, and their names. Not what lies in directories below. */
BASE_MUST_CHECK base_status base_sync_directory(const char *path, base_error *reterr);

#endif
