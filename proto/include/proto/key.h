/* The keys of a job: one CURVE pair for the launcher, one for each rank.
 *
 * A rank gets a key file through an inherited memfd, never through the command line or the
 * environment. The file has the rank's own pair, the launcher's public key, the endpoint, and the
 * key with which ranks prove to each other that they belong to the job. The rank overwrites it
 * after reading. Pure except for the descriptor; thread safe. */
#ifndef PROTO_KEY_H
#define PROTO_KEY_H

#include <stdint.h>

#include "base/status.h"
#include "proto/limits.h"

enum { PROTO_KEY_BYTES = 32, PROTO_KEY_FILE_BYTES_MAX = 1024 };

typedef struct proto_keypair {
    uint8_t public_key[PROTO_KEY_BYTES];
    uint8_t secret_key[PROTO_KEY_BYTES];
} proto_keypair;

/* What one rank needs to reach its launcher and its peers. It has secrets: wipe it. */
typedef struct proto_key_file {
    char endpoint[PROTO_ENDPOINT_BYTES]; /* "tcp://127.0.0.1:40123" */
    uint8_t launcher_public_key[PROTO_KEY_BYTES];
    proto_keypair rank;
    uint8_t collectives_key[PROTO_KEY_BYTES]; /* the same for all ranks of a job, and known to no
                                           * others */
} proto_key_file;

/* A fresh pair from the system's random numbers. */
void proto_keypair_make(proto_keypair *pair);

/* Fresh random bytes for a shared key. */
void proto_random_key(uint8_t key[PROTO_KEY_BYTES]);

/* A memfd with the key file, close-on-exec, at its start; the caller closes *fd. */
BASE_MUST_CHECK base_status proto_key_file_write(const proto_key_file *key, int *fd,
                                                 base_error *reterr);

/* Reads and checks the key file, then overwrites the descriptor's content with zeros. The
 * descriptor stays open. BASE_ERR_AUTH if it is not a key file. */
BASE_MUST_CHECK base_status proto_key_file_read(int fd, proto_key_file *key, base_error *reterr);

/* Overwrites memory. The compiler cannot leave this out. */
void proto_wipe(void *secret, size_t size_bytes);

#endif
