/* Makes the keys of a job, and writes and reads the key file that a rank inherits in a memfd.
 * Written by launcher/job/start.c, read by proto/client; budget-service uses the key pairs
 * alone. */
#include "proto/key.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"

enum {
    KEY_FILE_MAGIC = 0x32464b52, /* "RKF2" */
    KEY_FILE_BYTES = 4 + PROTO_ENDPOINT_BYTES + 4 * PROTO_KEY_BYTES,
};
_Static_assert(KEY_FILE_BYTES <= (int)PROTO_KEY_FILE_BYTES_MAX, "a key file fits its limit");

void proto_keypair_make(proto_keypair *pair)
{
    (void)crypto_box_keypair(pair->public_key, pair->secret_key);
}

void proto_random_key(uint8_t key[PROTO_KEY_BYTES])
{
    randombytes_buf(key, PROTO_KEY_BYTES);
}

void proto_wipe(void *secret, size_t size_bytes)
{
    sodium_memzero(secret, size_bytes);
}

base_status proto_key_file_write(const proto_key_file *key, int *fd, base_error *reterr)
{
    uint8_t file[KEY_FILE_BYTES];
    base_status status = BASE_OK;
    base_writer writer = base_writer_make(file, sizeof file);
    base_write_u32(&writer, KEY_FILE_MAGIC);
    base_write_bytes(&writer, key->endpoint, sizeof key->endpoint);
    base_write_bytes(&writer, key->launcher_public_key, PROTO_KEY_BYTES);
    base_write_bytes(&writer, key->rank.public_key, PROTO_KEY_BYTES);
    base_write_bytes(&writer, key->rank.secret_key, PROTO_KEY_BYTES);
    base_write_bytes(&writer, key->collectives_key, PROTO_KEY_BYTES);

    const int made = memfd_create("ringfence-key", MFD_CLOEXEC);
    if (made < 0) {
        status = base_fail_errno(reterr, errno, "cannot make a memory file for a rank's key");
    } else if (pwrite(made, file, sizeof file, 0) != (ssize_t)sizeof file) {
        status = base_fail_errno(reterr, errno, "cannot write a rank's key");
        (void)close(made);
    } else {
        *fd = made;
    }
    proto_wipe(file, sizeof file);
    return status;
}

base_status proto_key_file_read(int fd, proto_key_file *key, base_error *reterr)
{
    static const uint8_t zeros[KEY_FILE_BYTES];
    uint8_t file[KEY_FILE_BYTES + 1];
    base_status status = BASE_OK;
    const ssize_t got = pread(fd, file, sizeof file, 0);
    if (got < 0) {
        return base_fail_errno(reterr, errno, "cannot read the job's key");
    }
    base_reader reader = base_reader_make(file, (size_t)got);
    const uint32_t magic = base_read_u32(&reader);
    const char *endpoint = base_read_bytes(&reader, PROTO_ENDPOINT_BYTES);
    const uint8_t *keys = base_read_bytes(&reader, 4 * (size_t)PROTO_KEY_BYTES);
    if (got != KEY_FILE_BYTES || magic != KEY_FILE_MAGIC || reader.failed ||
        memchr(endpoint, '\0', PROTO_ENDPOINT_BYTES) == NULL) {
        status = base_fail(reterr, BASE_ERR_AUTH, "the inherited descriptor holds no job key");
    } else {
        memcpy(key->endpoint, endpoint, PROTO_ENDPOINT_BYTES);
        memcpy(key->launcher_public_key, keys, PROTO_KEY_BYTES);
        memcpy(key->rank.public_key, keys + PROTO_KEY_BYTES, PROTO_KEY_BYTES);
        memcpy(key->rank.secret_key, keys + 2 * (size_t)PROTO_KEY_BYTES, PROTO_KEY_BYTES);
        memcpy(key->collectives_key, keys + 3 * (size_t)PROTO_KEY_BYTES, PROTO_KEY_BYTES);
        if (pwrite(fd, zeros, sizeof zeros, 0) != (ssize_t)sizeof zeros || ftruncate(fd, 0) != 0) {
            status = base_fail_errno(reterr, errno, "cannot wipe the job's key");
            proto_wipe(key, sizeof *key);
        }
    }
    proto_wipe(file, sizeof file);
    return status;
}
