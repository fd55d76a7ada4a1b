/* The SHA-256 of a file, computed on a low-priority thread. A large data file takes tens of
 * milliseconds. In a short run the ranks start in that time. */
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
    bool known; /* the two below are valid; set when the thread has ended */
    uint64_t size_bytes;
    uint8_t sha256[PROTO_DIGEST_BYTES];
} launch_file_digest;

/* Starts the thread, unless the path is empty. *digest must stay at its address until finish. */
void launch_file_digest_start(launch_file_digest *digest, const char *path);

/* Waits for the thread. Afterwards `known` says whether the file could be read. May be called
 * again. */
void launch_file_digest_finish(launch_file_digest *digest);

#endif
