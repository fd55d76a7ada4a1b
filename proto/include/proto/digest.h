/* Digests, by libsodium: SHA-256 for records that people compare, and the faster BLAKE2b-256 for
 * checks between ranks. Pure; thread safe. */
#ifndef PROTO_DIGEST_H
#define PROTO_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PROTO_DIGEST_BYTES = 32,
    PROTO_DIGEST_HEX_BYTES = 65, /* with the final NUL */
};

void proto_sha256(const void *data, size_t size_bytes, uint8_t digest[PROTO_DIGEST_BYTES]);
void proto_blake2b256(const void *data, size_t size_bytes, uint8_t digest[PROTO_DIGEST_BYTES]);
void proto_digest_hex(const uint8_t digest[PROTO_DIGEST_BYTES], char hex[PROTO_DIGEST_HEX_BYTES]);

/* The reverse. False: it is not such a text. */
bool proto_digest_parse(const char *hex, uint8_t digest[PROTO_DIGEST_BYTES]);

/* SHA-256 of bytes that come one part after the other. */
typedef struct proto_hasher proto_hasher;

/* NULL: no memory. */
proto_hasher *proto_hasher_create(void);
void proto_hasher_add(proto_hasher *hasher, const void *data, size_t size_bytes);

/* The digest of all that was added; then it begins anew. */
void proto_hasher_take(proto_hasher *hasher, uint8_t digest[PROTO_DIGEST_BYTES]);

/* NULL is fine. */
void proto_hasher_destroy(proto_hasher *hasher);

/* SHA-256 of a whole file, read in blocks. */
BASE_MUST_CHECK base_status proto_sha256_file(const char *path, uint8_t digest[PROTO_DIGEST_BYTES],
                                              base_error *reterr);

#endif
