/* Serializes the lease (token, receipt, keyring) that a rank of a mode that may cost money
 * inherits. launcher/budget/lease.c writes it, and rank/gate reads it. */
#include "proto/lease.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "proto/key.h"

enum {
    LEASE_MAGIC = 0x3245534c, /* "LSE2" */
    LEASE_FILE_BYTES = 4 + 4 + 2 * PROTO_LEASE_TOKEN_BYTES + BASE_PATH_BYTES,
};
_Static_assert(LEASE_FILE_BYTES <= (int)PROTO_LEASE_FILE_BYTES_MAX, "a lease fits its limit");

base_status proto_lease_write(const proto_lease *lease, int *fd, base_error *reterr)
{
    base_status status = BASE_OK;
    uint8_t *file = calloc(1, LEASE_FILE_BYTES);
    if (file == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a lease");
    }
    base_writer writer = base_writer_make(file, LEASE_FILE_BYTES);
    base_write_u32(&writer, LEASE_MAGIC);
    base_write_u32(&writer, (uint32_t)lease->attempt);
    base_write_bytes(&writer, lease->token, sizeof lease->token);
    base_write_bytes(&writer, lease->receipt, sizeof lease->receipt);
    base_write_bytes(&writer, lease->keyring, sizeof lease->keyring);

    const int made = memfd_create("ringfence-lease", MFD_CLOEXEC);
    if (made < 0) {
        status = base_fail_errno(reterr, errno, "cannot make a memory file for a lease");
    } else if (pwrite(made, file, LEASE_FILE_BYTES, 0) != (ssize_t)LEASE_FILE_BYTES) {
        status = base_fail_errno(reterr, errno, "cannot write a lease");
        (void)close(made);
    } else {
        *fd = made;
    }
    proto_wipe(file, LEASE_FILE_BYTES);
    free(file);
    return status;
}

/* Reads a text of size_bytes, which must have a NUL inside. */
static bool take_text(base_reader *reader, char *text, size_t size_bytes)
{
    const char *bytes = base_read_bytes(reader, size_bytes);
    if (reader->failed || memchr(bytes, '\0', size_bytes) == NULL) {
        return false;
    }
    memcpy(text, bytes, size_bytes);
    return true;
}

static bool take_lease(const uint8_t *file, size_t file_bytes, proto_lease *lease)
{
    base_reader reader = base_reader_make(file, file_bytes);
    const uint32_t magic = base_read_u32(&reader);
    const uint32_t attempt = base_read_u32(&reader);
    if (file_bytes != LEASE_FILE_BYTES || magic != LEASE_MAGIC || attempt > PROTO_ATTEMPTS_MAX) {
        return false;
    }
    lease->attempt = (int)attempt;
    return take_text(&reader, lease->token, sizeof lease->token) &&
           take_text(&reader, lease->receipt, sizeof lease->receipt) &&
           take_text(&reader, lease->keyring, sizeof lease->keyring);
}

base_status proto_lease_read(int fd, proto_lease *lease, base_error *reterr)
{
    base_status status = BASE_OK;
    uint8_t *file = calloc(1, LEASE_FILE_BYTES + 1);
    if (file == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a lease");
    }
    const ssize_t got = pread(fd, file, LEASE_FILE_BYTES + 1, 0);
    if (got < 0) {
        status = base_fail_errno(reterr, errno, "cannot read the lease");
    } else if (!take_lease(file, (size_t)got, lease)) {
        proto_wipe(lease, sizeof *lease);
        status = base_fail(reterr, BASE_ERR_AUTH, "the inherited descriptor holds no lease");
    } else if (ftruncate(fd, 0) != 0) {
        proto_wipe(lease, sizeof *lease);
        status = base_fail_errno(reterr, errno, "cannot wipe the lease");
    }
    proto_wipe(file, LEASE_FILE_BYTES);
    free(file);
    return status;
}
