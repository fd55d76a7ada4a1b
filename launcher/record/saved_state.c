/* Opens saved states: finds their files, and maps and checks them. Called by compare.c. */
#include "record/saved_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_PATH_BYTES = LAUNCH_STATE_PATH_BYTES + NAME_MAX + 1 };

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

/* Maps an open file. */
static base_status map_file(int fd, launch_state_file *file, base_error *reterr)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return base_fail(reterr, BASE_ERR_INVALID, "not a regular file");
    }
    const size_t size_bytes = (size_t)info.st_size;
    if (size_bytes == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "the file is empty");
    }
    void *bytes = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) {
        return base_fail_errno(reterr, errno, "cannot map it");
    }
    file->bytes = bytes;
    file->size_bytes = size_bytes;
    return BASE_OK;
}

/* Adds one more file. The array has room. */
static base_status add_file(launch_saved_state *state, const char *path, base_error *reterr)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return base_fail(reterr, errno == ENOENT ? BASE_ERR_NOTFOUND : BASE_ERR_IO, "%s: %s", path,
                         strerror(errno));
    }
    launch_state_file *file = &state->files[state->file_count];
    const base_status status = map_file(fd, file, reterr);
    (void)close(fd);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "%s", path);
    }
    state->file_count++;
    state->size_bytes += file->size_bytes;
    return BASE_OK;
}

/* Adds one more file with tensors. */
static base_status add_tensors(launch_saved_state *state, const char *path, base_error *reterr)
{
    base_status status = add_file(state, path, reterr);
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

/* Adds one of the index's files. */
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
    base_status status = add_file(state, state->path, reterr);
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
        (void)munmap(state->files[i].bytes, state->files[i].size_bytes);
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
