/* Opens saved states: finds their files, and reads and checks them. Called by compare.c. */
#include "record/saved_state.h"

#include <jansson.h>
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
    status = base_safetensors_parse(file->bytes, file->size_bytes, LAUNCH_STATE_HEADER_BYTES_MAX,
                                    &file->parsed, reterr);
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

/* Reads one of the files that the map names. All its tensors are in the map, under its name. So no
 * tensor is in two files. */
static base_status add_named(launch_saved_state *state, const char *name, const json_t *map,
                             base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    const size_t before = state->tensor_count;
    const char *slash = strrchr(state->path, '/');
    (void)snprintf(path, sizeof path, "%.*s%s", slash != NULL ? (int)(slash + 1 - state->path) : 0,
                   state->path, name);
    const base_status status = add_tensors(state, path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    state->files[state->file_count - 1].name = strdup(name);
    if (state->files[state->file_count - 1].name == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the names of files");
    }
    for (size_t i = before; i < state->tensor_count; i++) {
        const char *tensor = state->tensors[i].about->name;
        const char *said = json_string_value(json_object_get(map, tensor));
        if (said == NULL || strcmp(said, name) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "tensor %.100s is in %s, but \"weight_map\" says %s", tensor, name,
                             said != NULL ? said : "nothing of it");
        }
    }
    return BASE_OK;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The files' names, each once, by rising name. They are the map's. */
static base_status file_names(const json_t *map, const char *names[LAUNCH_STATE_FILES_MAX],
                              size_t *count, base_error *reterr)
{
    const char *tensor = NULL;
    json_t *value = NULL;
    *count = 0;
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL ||
            strlen(name) > NAME_MAX) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "\"weight_map\" has no name of a file for tensor %.100s", tensor);
        }
        size_t i = 0;
        while (i < *count && strcmp(names[i], name) != 0) {
            i++;
        }
        if (i == LAUNCH_STATE_FILES_MAX - 1) {
            return base_fail(reterr, BASE_ERR_LIMIT, "\"weight_map\" names more than %d files",
                             LAUNCH_STATE_FILES_MAX - 1);
        }
        names[i] = name;
        *count += i == *count;
    }
    qsort(names, *count, sizeof *names, by_name);
    return BASE_OK;
}

static base_status add_mapped(launch_saved_state *state, const json_t *map, base_error *reterr)
{
    const char *names[LAUNCH_STATE_FILES_MAX];
    size_t count = 0;
    base_status status = file_names(map, names, &count, reterr);
    for (size_t i = 0; status == BASE_OK && i < count; i++) {
        status = add_named(state, names[i], map, reterr);
    }
    return status == BASE_OK && state->tensor_count != json_object_size(map)
               ? base_fail(reterr, BASE_ERR_INVALID,
                           "\"weight_map\" names %zu tensors, and its files have %zu",
                           json_object_size(map), state->tensor_count)
               : status;
}

/* Reads the index at state->path, and the files that it names. */
static base_status add_indexed(launch_saved_state *state, base_error *reterr)
{
    json_error_t flaw;
    base_status status = add_file(state, state->path, LAUNCH_STATE_INDEX_BYTES_MAX, reterr);
    if (status != BASE_OK) {
        return status;
    }
    json_t *index = json_loadb(state->files[0].bytes, state->files[0].size_bytes,
                               JSON_REJECT_DUPLICATES, &flaw);
    const json_t *map = json_object_get(index, "weight_map");
    status = json_is_object(map)
                 ? add_mapped(state, map, reterr)
                 : base_fail(reterr, BASE_ERR_INVALID, "%s",
                             index == NULL ? flaw.text : "no object \"weight_map\" in it");
    json_decref(index);
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
        free(state->files[i].name);
        free(state->files[i].bytes);
    }
    free(state->files);
    free(state->tensors);
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
