/* A saved state: the tensors of one safetensors file, or of the several that an index names. The files
 * are mapped, so that models larger than the memory can be compared. Therefore a file that becomes shorter
 * while it is open ends the process by SIGBUS.
 *
 * A state does not change once it is open. */
#ifndef LAUNCH_SAVED_STATE_H
#define LAUNCH_SAVED_STATE_H

#include <stdbool.h>

#include "base/limits.h"
#include "base/safetensors_index.h"

enum {
    LAUNCH_STATE_PATH_BYTES = BASE_PATH_BYTES + 64,
    LAUNCH_STATE_FILES_MAX = 1 + BASE_SAFETENSORS_FILES_MAX, /* the index, and those with tensors */
};

typedef struct launch_state_file {
    const char *name; /* the index's; of a state in one file, and of the index: NULL */
    void *bytes;      /* mapped, not to be written */
    size_t size_bytes;
    base_safetensors parsed; /* of an index: empty */
} launch_state_file;

typedef struct launch_state_tensor {
    const base_safetensor *about;
    const uint8_t *values;
} launch_state_tensor;

typedef struct launch_saved_state {
    char path[LAUNCH_STATE_PATH_BYTES]; /* the file, or the index */
    launch_state_file *files;           /* (file_count): the index, then its files by rising name */
    size_t file_count;
    base_safetensors_index index; /* of a state in one file: zeros */
    size_t size_bytes;            /* of all files */
    launch_state_tensor *tensors; /* (tensor_count): as they stand in the files */
    size_t tensor_count;
} launch_saved_state;

/* Maps the file at path, or the index if path ends with ".index.json". Of a directory, these are looked
 * for: model.safetensors.index.json, model.safetensors, state-rank-0.safetensors. They must be regular
 * files. BASE_ERR_INVALID, BASE_ERR_NOTFOUND, BASE_ERR_LIMIT and BASE_ERR_IO name the file. On
 * failure the state needs to be closed, too. */
BASE_MUST_CHECK base_status launch_saved_state_open(const char *path, launch_saved_state *state,
                                                    base_error *reterr);
void launch_saved_state_close(launch_saved_state *state); /* zeros are fine */

/* Whether both are files of the same names with the same bytes; of single files the name does not
 * matter. */
bool launch_saved_state_same_bytes(const launch_saved_state *a, const launch_saved_state *b);

#endif
