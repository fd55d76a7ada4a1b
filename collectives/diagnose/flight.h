/* The flight recorder: what a rank has started and finished lately, to be read after a failure. It
 * knows records, not operations: core/record.c makes the ones from the others.
 *
 * A ring of entries, one for each operation from its start on. Where an operation has not ended and
 * its entry is used again, the entry is kept beside the ring. The owner of the context writes;
 * anybody may read (coll_flight_write): every word is atomic, and an entry's number is taken away
 * before it is written anew and given last, so that a reader sees whole entries or none. Times are
 * the processor's ticks, made into time when they are read; where those do not run evenly, they are
 * nanoseconds of the monotonic clock. */
#ifndef COLL_SRC_FLIGHT_H
#define COLL_SRC_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coll/coll.h"

enum {
    COLL_FLIGHT_ENTRIES = 2048,  /* pending and completed together; a power of two */
    COLL_FLIGHT_COMPLETED = 256, /* completed ones that a dump has */
    COLL_FLIGHT_KEPT = 64        /* pending ones that are older; of more, the newest */
};

typedef struct coll_flight_entry {
    _Atomic uint64_t number; /* from 1; 0: being written, or empty */
    _Atomic uint64_t sequence;
    _Atomic uint64_t what; /* kind, type, reduce, root, algorithm and counts, packed */
    _Atomic uint64_t count;
    _Atomic uint64_t bytes;
    _Atomic uint64_t began;
    _Atomic uint64_t ended; /* 0: not yet */
    _Atomic uint64_t comm;
} coll_flight_entry;

_Static_assert(sizeof(coll_flight_entry) == 64, "an entry is a cache line");

/* The program's own reduction of an entry, if it has one. */
typedef struct coll_flight_own {
    _Atomic uint64_t element_bytes;
    _Atomic uint64_t name[COLL_REDUCTION_NAME_BYTES / sizeof(uint64_t)];
} coll_flight_own;

typedef struct coll_flight {
    _Alignas(64) coll_flight_entry entries[COLL_FLIGHT_ENTRIES];
    coll_flight_entry kept[COLL_FLIGHT_KEPT];
    coll_flight_own own[COLL_FLIGHT_ENTRIES]; /* of the entries, */
    coll_flight_own kept_own[COLL_FLIGHT_KEPT];
    _Atomic uint64_t number; /* of the newest */
    uint64_t began_ticks;    /* the same moment on both clocks */
    int64_t began_unix_ns;
    bool by_tsc; /* ticks are the time stamp counter's */
} coll_flight;

/* What is kept of an operation. */
typedef struct coll_flight_record {
    uint64_t comm;
    uint64_t sequence;
    uint64_t count;
    uint64_t bytes;
    coll_kind kind;
    coll_type type;         /* 0: the operation has none, */
    coll_reduce_op reduce;  /* nor this */
    uint32_t element_bytes; /* of the program's own reduction; else 0, */
    const char *name;       /* and its name, COLL_REDUCTION_NAME_BYTES */
    coll_algorithm algorithm;
    int root;
    uint32_t counts; /* a digest of all ranks' counts, or COLL_COUNTS_PAIRWISE; 0: none */
} coll_flight_record;

enum { COLL_FLIGHT_DEVICES = 8 };

/* How far a backend's device has come. */
typedef struct coll_flight_device {
    uint64_t comm;
    const char *backend;
    uint64_t started;  /* operations that it has begun, those of graphs included, */
    uint64_t finished; /* and ended */
} coll_flight_device;

/* Which rank writes a dump, and why. */
typedef struct coll_flight_head {
    int rank;
    int world_size;
    const char *host;
    unsigned pid;
    coll_transport transport;
    const char *reason;
    const char *doing; /* what the rank waits for; empty: nothing */
    const coll_flight_device *devices;
    int device_count;
} coll_flight_head;

/* Empty, from now on. */
void coll_flight_init(coll_flight *flight);

/* An operation begins: the number that coll_flight_end takes when it is done. */
uint64_t coll_flight_begin(coll_flight *flight, const coll_flight_record *record);
void coll_flight_end(coll_flight *flight, uint64_t number);

/* All of it as JSON, into fd. Any thread. */
COLL_MUST_CHECK coll_status coll_flight_write(const coll_flight *flight,
                                              const coll_flight_head *head, int fd,
                                              coll_error *reterr);

/* tsc.c: whether the time stamp counter ticks at one rate, whatever the processor's clock does and
 * also while it sleeps. */
bool coll_tsc_is_invariant(void);

#endif
