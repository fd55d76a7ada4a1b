/* SHA-256 and BLAKE2b-256 by libsodium. Called to compare parameters between ranks, to pin input
 * files, and to bind a token to its JOB.json. */
#include "proto/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

enum { READ_BLOCK_BYTES = 16 * 1024 };

_Static_assert(SHA256_DIGEST_SIZE == PROTO_DIGEST_BYTES, "one size for all digests");

void proto_sha256(const void *data, size_t size_bytes, uint8_t digest[PROTO_DIGEST_BYTES])
{
    struct sha256_ctx state;
    sha256_init(&state);
    sha256_update(&state, size_bytes, data);
    sha256_digest(&state, PROTO_DIGEST_BYTES, digest);
}

struct proto_hasher {
    struct sha256_ctx state;
};

proto_hasher *proto_hasher_create(void)
{
    proto_hasher *made = malloc(sizeof *made);
    if (made != NULL) {
        sha256_init(&made->state);
    }
    return made;
}

void proto_hasher_add(proto_hasher *hasher, const void *data, size_t size_bytes)
{
    sha256_update(&hasher->state, size_bytes, data);
}

void proto_hasher_take(proto_hasher *hasher, uint8_t digest[PROTO_DIGEST_BYTES])
{
    sha256_digest(&hasher->state, PROTO_DIGEST_BYTES, digest); /* resets the state */
}

void proto_hasher_destroy(proto_hasher *hasher)
{
    free(hasher);
}

void proto_blake2b256(const void *data, size_t size_bytes, uint8_t digest[PROTO_DIGEST_BYTES])
{
    const int failed = crypto_generichash(digest, PROTO_DIGEST_BYTES, data, size_bytes, NULL, 0);
    BASE_ASSERT(failed == 0);
}

void proto_digest_hex(const uint8_t digest[PROTO_DIGEST_BYTES], char hex[PROTO_DIGEST_HEX_BYTES])
{
    (void)sodium_bin2hex(hex, PROTO_DIGEST_HEX_BYTES, digest, PROTO_DIGEST_BYTES);
}

bool proto_digest_parse(const char *hex, uint8_t digest[PROTO_DIGEST_BYTES])
{
    size_t got = 0;
    return strlen(hex) == PROTO_DIGEST_HEX_BYTES - 1 &&
           sodium_hex2bin(digest, PROTO_DIGEST_BYTES, hex, PROTO_DIGEST_HEX_BYTES - 1, NULL, &got,
                          NULL) == 0 &&
           got == PROTO_DIGEST_BYTES;
}

base_status proto_sha256_file(const char *path, uint8_t digest[PROTO_DIGEST_BYTES],
                              base_error *reterr)
{
    uint8_t block[READ_BLOCK_BYTES];
    struct sha256_ctx state;
    base_status status = BASE_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    sha256_init(&state);
    for (;;) {
        const ssize_t got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            status = base_fail_errno(reterr, errno, "cannot read %s", path);
            break;
        }
        if (got == 0) {
            sha256_digest(&state, PROTO_DIGEST_BYTES, digest);
            break;
        }
        sha256_update(&state, (size_t)got, block);
    }
    (void)close(fd);
    return status;
}
