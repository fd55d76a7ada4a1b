/* The key file of a job on several hosts. Each host's launcher has a copy.
 *
 * From the file derive the CURVE key pairs of the launchers: node 0 is the head, the others are
 * agents. Each has a pair of its own, and all know the public keys of all. Whoever has the file can
 * be any launcher of the job, so only its owner may read it. The run id is no secret: users compare
 * it where a launcher is refused. Thread safe. */
#ifndef PROTO_JOB_KEY_H
#define PROTO_JOB_KEY_H

#include <stdint.h>

#include "base/status.h"
#include "proto/key.h"

enum {
    PROTO_RUN_ID_BYTES = 17, /* hex, with the final NUL */
    PROTO_JOB_KEY_HEAD_BYTES = 640,
    PROTO_JOB_KEY_FILE_BYTES_MAX = 1024,
};

/* It has a secret: wipe it. */
typedef struct proto_job_key {
    char run_id[PROTO_RUN_ID_BYTES];
    uint8_t seed[PROTO_KEY_BYTES];
    char head[PROTO_JOB_KEY_HEAD_BYTES]; /* where the head listens, without spaces; empty: the key
                                          * does not say */
} proto_job_key;

/* A new key from the system's random numbers. */
void proto_job_key_make(proto_job_key *key);

/* Writes the key to a new file with mode 0600. A file that exists is never replaced: BASE_ERR_IO. */
BASE_MUST_CHECK base_status proto_job_key_write(const char *path, const proto_job_key *key,
                                                base_error *reterr);

/* Reads the file. BASE_ERR_AUTH: others may read or write it, it belongs to somebody else than this
 * user or root, or it is no job key. */
BASE_MUST_CHECK base_status proto_job_key_read(const char *path, proto_job_key *key,
                                               base_error *reterr);

/* The key pair of a launcher. Node 0 is the head. */
void proto_job_key_node(const proto_job_key *key, int node, proto_keypair *pair);

/* The key pair of a rank, from the secret that its launcher got for its ranks. */
void proto_rank_key(const uint8_t seed[PROTO_KEY_BYTES], int rank, proto_keypair *pair);

#endif
