/* Creates and reads files that hold secrets, and checks who could have written a trusted file or
 * directory. Called for keys, tokens, receipts and the keyring. */
#include "budget/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sync.h"

base_status budget_secret_file_create(const char *path, const void *data, size_t size_bytes,
                                      base_error *reterr)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EEXIST) {
        return base_fail(reterr, BASE_ERR_STATE, "%s is there already", path);
    }
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot make %s", path);
    }
    base_status status = base_fd_write(fd, path, data, size_bytes, reterr);
    if (status == BASE_OK && (fchmod(fd, 0600) != 0 || fsync(fd) != 0)) {
        status = base_fail_errno(reterr, errno, "cannot write %s to disk", path);
    }
    if (close(fd) != 0 && status == BASE_OK) {
        status = base_fail_errno(reterr, errno, "cannot write %s", path);
    }
    if (status == BASE_OK) {
        status = base_sync_parent(path, reterr);
    }
    if (status != BASE_OK) {
        (void)unlink(path);
    }
    return status;
}

static bool behind_link(const char *path)
{
    struct stat entry;
    return lstat(path, &entry) == 0 && S_ISLNK(entry.st_mode);
}

static bool read_only_mount(int fd)
{
    struct statvfs mount;
    return fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_RDONLY) != 0;
}

/* Ours or root's, and written by nobody else. advice: what to do else. */
static base_status check_owner(const char *path, const struct stat *file, const char *advice,
                               base_error *reterr)
{
    const uid_t me = geteuid();
    if (file->st_uid != me && file->st_uid != 0) {
        return base_fail(reterr, BASE_ERR_AUTH, "%s belongs to user %u, not to us (%u) or root",
                         path, (unsigned)file->st_uid, (unsigned)me);
    }
    return (file->st_mode & 022) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_AUTH, "%s may be written by others (mode %04o): %s",
                           path, (unsigned)file->st_mode & 07777U, advice);
}

base_status budget_trusted_file_check(const char *path, int fd, base_error *reterr)
{
    struct stat file;
    if (fstat(fd, &file) != 0) {
        return base_fail_errno(reterr, errno, "cannot look at %s", path);
    }
    return S_ISREG(file.st_mode)
               ? check_owner(path, &file, "chmod 644 it, and look what it holds", reterr)
               : base_fail(reterr, BASE_ERR_AUTH, "%s is not a regular file", path);
}

base_status budget_trusted_directory_check(const char *path, base_error *reterr)
{
    struct stat directory;
    if (stat(path, &directory) != 0) {
        return base_fail_errno(reterr, errno, "cannot look at %s", path);
    }
    return S_ISDIR(directory.st_mode)
               ? check_owner(path, &directory, "chmod 700 it, and look who has been there", reterr)
               : base_fail(reterr, BASE_ERR_AUTH, "%s is not a directory", path);
}

static base_status check(const char *path, int fd, base_error *reterr)
{
    struct stat file;
    if (fstat(fd, &file) != 0) {
        return base_fail_errno(reterr, errno, "cannot look at %s", path);
    }
    if (!S_ISREG(file.st_mode)) {
        return base_fail(reterr, BASE_ERR_AUTH, "%s is not a regular file", path);
    }
    const uid_t me = geteuid();
    const unsigned mode = file.st_mode & 07777;
    const base_status status =
        check_owner(path, &file, "chmod 600 it, and make a new secret", reterr);
    if (status != BASE_OK) {
        return status;
    }
    const bool mounted = file.st_uid == 0 && (me != 0 || behind_link(path) || read_only_mount(fd));
    if ((mode & 077) != 0 && !mounted) {
        return base_fail(reterr, BASE_ERR_AUTH,
                         "%s may be read by others (mode %04o): chmod 600 it, and make a new "
                         "secret if others were here",
                         path, mode);
    }
    return BASE_OK;
}

static base_status read_all(int fd, const char *path, char *data, size_t data_size_bytes,
                            size_t *size_bytes, base_error *reterr)
{
    size_t filled = 0;
    for (;;) {
        char more = 0;
        const ssize_t got = filled < data_size_bytes
                                ? read(fd, data + filled, data_size_bytes - filled)
                                : read(fd, &more, 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return base_fail_errno(reterr, errno, "cannot read %s", path);
        }
        if (got == 0) {
            *size_bytes = filled;
            return BASE_OK;
        }
        if (filled == data_size_bytes) {
            return base_fail(reterr, BASE_ERR_LIMIT, "%s has more than %zu bytes", path,
                             data_size_bytes);
        }
        filled += (size_t)got;
    }
}

base_status budget_secret_file_read(const char *path, void *data, size_t data_size_bytes,
                                    size_t *size_bytes, base_error *reterr)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "%s is not there", path);
    }
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    base_status status = check(path, fd, reterr);
    if (status == BASE_OK) {
        status = read_all(fd, path, data, data_size_bytes, size_bytes, reterr);
    }
    (void)close(fd);
    return status;
}

enum { KEY_HEX_BYTES = 2 * PROTO_KEY_BYTES, PAIR_BYTES = 2 * (KEY_HEX_BYTES + 1) };

base_status budget_keypair_create(const char *path, const proto_keypair *pair, base_error *reterr)
{
    char text[PAIR_BYTES];
    char *secret = text + KEY_HEX_BYTES + 1;
    (void)sodium_bin2hex(text, KEY_HEX_BYTES + 1, pair->public_key, PROTO_KEY_BYTES);
    (void)sodium_bin2hex(secret, KEY_HEX_BYTES + 1, pair->secret_key, PROTO_KEY_BYTES);
    text[KEY_HEX_BYTES] = '\n';
    secret[KEY_HEX_BYTES] = '\n';
    const base_status status = budget_secret_file_create(path, text, PAIR_BYTES, reterr);
    proto_wipe(text, sizeof text);
    return status;
}

static bool take_hex(const char *text, uint8_t key[PROTO_KEY_BYTES])
{
    size_t got = 0;
    return sodium_hex2bin(key, PROTO_KEY_BYTES, text, KEY_HEX_BYTES, NULL, &got, NULL) == 0 &&
           got == PROTO_KEY_BYTES && text[KEY_HEX_BYTES] == '\n';
}

base_status budget_keypair_read(const char *path, const char *says, proto_keypair *pair,
                                base_error *reterr)
{
    char text[PAIR_BYTES];
    size_t size_bytes = 0;
    uint8_t derived[PROTO_KEY_BYTES];
    base_status status = budget_secret_file_read(path, text, sizeof text, &size_bytes, reterr);
    if (status == BASE_OK && (size_bytes != sizeof text || !take_hex(text, pair->public_key) ||
                              !take_hex(text + KEY_HEX_BYTES + 1, pair->secret_key) ||
                              crypto_scalarmult_base(derived, pair->secret_key) != 0 ||
                              memcmp(derived, pair->public_key, sizeof derived) != 0)) {
        proto_wipe(pair, sizeof *pair);
        status = base_fail(reterr, BASE_ERR_AUTH, "%s%s", path, says);
    }
    proto_wipe(text, sizeof text);
    return status;
}
