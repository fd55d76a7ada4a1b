/* Opens a checkpoint's safetensors files and reads their headers; and reads slices of tensors.
 * Called by safetensors.c and shards_file.c. */
#include "checkpoint/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/read_at.h"
#include "base/safetensors_index.h"
#include "checkpoint/fused.h"
#include "checkpoint/match.h"
#include "checkpoint/widen.h"

enum { COMPARED_BYTES = 1 << 16, FILE_PATH_BYTES = 2 * BASE_PATH_BYTES };

struct rank_weights_file {
    int fd;
    size_t first; /* of its data, among the data of all files */
    base_safetensors parsed;
};

/* Reads `size_bytes` at `offset` of the data of all files; they are in one file. */
static base_status read_data(const rank_weights *weights, size_t offset, void *to,
                             size_t size_bytes, base_error *reterr)
{
    int i = weights->file_count - 1;
    while (i > 0 && weights->files[i].first > offset) {
        i--;
    }
    const rank_weights_file *file = &weights->files[i];
    return base_read_at(file->fd, file->parsed.data_offset_bytes + (offset - file->first), to,
                        size_bytes, reterr);
}

base_status rank_weights_read(const rank_weights *weights, const base_safetensor *tensor,
                              size_t first, size_t count, float *to, base_error *reterr)
{
    const size_t size_bytes = count * tensor->element_bytes;
    char *last = (char *)(to + count) - size_bytes; /* from where they are widened in place */
    const base_status status = read_data(
        weights, tensor->offset_bytes + first * tensor->element_bytes, last, size_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    rank_widen(tensor, last, count, to);
    return weights->takes_any || rank_all_finite(to, count)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "tensor %s has a NaN or an infinity in it",
                           tensor->name);
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
    const base_status status = base_safetensors_read(file->fd, &file->parsed, reterr);
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

/* Adds the files of the index at path. */
static base_status add_listed(rank_weights *weights, const char *path,
                              const base_safetensors_index *index, base_error *reterr)
{
    const char *slash = strrchr(path, '/');
    const int directory_bytes = slash != NULL ? (int)(slash + 1 - path) : 0;
    base_status status = BASE_OK;
    weights->files = calloc(index->file_count, sizeof *weights->files);
    if (weights->files == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the files of %s", path);
    }
    for (size_t i = 0; i < index->file_count && status == BASE_OK; i++) {
        const base_safetensors_index_file *file = &index->files[i];
        char file_path[FILE_PATH_BYTES];
        (void)snprintf(file_path, sizeof file_path, "%.*s%s", directory_bytes, path, file->name);
        status = add_file(weights, file_path, reterr);
        if (status == BASE_OK) {
            status = base_safetensors_index_check(index, file, &weights->files[i].parsed, reterr);
        }
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}

static base_status add_indexed(rank_weights *weights, const char *path, base_error *reterr)
{
    base_safetensors_index index;
    base_status status = base_safetensors_index_open(path, &index, reterr);
    if (status == BASE_OK) {
        status = add_listed(weights, path, &index, reterr);
        base_safetensors_index_close(&index);
    }
    return status;
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
        status = base_safetensors_sort(&weights->all, reterr);
    }
    if (status == BASE_OK) {
        status = rank_fused_split(&weights->all, config, &weights->part_names, reterr);
        status = status == BASE_OK
                     ? rank_tensors_check(&weights->all, config,
                                          tied == RANK_TIED_CONTENTS ? weights : NULL, reterr)
                     : status;
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
    free(weights->all.by_name);
    free(weights->part_names);
    *weights = (rank_weights){.files = NULL};
}
