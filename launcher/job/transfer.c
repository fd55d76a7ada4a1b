/* Reads digests of large files in steps, reads chunks to send, and puts received chunks together.
 * Called by agent/files.c and local_ranks.c, and by head_files.c. */
#include "job/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/lock.h"

enum {
    NO_FD = -1,
    STEP_BYTES = 4 << 20, /* a few milliseconds of hashing */
    BLOCK_BYTES = 16 * 1024,
    PART_PATH_BYTES = BASE_PATH_BYTES + 8,
};

/* ---- reading a file's digest ---- */

struct launch_hashing {
    int fd;
    proto_hasher *hasher;
    uint64_t read_bytes;
    char path[BASE_PATH_BYTES];
};

/* Reads and adds at most one step. *ended: there is no more. */
static base_status read_step(int fd, const char *path, proto_hasher *hasher, uint64_t *read_bytes,
                             bool *ended, base_error *reterr)
{
    uint8_t block[BLOCK_BYTES];
    *ended = false;
    for (size_t done = 0; done < STEP_BYTES && !*ended;) {
        const ssize_t got = pread(fd, block, sizeof block, (off_t)*read_bytes);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return base_fail_errno(reterr, errno, "cannot read %s", path);
        }
        proto_hasher_add(hasher, block, (size_t)got);
        done += (size_t)got;
        *read_bytes += (uint64_t)got;
        *ended = got == 0;
    }
    return BASE_OK;
}

base_status launch_hashing_open(const char *path, launch_hashing **hashing, base_error *reterr)
{
    launch_hashing *made = calloc(1, sizeof *made);
    if (made == NULL || (made->hasher = proto_hasher_create()) == NULL) {
        free(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to read %s", path);
    }
    (void)snprintf(made->path, sizeof made->path, "%s", path);
    made->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (made->fd < 0) {
        const base_status status = base_fail_errno(reterr, errno, "cannot open %s", path);
        launch_hashing_close(made);
        return status;
    }
    *hashing = made;
    return BASE_OK;
}

base_status launch_hashing_step(launch_hashing *hashing, bool *whole, uint64_t *size_bytes,
                                uint8_t digest[PROTO_DIGEST_BYTES], base_error *reterr)
{
    const base_status status =
        read_step(hashing->fd, hashing->path, hashing->hasher, &hashing->read_bytes, whole, reterr);
    if (status == BASE_OK && *whole) {
        *size_bytes = hashing->read_bytes;
        proto_hasher_take(hashing->hasher, digest);
    }
    return status;
}

void launch_hashing_close(launch_hashing *hashing)
{
    if (hashing == NULL) {
        return;
    }
    base_fd_close(&hashing->fd);
    proto_hasher_destroy(hashing->hasher);
    free(hashing);
}

/* ---- sending ---- */

base_status launch_chunk_read(const char *path, uint64_t size_bytes,
                              const Ringfence__Control__Fetch *fetch, launch_chunk *chunk,
                              base_error *reterr)
{
    ssize_t got = -1;
    const uint64_t left_bytes = size_bytes - fetch->offset;
    const size_t wanted =
        left_bytes < PROTO_CHUNK_BYTES_MAX ? (size_t)left_bytes : PROTO_CHUNK_BYTES_MAX;
    BASE_ASSERT(fetch->offset < size_bytes);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    do {
        got = pread(fd, chunk->data, wanted, (off_t)fetch->offset);
    } while (got < 0 && errno == EINTR);
    const int why = errno;
    (void)close(fd);
    if (got < 0) {
        return base_fail_errno(reterr, why, "cannot read %s", path);
    }
    ringfence__control__chunk__init(&chunk->body);
    chunk->body.file = fetch->file;
    chunk->body.offset = fetch->offset;
    chunk->body.data = (ProtobufCBinaryData){(size_t)got, chunk->data};
    return (size_t)got == wanted
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "%s has become shorter than the %" PRIu64 " bytes that it had", path,
                           size_bytes);
}

/* ---- receiving ---- */

struct launch_incoming {
    int fd;
    proto_hasher *hasher;
    uint64_t size_bytes;  /* of the whole file */
    uint64_t found_bytes; /* of the partial file, when it was opened */
    uint64_t here_bytes;  /* written, and in the hasher */
    uint64_t asked_bytes;
    uint8_t sha256[PROTO_DIGEST_BYTES];
    char path[BASE_PATH_BYTES];
    char part[PART_PATH_BYTES];
};

static base_status open_part(launch_incoming *incoming, bool anew, base_error *reterr)
{
    struct stat info;
    base_status status = base_lock_file(incoming->part, &incoming->fd, reterr);
    if (status == BASE_OK && !base_lock_is_named(incoming->fd, incoming->part)) {
        status = base_fail(reterr, BASE_ERR_BUSY, "%s has just been finished", incoming->part);
    }
    if (status == BASE_OK && fstat(incoming->fd, &info) != 0) {
        status = base_fail_errno(reterr, errno, "cannot read %s", incoming->part);
    }
    incoming->found_bytes = status == BASE_OK ? (uint64_t)info.st_size : 0;
    if (status == BASE_OK && (anew || incoming->found_bytes > incoming->size_bytes)) {
        incoming->found_bytes = 0;
        status = ftruncate(incoming->fd, 0) == 0
                     ? BASE_OK
                     : base_fail_errno(reterr, errno, "cannot write %s", incoming->part);
    }
    return status;
}

