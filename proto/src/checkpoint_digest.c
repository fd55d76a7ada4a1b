/* Finds the files of a checkpoint, and computes its digest: of each file its name, its length and its
 * bytes, or of a safetensors file its header. Called by pin.c. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "base/safetensors.h"
#include "proto/pin.h"

enum { BLOCK_BYTES = 256 * 1024, INDEX_BYTES_MAX = 16 << 20, SHARDS_MAX = 1 << 16 };

static const char index_name[] = "model.safetensors.index.json";

typedef struct checkpoint_digest {
    const char *directory;
    proto_verify verify;
    struct sha256_ctx state;
} checkpoint_digest;

/* What finds the files. */
typedef struct walk {
    const char *directory;
    proto_checkpoint_visit visit;
    void *user;
} walk;

/* How many bytes at the beginning of a safetensors file are its header. */
static base_status header_bytes(int fd, const char *path, uint64_t file_bytes, uint64_t *bytes,
                                base_error *reterr)
{
    uint64_t header = 0;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s: no safetensors file", path);
    }
    header = le64toh(header);
    if (header > BASE_SAFETENSORS_HEADER_BYTES_MAX || header + sizeof header > file_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s: no safetensors file: its header's length is "
                         "%llu",
                         path, (unsigned long long)header);
    }
    *bytes = header + sizeof header;
    return BASE_OK;
}

static base_status add_bytes(checkpoint_digest *at, int fd, const char *path, uint64_t bytes,
                             base_error *reterr)
{
    static _Thread_local uint8_t block[BLOCK_BYTES];
    for (uint64_t done = 0; done < bytes;) {
        const size_t wanted = bytes - done < sizeof block ? (size_t)(bytes - done) : sizeof block;
        const ssize_t got = pread(fd, block, wanted, (off_t)done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got < 0 ? base_fail_errno(reterr, errno, "cannot read %s", path)
                           : base_fail(reterr, BASE_ERR_IO, "%s became shorter", path);
        }
        sha256_update(&at->state, (size_t)got, block);
        done += (uint64_t)got;
    }
    return BASE_OK;
}

static base_status add_open_file(checkpoint_digest *at, int fd, const char *path, const char *name,
                                 bool tensors, base_error *reterr)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return base_fail(reterr, BASE_ERR_IO, "%s: not a regular file", path);
    }
    uint64_t bytes = (uint64_t)info.st_size;
    const uint64_t length = htole64(bytes);
    sha256_update(&at->state, strlen(name) + 1, (const uint8_t *)name);
    sha256_update(&at->state, sizeof length, (const uint8_t *)&length);
    const base_status status = tensors && at->verify == PROTO_VERIFY_INDEX
                                   ? header_bytes(fd, path, bytes, &bytes, reterr)
                                   : BASE_OK;
    return status == BASE_OK ? add_bytes(at, fd, path, bytes, reterr) : status;
}

/* Adds one file of the checkpoint. BASE_ERR_NOTFOUND: there is no such file. */
static base_status add_file(void *user, const char *name, bool tensors, base_error *reterr)
{
    checkpoint_digest *at = user;
    char path[BASE_PATH_BYTES];
    base_status status = base_path_join(at->directory, name, path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        const int why = errno;
        status = base_fail_errno(reterr, why, "cannot open %s", path);
        return why == ENOENT ? BASE_ERR_NOTFOUND : status;
    }
    status = add_open_file(at, fd, path, name, tensors, reterr);
    (void)close(fd);
    return status;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Visits every file that the index names, once, in the order of names. */
static base_status visit_shards(const walk *at, const json_t *index, base_error *reterr)
{
    json_t *map = json_object_get(index, "weight_map");
    const size_t count = json_object_size(map);
    const char *tensor = NULL;
    json_t *file = NULL;
    size_t used = 0;
    if (count == 0 || count > SHARDS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s/%s: \"weight_map\" names %zu tensors",
                         at->directory, index_name, count);
    }
    const char **names = calloc(count, sizeof *names);
    base_status status =
        names != NULL ? BASE_OK : base_fail(reterr, BASE_ERR_MEMORY, "no memory for names");
    json_object_foreach(map, tensor, file)
    {
        const char *name = json_string_value(file);
        if (status == BASE_OK && (name == NULL || name[0] == '\0' || strchr(name, '/') != NULL)) {
            status = base_fail(reterr, BASE_ERR_INVALID, "%s/%s: %.100s is in no file of it",
                               at->directory, index_name, tensor);
        }
        if (status == BASE_OK) {
            names[used++] = name;
        }
    }
    if (status == BASE_OK) {
        qsort(names, used, sizeof *names, by_name);
    }
    for (size_t i = 0; i < used && status == BASE_OK; i++) {
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0) {
            status = at->visit(at->user, names[i], true, reterr);
        }
    }
    free(names);
    return status;
}

static base_status visit_indexed(const walk *at, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    void *text = NULL;
    size_t text_bytes = 0;
    json_error_t json_error;
    base_status status = base_path_join(at->directory, index_name, path, reterr);
    if (status == BASE_OK) {
        status = base_file_read(path, INDEX_BYTES_MAX, &text, &text_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    json_t *index = json_loadb(text, text_bytes, JSON_REJECT_DUPLICATES, &json_error);
    free(text);
    status = index != NULL ? visit_shards(at, index, reterr)
                           : base_fail(reterr, BASE_ERR_INVALID, "%s: line %d: %s", path,
                                       json_error.line, json_error.text);
    json_decref(index);
    return status;
}

base_status proto_checkpoint_walk(const char *directory, proto_checkpoint_visit visit, void *user,
                                  base_error *reterr)
{
    const walk at = {.directory = directory, .visit = visit, .user = user};
    base_status status = visit(user, "config.json", false, reterr);
    if (status == BASE_OK) {
        status = visit(user, "generation_config.json", false, reterr);
        status = status == BASE_ERR_NOTFOUND ? BASE_OK : status;
    }
    if (status != BASE_OK) {
        return status;
    }
    status = visit(user, index_name, false, reterr);
    return status == BASE_OK             ? visit_indexed(&at, reterr)
           : status == BASE_ERR_NOTFOUND ? visit(user, "model.safetensors", true, reterr)
                                         : status;
}

base_status proto_checkpoint_digest(const char *directory, proto_verify verify,
                                    uint8_t digest[PROTO_DIGEST_BYTES], base_error *reterr)
{
    checkpoint_digest at = {.directory = directory, .verify = verify};
    sha256_init(&at.state);
    const base_status status = proto_checkpoint_walk(directory, add_file, &at, reterr);
    if (status == BASE_OK) {
        sha256_digest(&at.state, PROTO_DIGEST_BYTES, digest);
    }
    return status;
}
