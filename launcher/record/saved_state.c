/* Opens saved states: finds their files, and reads and checks them. Called by compare.c. */
#include "record/saved_state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

enum { FILE_PATH_BYTES = LAUNCH_STATE_PATH_BYTES + NAME_MAX + 1 };

#define FILE_BYTES_MAX ((size_t)1 << 40)

static const char INDEX_ENDING[] = ".index.json";

/* Finds the file that a path means. */
static base_status find_file(const char *path, char found[LAUNCH_STATE_PATH_BYTES],
                             base_error *reterr)
{
    static const char *const NAMES[] = {"model.safetensors.index.json", "model.safetensors",
                                        "state-rank-0.safetensors"};
    struct stat info;
    if (strlen(path) >= BASE_PATH_BYTES) {
        return base_fail(reterr, BASE_ERR_INVALID, "the path is too long: %.80s…", path);
    }
    (void)snprintf(found, LAUNCH_STATE_PATH_BYTES, "%s", path);
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return BASE_OK;
    }
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        (void)snprintf(found, LAUNCH_STATE_PATH_BYTES, "%s/%s", path, NAMES[i]);
        if (stat(found, &info) == 0) {
            return BASE_OK;
        }
    }
    return base_fail(reterr, BASE_ERR_NOTFOUND, "%s holds none of %s, %s and %s", path, NAMES[0],
                     NAMES[1], NAMES[2]);
}

/* Reads one more file. The array has room. */
static base_status add_file(launch_saved_state *state, const char *path, size_t size_bytes_max,
                            base_error *reterr)
{
    launch_state_file *file = &state->files[state->file_count];
    const base_status status =
        base_file_read(path, size_bytes_max, &file->bytes, &file->size_bytes, reterr);
    if (status == BASE_OK) {
        state->file_count++;
        state->size_bytes += file->size_bytes;
    }
    return status;
}

/* Reads one more file with tensors. */
static base_status add_tensors(launch_saved_state *state, const char *path, base_error *reterr)
{
    base_status status = add_file(state, path, FILE_BYTES_MAX, reterr);
    if (status != BASE_OK) {
        return status;
    }
    launch_state_file *file = &state->files[state->file_count - 1];
    status = base_safetensors_parse(file->bytes, file->size_bytes, &file->parsed, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "%s", path);
    }
    const size_t count = state->tensor_count + file->parsed.count;
    launch_state_tensor *tensors = realloc(state->tensors, (count + 1) * sizeof *tensors);
    if (tensors == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu tensors", count);
    }
    state->tensors = tensors;
    for (size_t i = 0; i < file->parsed.count; i++) {
        const base_safetensor *about = &file->parsed.tensors[i];
        tensors[state->tensor_count++] = (launch_state_tensor){
            .about = about, .values = file->parsed.data + about->offset_bytes};
    }
    return BASE_OK;
}

/* Reads one of the index's files. */
static base_status add_named(launch_saved_state *state, const base_safetensors_index_file *file,
                             base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    const char *slash = strrchr(state->path, '/');
    (void)snprintf(path, sizeof path, "%.*s%s", slash != NULL ? (int)(slash + 1 - state->path) : 0,
                   state->path, file->name);
    const base_status status = add_tensors(state, path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    launch_state_file *added = &state->files[state->file_count - 1];
    added->name = file->name;
    return base_safetensors_index_check(&state->index, file, &added->parsed, reterr);
}

/* Reads the index at state->path, and the files that it names. */
static base_status add_indexed(launch_saved_state *state, base_error *reterr)
{
    base_status status = add_file(state, state->path, BASE_SAFETENSORS_INDEX_BYTES_MAX, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = base_safetensors_index_parse(state->files[0].bytes, state->files[0].size_bytes,
                                          &state->index, reterr);
    for (size_t i = 0; i < state->index.file_count && status == BASE_OK; i++) {
        status = add_named(state, &state->index.files[i], reterr);
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", state->path);
}

base_status launch_saved_state_open(const char *path, launch_saved_state *state, base_error *reterr)
{
    *state = (launch_saved_state){.file_count = 0};
    const base_status status = find_file(path, state->path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    state->files = calloc(LAUNCH_STATE_FILES_MAX, sizeof *state->files);
    if (state->files == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to read %s", state->path);
    }
    const size_t length = strlen(state->path);
    const size_t ending = sizeof INDEX_ENDING - 1;
    const bool indexed =
        length > ending && strcmp(state->path + length - ending, INDEX_ENDING) == 0;
    return indexed ? add_indexed(state, reterr) : add_tensors(state, state->path, reterr);
}

void launch_saved_state_close(launch_saved_state *state)
{
    for (size_t i = 0; i < state->file_count; i++) {
        base_safetensors_release(&state->files[i].parsed);
        free(state->files[i].bytes);
    }
    free(state->files);
    free(state->tensors);
    base_safetensors_index_close(&state->index);
    *state = (launch_saved_state){.file_count = 0};
}

bool launch_saved_state_same_bytes(const launch_saved_state *a, const launch_saved_state *b)
{
    bool same = a->file_count == b->file_count;
    for (size_t i = 0; same && i < a->file_count; i++) {
        const launch_state_file *left = &a->files[i];
        const launch_state_file *right = &b->files[i];
        same = left->size_bytes == right->size_bytes &&
               memcmp(left->bytes, right->bytes, left->size_bytes) == 0 &&
               (left->name == NULL) == (right->name == NULL) &&
               (left->name == NULL || strcmp(left->name, right->name) == 0);
    }
    return same;
}