base_status launch_incoming_open(const launch_incoming_options *options, launch_incoming **incoming,
                                 base_error *reterr)
{
    launch_incoming *made = calloc(1, sizeof *made);
    if (made == NULL || (made->hasher = proto_hasher_create()) == NULL) {
        free(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", options->path);
    }
    made->fd = NO_FD;
    made->size_bytes = options->size_bytes;
    memcpy(made->sha256, options->sha256, PROTO_DIGEST_BYTES);
    (void)snprintf(made->path, sizeof made->path, "%s", options->path);
    (void)snprintf(made->part, sizeof made->part, "%s.part", options->path);
    const base_status status = open_part(made, options->anew, reterr);
    if (status != BASE_OK) {
        launch_incoming_close(made, true);
        return status;
    }
    *incoming = made;
    return BASE_OK;
}

base_status launch_incoming_step(launch_incoming *incoming, launch_incoming_state *state,
                                 base_error *reterr)
{
    if (incoming->here_bytes < incoming->found_bytes) {
        bool ended = false;
        const base_status status = read_step(incoming->fd, incoming->part, incoming->hasher,
                                             &incoming->here_bytes, &ended, reterr);
        if (status != BASE_OK) {
            return status;
        }
        incoming->found_bytes = ended ? incoming->here_bytes : incoming->found_bytes;
        incoming->asked_bytes = incoming->here_bytes;
    }
    *state = incoming->here_bytes < incoming->found_bytes  ? LAUNCH_INCOMING_READS
             : incoming->here_bytes < incoming->size_bytes ? LAUNCH_INCOMING_ASKS
                                                           : LAUNCH_INCOMING_WHOLE;
    return BASE_OK;
}

bool launch_incoming_ask(launch_incoming *incoming, uint64_t *offset)
{
    const uint64_t ahead_bytes = (uint64_t)PROTO_CHUNKS_AHEAD_MAX * (uint64_t)PROTO_CHUNK_BYTES_MAX;
    if (incoming->here_bytes < incoming->found_bytes ||
        incoming->asked_bytes >= incoming->size_bytes ||
        incoming->asked_bytes - incoming->here_bytes >= ahead_bytes) {
        return false;
    }
    *offset = incoming->asked_bytes;
    incoming->asked_bytes += PROTO_CHUNK_BYTES_MAX;
    return true;
}

base_status launch_incoming_take(launch_incoming *incoming, uint64_t offset, const void *data,
                                 size_t bytes, base_error *reterr)
{
    const uint64_t left_bytes = incoming->size_bytes - incoming->here_bytes;
    const size_t due_bytes =
        left_bytes < PROTO_CHUNK_BYTES_MAX ? (size_t)left_bytes : PROTO_CHUNK_BYTES_MAX;
    if (offset != incoming->here_bytes || offset >= incoming->asked_bytes || bytes != due_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s: bytes %" PRIu64 " to %" PRIu64 " have come, where %zu from %" PRIu64
                         " on were due",
                         incoming->path, offset, offset + bytes, due_bytes, incoming->here_bytes);
    }
    if (lseek(incoming->fd, (off_t)offset, SEEK_SET) < 0) {
        return base_fail_errno(reterr, errno, "cannot write %s", incoming->part);
    }
    const base_status status = base_fd_write(incoming->fd, incoming->part, data, bytes, reterr);
    if (status == BASE_OK) {
        proto_hasher_add(incoming->hasher, data, bytes);
        incoming->here_bytes += bytes;
    }
    return status;
}

uint64_t launch_incoming_found_bytes(const launch_incoming *incoming)
{
    return incoming->found_bytes;
}

uint64_t launch_incoming_bytes(const launch_incoming *incoming)
{
    return incoming->here_bytes;
}

base_status launch_incoming_finish(launch_incoming *incoming, base_error *reterr)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    char hex[PROTO_DIGEST_HEX_BYTES];
    base_status status = BASE_OK;
    BASE_ASSERT(incoming->here_bytes == incoming->size_bytes);
    proto_hasher_take(incoming->hasher, digest);
    if (memcmp(digest, incoming->sha256, sizeof digest) != 0) {
        proto_digest_hex(digest, hex);
        status = base_fail(reterr, BASE_ERR_INVALID, "what has come has the SHA-256 %s", hex);
        launch_incoming_close(incoming, false);
        return status;
    }
    if (rename(incoming->part, incoming->path) != 0) {
        status = base_fail_errno(reterr, errno, "cannot make %s", incoming->path);
    }
    launch_incoming_close(incoming, true);
    return status;
}

void launch_incoming_close(launch_incoming *incoming, bool keep)
{
    if (incoming == NULL) {
        return;
    }
    if (!keep && incoming->fd >= 0) {
        (void)unlink(incoming->part);
    }
    base_fd_close(&incoming->fd); /* and with it the lock */
    proto_hasher_destroy(incoming->hasher);
    free(incoming);
}
