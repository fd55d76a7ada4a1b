/* Moves files between the launchers of several hosts, in chunks that the receiver asks for.
 *
 * The receiver keeps at most PROTO_CHUNKS_AHEAD_MAX chunks on the way. This bounds the memory of both
 * sides, and how long heartbeats wait behind a file on a slow link. Chunks come in order. They are
 * appended to "PATH.part", which is locked. When the file is complete and its SHA-256 is right, it
 * is renamed to PATH. A partial file that is found is read, and continued. It is never taken for
 * the file, nor is one that a crash of the machine has damaged: whoever uses PATH later reads its
 * digest anew. So nothing is synchronized to the disk.
 *
 * No call takes long: large files are read in steps, between which an event loop can do its other
 * work. Used by the head and by agents, each from one thread. */
#ifndef LAUNCH_TRANSFER_H
#define LAUNCH_TRANSFER_H

#include <control.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/digest.h"
#include "proto/limits.h"

/* ---- reading a file's digest ---- */

typedef struct launch_hashing launch_hashing;

BASE_MUST_CHECK base_status launch_hashing_open(const char *path, launch_hashing **hashing,
                                                base_error *reterr);

/* Reads a step further. *whole: the end was reached, and digest and *size_bytes are set. */
BASE_MUST_CHECK base_status launch_hashing_step(launch_hashing *hashing, bool *whole,
                                                uint64_t *size_bytes,
                                                uint8_t digest[PROTO_DIGEST_BYTES],
                                                base_error *reterr);

/* NULL is fine. */
void launch_hashing_close(launch_hashing *hashing);

/* ---- sending ---- */

typedef struct launch_chunk {
    Ringfence__Control__Chunk body; /* the message; it refers to the data */
    uint8_t data[PROTO_CHUNK_BYTES_MAX];
} launch_chunk;

/* Reads the chunk that is asked for, which begins before the file's end, and makes its message.
 * BASE_ERR_INVALID: the file is not so long any more. */
BASE_MUST_CHECK base_status launch_chunk_read(const char *path, uint64_t size_bytes,
                                              const Ringfence__Control__Fetch *fetch,
                                              launch_chunk *chunk, base_error *reterr);

/* ---- receiving ---- */

typedef struct launch_incoming launch_incoming;

typedef enum launch_incoming_state {
    LAUNCH_INCOMING_READS, /* what is there of the file: step again */
    LAUNCH_INCOMING_ASKS,  /* for chunks: see launch_incoming_ask */
    LAUNCH_INCOMING_WHOLE, /* all has come: launch_incoming_finish */
} launch_incoming_state;

typedef struct launch_incoming_options {
    const char *path;
    uint64_t size_bytes;
    const uint8_t *sha256; /* (PROTO_DIGEST_BYTES) */
    bool anew;             /* a partial file that is there is not continued */
} launch_incoming_options;

/* Opens or makes PATH.part. BASE_ERR_BUSY: another launcher has it. */
BASE_MUST_CHECK base_status launch_incoming_open(const launch_incoming_options *options,
                                                 launch_incoming **incoming, base_error *reterr);

BASE_MUST_CHECK base_status launch_incoming_step(launch_incoming *incoming,
                                                 launch_incoming_state *state, base_error *reterr);

/* Whether a chunk is to be asked for now: the one at *offset. */
bool launch_incoming_ask(launch_incoming *incoming, uint64_t *offset);

/* Writes a chunk. BASE_ERR_INVALID: not one that was asked for. */
BASE_MUST_CHECK base_status launch_incoming_take(launch_incoming *incoming, uint64_t offset,
                                                 const void *data, size_t bytes,
                                                 base_error *reterr);

/* Bytes of the partial file that was there; 0: there was none. */
uint64_t launch_incoming_found_bytes(const launch_incoming *incoming);

/* Bytes that are on this host. */
uint64_t launch_incoming_bytes(const launch_incoming *incoming);

/* Compares the digest and renames. BASE_ERR_INVALID: it is another one, and the partial file is
 * gone. Frees in every case. */
BASE_MUST_CHECK base_status launch_incoming_finish(launch_incoming *incoming, base_error *reterr);

/* Gives up. The partial file stays (`keep`), to be continued later, or goes. NULL is fine. */
void launch_incoming_close(launch_incoming *incoming, bool keep);

#endif
