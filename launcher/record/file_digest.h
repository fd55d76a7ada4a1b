/* The SHA-256 of a file, worked out beside everything else: a large data file takes tens of
 * milliseconds, which a short run has while its ranks start. A low-priority thread does it. */
#ifndef LAUNCH_FILE_DIGEST_H
#define LAUNCH_FILE_DIGEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "proto/digest.h"

typedef struct launch_file_digest {
    char path[BASE_PATH_BYTES];
    pthread_t thread;
    bool running;
    bool known; /* the two below are, once it no longer runs */
    uint64_t size_bytes;
    uint8_t sha256[PROTO_DIGEST_BYTES];
} launch_file_digest;

/* Starts on the file; an empty path starts nothing. *digest stays where it is until finish. */
void launch_file_digest_start(launch_file_digest *digest, const char *path);

/* Waits for the end; then `known` tells whether the file could be read. May be called again. */
void launch_file_digest_finish(launch_file_digest *digest);

#endif
