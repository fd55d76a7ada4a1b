/* Opens a checkpoint's safetensors files and reads their headers; and reads slices of tensors.
 * Called by safetensors.c and shards_file.c. */
#include "checkpoint/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/limits.h"
#include "checkpoint/match.h"
#include "checkpoint/widen.h"
#include "rank/checkpoint.h"

enum { COMPARED_BYTES = 1 << 16, FILE_PATH_BYTES = 2 * BASE_PATH_BYTES };

struct rank_weights_file {
    int fd;
    size_t data_begin; /* bytes before the tensors' data */
    size_t first;      /* of its data, among the data of all files */
    base_safetensors parsed;
};

static base_status read_at(int fd, size_t offset, void *to, size_t size_bytes, base_error *reterr)
{
    uint8_t *at = to;
    while (size_bytes > 0) {
        const ssize_t got = pread(fd, at, size_bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return base_fail(reterr, BASE_ERR_IO, "reading: %s", strerror(errno));
        }
        if (got == 0) {
            return base_fail(reterr, BASE_ERR_INVALID, "the file became shorter while it was read");
        }
        at += got;
        offset += (size_t)got;
        size_bytes -= (size_t)got;
    }
    return BASE_OK;
}

/* Reads `size_bytes` at `offset` of the data of all files; they are in one file. */
static base_status read_data(const rank_weights *weights, size_t offset, void *to,
                             size_t size_bytes, base_error *reterr)
{
    int i = weights->file_count - 1;
    while (i > 0 && weights->files[i].first > offset) {
        i--;
    }
    const rank_weights_file *file = &weights->files[i];
    return read_at(file->fd, file->data_begin + (offset - file->first), to, size_bytes, reterr);
}

base_status rank_weights_read(const rank_weights *weights, const base_safetensor *tensor,
                              size_t first, size_t count, float *to, base_error *reterr)
{
    const size_t size_bytes = count * tensor->element_bytes;
    char *last = (char *)(to + count) - size_bytes; /* from where they are widened in place */
    const base_status status = read_data(
        weights, tensor->offset_bytes + first * tensor->element_bytes, last, size_bytes, reterr);
    if (status == BASE_OK) {
        rank_widen(tensor, last, count, to);
    }
    return status;
}

base_status rank_weights_same(const rank_weights *weights, const base_safetensor *a,
                              const base_safetensor *b, bool *same, base_error *reterr)
{
    uint8_t *piece = malloc((size_t)2 * COMPARED_BYTES);
    base_status status =
        piece != NULL ? BASE_OK : base_fail(reterr, BASE_ERR_MEMORY, "no memory to compare");
    *same = true;
    for (size_t done = 0; status == BASE_OK && *same && done < a->size_bytes;) {
        const size_t left = a->size_bytes - done;
        const size_t size = left < COMPARED_BYTES ? left : COMPARED_BYTES;
        status = read_data(weights, a->offset_bytes + done, piece, size, reterr);
        if (status == BASE_OK) {
            status =
                read_data(weights, b->offset_bytes + done, piece + COMPARED_BYTES, size, reterr);
        }
        *same = status == BASE_OK && memcmp(piece, piece + COMPARED_BYTES, size) == 0;
        done += size;
    }
    free(piece);
    return status;
}

/* Reads and parses the file's header. */
static base_status read_header(rank_weights_file *file, base_error *reterr)
{
    struct stat about;
    uint8_t length[sizeof(uint64_t)];
    if (fstat(file->fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        return base_fail(reterr, BASE_ERR_INVALID, "it is no plain file");
    }
    const size_t size_bytes = (size_t)about.st_size;
    if (size_bytes < sizeof length) {
        return base_fail(reterr, BASE_ERR_INVALID, "%zu bytes are too few for a safetensors file",
                         size_bytes);
    }
    base_status status = read_at(file->fd, 0, length, sizeof length, reterr);
    if (status != BASE_OK) {
        return status;
    }
    base_reader reader = base_reader_make(length, sizeof length);
    const uint64_t header_bytes = base_read_u64(&reader);
    if (header_bytes > RANK_SAFETENSORS_HEADER_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "its header of %llu bytes is longer than the %d allowed",
                         (unsigned long long)header_bytes, RANK_SAFETENSORS_HEADER_BYTES_MAX);
    }
    if (header_bytes > size_bytes - sizeof length) {
        return base_fail(reterr, BASE_ERR_INVALID, "the file ends inside its header");
    }
    file->data_begin = sizeof length + (size_t)header_bytes;
    uint8_t *header = malloc(file->data_begin);
    status = header != NULL ? read_at(file->fd, 0, header, file->data_begin, reterr)
                            : base_fail(reterr, BASE_ERR_MEMORY, "no memory for its header");
    if (status == BASE_OK) { /* the parser reads nothing behind the header, and keeps no address */
        status = base_safetensors_parse(header, size_bytes, RANK_SAFETENSORS_HEADER_BYTES_MAX,
                                        &file->parsed, reterr);
        file->parsed.data = NULL;
    }
    free(header);
    return status;
}

