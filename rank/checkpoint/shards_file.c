/* Reads shards from a safetensors file: its whole header, and of the tensors only this rank's
 * slices. Called by the engine when it is made. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/safetensors.h"
#include "checkpoint/match.h"
#include "checkpoint/shards.h"
#include "checkpoint/widen.h"
#include "rank/checkpoint.h"

enum { COMPARED_BYTES = 1 << 16 };

typedef struct open_file {
    const rank_model_config *config;
    int fd;
    size_t size_bytes;
    uint8_t *header;
    size_t data_begin; /* bytes before the tensors' data */
    base_safetensors parsed;
    int tensor; /* the last one that was looked up, -1: none; */
    const base_safetensor *found;
} open_file;

static base_status read_at(const open_file *file, size_t offset, void *to, size_t size_bytes,
                           base_error *reterr)
{
    uint8_t *at = to;
    while (size_bytes > 0) {
        const ssize_t got = pread(file->fd, at, size_bytes, (off_t)offset);
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

/* The file's length and its header, for base_safetensors_parse. */
static base_status read_header(open_file *file, base_error *reterr)
{
    struct stat about;
    uint8_t length[sizeof(uint64_t)];
    if (fstat(file->fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        return base_fail(reterr, BASE_ERR_INVALID, "it is no plain file");
    }
    file->size_bytes = (size_t)about.st_size;
    if (file->size_bytes < sizeof length) {
        return base_fail(reterr, BASE_ERR_INVALID, "%zu bytes are too few for a safetensors file",
                         file->size_bytes);
    }
    base_status status = read_at(file, 0, length, sizeof length, reterr);
    if (status != BASE_OK) {
        return status;
    }
    base_reader reader = base_reader_make(length, sizeof length);
    const uint64_t header_bytes = base_read_u64(&reader);
    const uint64_t most = file->size_bytes - sizeof length;
    if (header_bytes > RANK_SAFETENSORS_HEADER_BYTES_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "its header of %llu bytes is longer than the %d allowed",
                         (unsigned long long)header_bytes, RANK_SAFETENSORS_HEADER_BYTES_MAX);
    }
    if (header_bytes > most) {
        return base_fail(reterr, BASE_ERR_INVALID, "the file ends inside its header");
    }
    file->data_begin = sizeof length + (size_t)header_bytes;
    file->header = malloc(file->data_begin);
    return file->header != NULL ? read_at(file, 0, file->header, file->data_begin, reterr)
                                : base_fail(reterr, BASE_ERR_MEMORY, "no memory for its header");
}

static base_status compare_in_file(void *user, const base_safetensor *a, const base_safetensor *b,
                                   bool *same, base_error *reterr)
{
    const open_file *file = user;
    uint8_t *piece = malloc((size_t)2 * COMPARED_BYTES);
    base_status status =
        piece != NULL ? BASE_OK : base_fail(reterr, BASE_ERR_MEMORY, "no memory to compare");
    for (size_t done = 0; status == BASE_OK && *same && done < a->size_bytes;) {
        const size_t left = a->size_bytes - done;
        const size_t size = left < COMPARED_BYTES ? left : COMPARED_BYTES;
        status = read_at(file, file->data_begin + a->offset_bytes + done, piece, size, reterr);
        if (status == BASE_OK) {
            status = read_at(file, file->data_begin + b->offset_bytes + done,
                             piece + COMPARED_BYTES, size, reterr);
        }
        *same = status == BASE_OK && memcmp(piece, piece + COMPARED_BYTES, size) == 0;
        done += size;
    }
    free(piece);
    return status;
}

/* A rank_tensor_source. A tensor that is optional and not in the file is zero. */
static base_status read_slice(void *user, const rank_row_part *part, float *to, base_error *reterr)
{
    open_file *file = user;
    if (part->tensor != file->tensor) { /* the rows of a tensor are asked for one after the other */
        rank_tensor wanted;
        rank_model_tensor(file->config, part->tensor, &wanted);
        file->tensor = part->tensor;
        file->found = rank_tensors_find(&file->parsed, file->config->family, &wanted);
    }
    const base_safetensor *found = file->found;
    if (found == NULL) {
        memset(to, 0, part->count * sizeof *to);
        return BASE_OK;
    }
    const size_t columns = found->dims > 1 ? found->shape[1] : found->count;
    const size_t element = part->row * columns + part->column;
    const size_t size_bytes = part->count * found->element_bytes;
    char *last = (char *)(to + part->count) - size_bytes; /* from where they are widened in place */
    const base_status status =
        read_at(file, file->data_begin + found->offset_bytes + element * found->element_bytes, last,
                size_bytes, reterr);
    if (status == BASE_OK) {
        rank_widen(found, last, part->count, to);
    }
    return status;
}

/* The header, and what it says of the model's tensors. `same` compares two that must be equal. */
static base_status check_header(open_file *file, const rank_same_bytes *same, base_error *reterr)
{
    base_status status = read_header(file, reterr);
    if (status == BASE_OK) { /* the parser does not read the data behind the header */
        status = base_safetensors_parse(file->header, file->size_bytes,
                                        RANK_SAFETENSORS_HEADER_BYTES_MAX, &file->parsed, reterr);
    }
    return status == BASE_OK ? rank_tensors_check(&file->parsed, file->config, same, reterr)
                             : status;
}

static base_status open_at(const char *path, const rank_model_config *config, open_file *file,
                           base_error *reterr)
{
    *file = (open_file){.config = config, .fd = open(path, O_RDONLY | O_CLOEXEC), .tensor = -1};
    return file->fd >= 0 ? BASE_OK
                         : base_fail(reterr, errno == ENOENT ? BASE_ERR_NOTFOUND : BASE_ERR_IO,
                                     "%s: %s", path, strerror(errno));
}

static base_status close_file(open_file *file, const char *path, base_status status,
                              base_error *reterr)
{
    base_safetensors_release(&file->parsed);
    free(file->header);
    (void)close(file->fd);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}

base_status rank_shards_load(const rank_shards_options *options, const char *path,
                             rank_shards **shards, base_error *reterr)
{
    open_file file;
    *shards = NULL;
    base_status status = open_at(path, options->config, &file, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = check_header(&file, &(rank_same_bytes){compare_in_file, &file}, reterr);
    if (status == BASE_OK) {
        status =
            rank_shards_create(options, &(rank_tensor_source){read_slice, &file}, shards, reterr);
    }
    return close_file(&file, path, status, reterr);
}

/* Weights are compared when they are loaded. */
static base_status take_as_same(void *user, const base_safetensor *a, const base_safetensor *b,
                                bool *same, base_error *reterr)
{
    (void)user;
    (void)a;
    (void)b;
    (void)same;
    (void)reterr;
    return BASE_OK;
}

base_status rank_shards_check(const rank_model_config *config, const char *path, base_error *reterr)
{
    const rank_same_bytes same = {take_as_same, NULL};
    open_file file;
    const base_status status = open_at(path, config, &file, reterr);
    return status == BASE_OK ? close_file(&file, path, check_header(&file, &same, reterr), reterr)
                             : status;
}
