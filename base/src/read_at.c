/* Reads a part of an open file. Called by what reads and pins checkpoints. */
#include "base/read_at.h"

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

base_status base_read_at(int fd, size_t offset_bytes, void *to, size_t size_bytes,
                         base_error *reterr)
{
    uint8_t *at = to;
    while (size_bytes > 0) {
        const ssize_t got = pread(fd, at, size_bytes, (off_t)offset_bytes);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return base_fail_errno(reterr, errno, "cannot read the file");
        }
        if (got == 0) {
            return base_fail(reterr, BASE_ERR_INVALID, "the file became shorter while it was read");
        }
        at += got;
        offset_bytes += (size_t)got;
        size_bytes -= (size_t)got;
    }
    return BASE_OK;
}