/* Adds one file, and its tensors behind those of the files before. The array has room. */
static base_status add_file(rank_weights *weights, const char *path, base_error *reterr)
{
    rank_weights_file *file = &weights->files[weights->file_count];
    base_safetensors *all = &weights->all;
    *file = (rank_weights_file){.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK),
                                .first = all->data_bytes};
    if (file->fd < 0) {
        return base_fail(reterr, errno == ENOENT ? BASE_ERR_NOTFOUND : BASE_ERR_IO, "%s: %s", path,
                         strerror(errno));
    }
    weights->file_count++;
    const base_status status = read_header(file, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "%s", path);
    }
    const size_t count = all->count + file->parsed.count;
    base_safetensor *tensors = realloc(all->tensors, (count + 1) * sizeof *tensors);
    if (tensors == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu tensors", count);
    }
    all->tensors = tensors;
    for (size_t i = 0; i < file->parsed.count; i++) {
        tensors[all->count] = file->parsed.tensors[i];
        tensors[all->count].offset_bytes += file->first;
        all->count++;
    }
    return base_add_size(all->data_bytes, file->parsed.data_bytes, &all->data_bytes)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT, "the files are too long");
}

/* Adds one file of those that "weight_map" names. All its tensors are in the map, under its name. So
 * no tensor is in two files. */
static base_status add_named(rank_weights *weights, const char *directory, const char *name,
                             const json_t *map, base_error *reterr)
{
    char path[FILE_PATH_BYTES];
    const size_t before = weights->all.count;
    (void)snprintf(path, sizeof path, "%s%s", directory, name);
    const base_status status = add_file(weights, path, reterr);
    for (size_t i = before; status == BASE_OK && i < weights->all.count; i++) {
        const char *tensor = weights->all.tensors[i].name;
        const char *said = json_string_value(json_object_get(map, tensor));
        if (said == NULL || strcmp(said, name) != 0) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "tensor %.100s is in %s, but \"weight_map\" says %s", tensor, name,
                             said != NULL ? said : "nothing of it");
        }
    }
    return status;
}

/* Makes a set of the files' names. */
static base_status file_names(const json_t *map, json_t *names, base_error *reterr)
{
    const char *tensor = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL ||
            strlen(name) > NAME_MAX) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "\"weight_map\" has no name of a file for tensor %.100s", tensor);
        }
        if (json_object_set_new(names, name, json_null()) != 0) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for names of files");
        }
    }
    const size_t count = json_object_size(names);
    return count > 0 && count <= RANK_WEIGHTS_FILES_MAX
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "\"weight_map\" names %zu files, not 1 to %d",
                           count, RANK_WEIGHTS_FILES_MAX);
}

static base_status add_mapped(rank_weights *weights, const char *directory, const json_t *map,
                              base_error *reterr)
{
    json_t *names = json_object();
    const char *name = NULL;
    json_t *value = NULL;
    base_status status = file_names(map, names, reterr);
    weights->files = calloc(json_object_size(names) + 1, sizeof *weights->files);
    if (status == BASE_OK && weights->files == NULL) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for the files");
    }
    json_object_foreach(names, name, value)
    {
        if (status == BASE_OK) {
            status = add_named(weights, directory, name, map, reterr);
        }
    }
    json_decref(names);
    return status == BASE_OK && weights->all.count != json_object_size(map)
               ? base_fail(reterr, BASE_ERR_INVALID,
                           "\"weight_map\" names %zu tensors, and its files have %zu",
                           json_object_size(map), weights->all.count)
               : status;
}

/* Adds the files that the index at path names. */
static base_status add_indexed(rank_weights *weights, const char *path, base_error *reterr)
{
    char directory[FILE_PATH_BYTES];
    void *text = NULL;
    size_t text_bytes = 0;
    json_error_t flaw;
    base_status status =
        base_file_read(path, RANK_SAFETENSORS_INDEX_BYTES_MAX, &text, &text_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    json_t *index = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &flaw);
    free(text);
    const json_t *map = json_object_get(index, "weight_map");
    const char *slash = strrchr(path, '/');
    (void)snprintf(directory, sizeof directory, "%.*s", slash != NULL ? (int)(slash + 1 - path) : 0,
                   path);
    status = json_is_object(map)
                 ? add_mapped(weights, directory, map, reterr)
                 : base_fail(reterr, BASE_ERR_INVALID, "%s",
                             index == NULL ? flaw.text : "no object \"weight_map\" in it");
    json_decref(index);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}

base_status rank_weights_open(rank_weights *weights, const char *path,
                              const rank_model_config *config, rank_tied tied, base_error *reterr)
{
    char index[FILE_PATH_BYTES];
    base_status status = BASE_OK;
    *weights = (rank_weights){.files = NULL};
    (void)snprintf(index, sizeof index, "%s.index.json", path);
    const bool indexed = access(index, F_OK) == 0;
    if (indexed) {
        status = add_indexed(weights, index, reterr);
    } else {
        weights->files = calloc(1, sizeof *weights->files);
        status = weights->files != NULL
                     ? add_file(weights, path, reterr)
                     : base_fail(reterr, BASE_ERR_MEMORY, "no memory to read %s", path);
    }
    if (status == BASE_OK) {
        status = rank_tensors_check(&weights->all, config,
                                    tied == RANK_TIED_CONTENTS ? weights : NULL, reterr);
        status = status == BASE_OK
                     ? BASE_OK
                     : base_error_prepend(reterr, status, "%s", indexed ? index : path);
    }
    if (status != BASE_OK) {
        rank_weights_close(weights);
    }
    return status;
}

void rank_weights_close(rank_weights *weights)
{
    for (int i = 0; weights->files != NULL && i < weights->file_count; i++) {
        base_safetensors_release(&weights->files[i].parsed);
        (void)close(weights->files[i].fd);
    }
    free(weights->files);
    free(weights->all.tensors);
    *weights = (rank_weights){.files = NULL};
}
