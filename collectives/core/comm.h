/* The inside of communicators and arenas.
 *
 * Memory that peers can write is read once, checked, and never asserted. */
#ifndef COLL_SRC_COMM_H
#define COLL_SRC_COMM_H

#include "coll/tune.h"
#include "common/limits.h"
#include "core/context.h"
#include "core/flag.h"
#include "core/transport.h"
#include "plan/hosts.h"

typedef struct coll_p2p coll_p2p;

struct coll_arena {
    coll_comm *comm;
    coll_arena *next;
    uint32_t number; /* from 1, in order of creation; the same on every rank */
    size_t size_bytes;
    size_t mapped_bytes;
    uint8_t *data;
    uint8_t *peers[COLL_RANKS_MAX]; /* where peers' parts are mapped here; own included */
};

/* The bytes of a peer's arena at an address that the peer has named; NULL if there is no such address, or
 * none here: over sockets nobody's memory is. */
uint8_t *coll_arena_of_peer(const coll_comm *comm, int peer, uint32_t number, uint64_t offset_bytes,
                            size_t size_bytes);

/* What a communicator sees of a rank: its flags. */
typedef struct coll_peer_view {
    const coll_flag *flags;
    const uint8_t *payloads; /* comm->inline_bytes for each flag; NULL: beside the flags' words */
} coll_peer_view;

struct coll_comm {
    coll_context *context;
    const coll_transport_table *table; /* the context's; shm's on one host of a hybrid */
    coll_comm *next;
    coll_comm *busy_next; /* in the context's list of busy ones, if is_busy */
    bool is_busy;
    int rank;
    int size;
    int ranks[COLL_RANKS_MAX];            /* context ranks, by rank in the communicator */
    uint64_t id;                          /* the same on every rank */
    uint64_t sequence;                    /* of the newest operation */
    uint64_t posted;                      /* of the newest one that was posted */
    uint64_t done;                        /* this rank has done its part of all up to this one */
    uint64_t started[COLL_KIND_LAST + 1]; /* how many operations, by coll_kind, */
    uint64_t started_bytes[COLL_KIND_LAST + 1]; /* and bytes of their vectors */
    coll_flag *flags;                           /* own */
    coll_peer_view peers[COLL_RANKS_MAX];
    coll_op *made; /* by the program, and not destroyed */
    coll_op *head;
    coll_op *tail;
    coll_op *waiting;    /* the first one that is not posted yet; NULL: none */
    coll_p2p *p2p;       /* sends and receives; NULL before the first */
    bool shares_memory;  /* peers' arenas can be reached with loads and stores */
    size_t inline_bytes; /* payload that travels with a flag */
    size_t chunk_bytes;  /* one frame of a stream; the same on every rank */
    coll_hosts hosts;    /* which host each rank is on */
    coll_layout layout;  /* what the cost model needs of that */
    uint16_t host_words[COLL_HOSTS_WORDS(COLL_RANKS_MAX)];
    coll_arena *arenas;
    uint32_t arenas_made;
    uint64_t arena_changes; /* arenas made and destroyed */
    int arena_count;
    coll_op *blocking;                /* that of blocking calls, */
    coll_op *recent[COLL_RECENT_OPS]; /* and those of earlier ones; NULL: none yet */
    unsigned oldest;                  /* index of the oldest of them */
    void *shm;                        /* of transports that share memory (layout.h) */
    void *net;                        /* of transports over sockets (net.h) */
    coll_device *device; /* the backend's part; NULL until an operation on a stream was made */
    void *hybrid;        /* of the hybrid transport, with several hosts */
    coll_error failure;
    bool failed;
    bool told;  /* a call has returned its failure */
    int origin; /* 1 + the rank whose failure this rank has taken over; 0: its own */
    size_t message_offset_bytes; /* in the failure's message: where that rank's message begins */
    int failed_peer;             /* 1 + the rank of a peer that has sent a failure notice; 0 */
};

/* A bit for each of its ranks, by their numbers in the context. */
static inline uint64_t coll_comm_members(const coll_comm *comm)
{
    uint64_t members = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        members |= UINT64_C(1) << comm->ranks[rank];
    }
    return members;
}

/* coll_comm_create with a deadline, and before there is a world to agree in. */
COLL_MUST_CHECK coll_status coll_comm_open(coll_context *context, const int *ranks, int count,
                                           int64_t deadline_ns, coll_comm **comm,
                                           coll_error *reterr);

#endif
