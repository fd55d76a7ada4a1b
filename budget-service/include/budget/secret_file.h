/* Files that hold a secret: made so that nobody else ever could read them, refused when somebody
 * might have.
 *
 * Accepted for reading, whatever leads there (symbolic links too), is a regular file that either
 *   is ours and closed to group and others (0600 or less), or
 *   is a mounted secret: root's, not writable by group or others, and we are not root, or it lies
 *   behind a symbolic link or on a read-only file system. */
#ifndef BUDGET_SECRET_FILE_H
#define BUDGET_SECRET_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/key.h"

/* Makes the file, mode 0600, with O_EXCL, and waits until it is on disk, with its directory's
 * entry.
 * BASE_ERR_STATE when something of that name is there, BASE_ERR_IO; then nothing is left behind. */
BASE_MUST_CHECK base_status budget_secret_file_create(const char *path, const void *data,
                                                      size_t size_bytes, base_error *reterr);

/* Reads all of it into data, at most data_size_bytes. BASE_ERR_NOTFOUND, BASE_ERR_AUTH (owner, mode
 * or kind of file; the message says which), BASE_ERR_LIMIT, BASE_ERR_IO. */
BASE_MUST_CHECK base_status budget_secret_file_read(const char *path, void *data,
                                                    size_t data_size_bytes, size_t *size_bytes,
                                                    base_error *reterr);

/* A CURVE pair in such a file: two lines of hex, the public half first. The two halves must belong
 * together, else BASE_ERR_AUTH, whose message is the path and then `says` (" is no job's key"). Wipe
 * the pair after use. */
BASE_MUST_CHECK base_status budget_keypair_create(const char *path, const proto_keypair *pair,
                                                  base_error *reterr);
BASE_MUST_CHECK base_status budget_keypair_read(const char *path, const char *says,
                                                proto_keypair *pair, base_error *reterr);

/* What is no secret, but is believed: a keyring, the service's directory. BASE_ERR_AUTH when it
 * belongs to somebody else than us or root, or may be written by others. */
BASE_MUST_CHECK base_status budget_trusted_file_check(const char *path, int fd, base_error *reterr);
BASE_MUST_CHECK base_status budget_trusted_directory_check(const char *path, base_error *reterr);

#endif
