/* The flag: what a rank posts to its peers at the start of each operation.
 *
 * The 64-bit word has the low half of the operation's sequence number and a digest of its
 * descriptor. A peer computes the same word from its own call. So one load shows it that the rank
 * has arrived, and that it has called the same operation. The payload is in the word's cache line:
 * the operand itself if it is tiny, else a reference to the buffers if they lie in arenas. The full
 * descriptor is in the next cache line. It is read only to name both sides of a mismatch.
 *
 * A rank has COLL_FLAG_COUNT flags and uses them in turn (limits.h says why that is enough). The
 * word is written last and read first, so whoever sees the word sees all the rest. */
#ifndef COLL_SRC_FLAG_H
#define COLL_SRC_FLAG_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"
#include "common/limits.h"

/* What all ranks must agree on; `sequence` and `chosen` are there for the reader. */
typedef struct coll_descriptor {
    uint64_t sequence;
    uint64_t count;
    int32_t kind; /* coll_kind, or COLL_KIND_ARENA */
    int32_t type;
    int32_t reduce;
    int32_t root;
    int32_t algorithm;
    uint32_t
        counts; /* a hash of the variable counts; or COLL_COUNTS_PAIRWISE, and then `count`, what
                        this rank sends, need not agree; 0: none */
    int32_t chosen; /* 1: the caller said AUTO, and `algorithm` was chosen; need not agree */
    uint32_t element_bytes; /* of a reduction of the program's own, and its name; else 0 */
    char name[COLL_REDUCTION_NAME_BYTES];
} coll_descriptor;

/* Kinds of the library's own operations. */
enum {
    COLL_KIND_ARENA = 100,
    COLL_KIND_COMM = 101,
    COLL_KIND_SPLIT = 102,
    COLL_KIND_DEVICE_OPEN = 103,     /* the backend's communicator; `count`: 0 begins, 1 is open */
    COLL_KIND_DEVICE_MADE = 104,     /* `count` operations on streams */
    COLL_KIND_DEVICE_CAPTURED = 105, /* the operation that was made as number `count` */
    COLL_KIND_DEVICE = 200,          /* and a coll_kind: this operation on a stream is made */
};

typedef struct coll_flag {
    _Alignas(128) _Atomic uint64_t word;
    uint8_t payload[COLL_TINY_BYTES];
    coll_descriptor descriptor;
} coll_flag;

_Static_assert(sizeof(coll_descriptor) == 64, "the descriptor fills its cache line");
_Static_assert(sizeof(coll_flag) == 128, "two cache lines, which processors fetch together");

/* Where a rank's buffers are: arena numbers counted from 1, 0 for memory of its own. */
typedef struct coll_buffer_ref {
    uint32_t send_arena;
    uint32_t recv_arena;
    uint64_t send_offset_bytes;
    uint64_t recv_offset_bytes;
} coll_buffer_ref;

_Static_assert(sizeof(coll_buffer_ref) <= COLL_TINY_BYTES, "a buffer reference fits the payload");
_Static_assert(sizeof(coll_buffer_ref) == 24,
               "and has no padding: references are compared as bytes");

/* A digest of what ranks must agree on; bit 0, which no word has, is `chosen`. */
uint32_t coll_descriptor_digest(const coll_descriptor *descriptor);

static inline uint64_t coll_flag_word(uint64_t sequence, uint32_t digest)
{
    return sequence << 32 | (digest & ~UINT32_C(1)); /* bit 0 is the transport's */
}

/* How far a flag's word is ahead of a sequence number:
 * 0 this operation, negative an earlier one. */
static inline int32_t coll_flag_ahead(uint64_t word, uint64_t sequence)
{
    return (int32_t)((uint32_t)(word >> 32) - (uint32_t)sequence);
}

/* "all_reduce float × 1024 sum direct", "broadcast int32 × 4 root 1". */
void coll_descriptor_text(const coll_descriptor *descriptor, char *text, size_t size_bytes);
/* The same as the caller put it, with "auto (direct)" where AUTO was said. */
void coll_call_text(const coll_descriptor *descriptor, char *text, size_t size_bytes);

#endif
