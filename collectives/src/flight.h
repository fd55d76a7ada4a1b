/* The flight recorder: what a rank has started and finished lately, to be read after a failure.
 *
 * A ring of entries, one for each operation from its start on. The owner of the context writes;
 * anybody may read (coll_context_dump): every word is atomic, and an entry's number is taken away
 * before it is written anew and given last, so that a reader sees whole entries or none. Times are
 * processor ticks, made into time when they are read. */
#ifndef COLL_SRC_FLIGHT_H
#define COLL_SRC_FLIGHT_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    COLL_FLIGHT_ENTRIES = 2048, /* pending and completed together; a power of two */
    COLL_FLIGHT_COMPLETED = 256 /* completed ones that a dump has */
};

typedef struct coll_flight_entry {
    _Atomic uint64_t number; /* from 1; 0: being written, or empty */
    _Atomic uint64_t sequence;
    _Atomic uint64_t what; /* kind, type, reduce, algorithm, root and path, packed */
    _Atomic uint64_t count;
    _Atomic uint64_t bytes;
    _Atomic uint64_t began;
    _Atomic uint64_t ended; /* 0: not yet */
    _Atomic uint64_t comm;
} coll_flight_entry;

_Static_assert(sizeof(coll_flight_entry) == 64, "an entry is a cache line");

typedef struct coll_flight {
    _Alignas(64) coll_flight_entry entries[COLL_FLIGHT_ENTRIES];
    _Atomic uint64_t number; /* of the newest */
    uint64_t began_ticks;    /* the same moment on both clocks */
    int64_t began_unix_ns;
} coll_flight;

struct coll_op;
struct coll_context;

/* At the context's creation. */
void coll_flight_init(coll_flight *flight);

/* An operation has its sequence number, and begins; is done. */
void coll_flight_begin(struct coll_op *op);
void coll_flight_end(struct coll_op *op);

#endif
