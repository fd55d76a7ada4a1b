/* Reads a part of an open file, without moving its offset. */
#ifndef BASE_READ_AT_H
#define BASE_READ_AT_H

#include <stddef.h>

#include "base/status.h"

/* to = the size_bytes at offset_bytes. Blocks as long as reading takes. BASE_ERR_IO; BASE_ERR_INVALID if
 * the file ends before. The message does not name the file. Thread safe. */
BASE_MUST_CHECK base_status base_read_at(int fd, size_t offset_bytes, void *to, size_t size_bytes,
                                         base_error *reterr);

#endif
