/* The inside of a context: what all communicators of a process share.
 *
 * Nothing here is shared between threads but the abort word and the description. */
#ifndef COLL_SRC_CONTEXT_H
#define COLL_SRC_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "coll/coll.h"
#include "coll/tune.h"
#include "common/limits.h"
#include "core/identity.h"
#include "core/transport.h"
#include "diagnose/flight.h"

#define COLL_DEFAULT_TIMEOUT_NS (300 * BASE_NS_PER_S)

/* How many communicators were made of one list of ranks, known by its hash. */
typedef struct coll_comm_count {
    uint64_t list_hash;
    uint32_t count;
} coll_comm_count;

typedef struct coll_device coll_device;

struct coll_context {
    unsigned forks; /* coll_context_fork_count when it was made: a child's is another */
    int rank;
    int size;
    coll_transport transport;
    coll_algorithm said;      /* by the program, or the environment */
    coll_algorithm algorithm; /* AUTO: by `costs` */
    bool has_costs;
    coll_costs costs;
    int64_t timeout_ns;
    int64_t host_timeout_ns;
    const coll_transport_table *table;
    coll_identity *identities;
    coll_comm *world;
    coll_comm *comms;      /* all, the world included */
    coll_comm *busy;       /* those with something under way, by busy_next (progress.h) */
    coll_comm *spare;      /* zeroes, for the next one: with it, a lack of memory can be told of */
    coll_comm_count *made; /* made_count of them, room for made_room */
    size_t made_count;
    size_t made_room;
    uint64_t bytes_sent;
    coll_flight *flight;
    bool has_met;  /* the last rendezvous ended well (rendezvous.h) */
    int unreached; /* the rank that this one could not be connected to; -1: none */
    /* Bits of the ranks of communicators that have failed, and not by mismatch, unless one of them
     * was made since: what is still to reach these, they may never take. */
    uint64_t doubted;
    uint64_t gone;         /* bits of the ranks that are known to have gone */
    int64_t watched_ns;    /* when a test or send looked for peers that have failed */
    unsigned yield_budget; /* yields before sleeping, where ranks share processors */
    unsigned spins;        /* pauses before yielding; 0 where ranks share processors */
    unsigned idle_tests;   /* that found their operation not done */
    uint64_t moves;        /* tests that found something moving */
    bool has_failed;       /* a communicator was dropped from `busy` with something under way */
    void *shm;             /* of transports that share memory (layout.h) */
    void *net;             /* of transports over sockets (net.h) */
    const coll_backend *backend; /* for operations on streams; NULL: none */
    void *backend_user;
    coll_algorithm device_algorithm; /* of operations on streams that name none */
    coll_device *devices;            /* of the communicators; with describe_lock */
    int socks[COLL_RANKS_MAX];       /* to peers on this host, for descriptors; -1 */

    atomic_int abort_state; /* 0 none, 1 being written, 2 set */
    char abort_reason[COLL_REASON_BYTES];
    pthread_mutex_t describe_lock;
    char description[COLL_DESCRIBE_BYTES];
};

/* How often this process, and those that it was forked from, were forked since the first context.
 * Not to be changed but by context.c. */
extern unsigned coll_context_fork_count;

/* Whether this process is a child of the one that made the context: its sockets and its device are the
 * parent's. */
static inline bool coll_context_is_forked(const coll_context *context)
{
    return context->forks != coll_context_fork_count;
}

/* Whether a rank is on this rank's host. */
static inline bool coll_context_is_here(const coll_context *context, int rank)
{
    return coll_identity_same_host(&context->identities[rank], &context->identities[context->rank]);
}

/* Notes ranks that have gone, a bit for each: seen, or told by a peer. */
static inline void coll_context_note_gone(coll_context *context, uint64_t ranks)
{
    const uint64_t own = UINT64_C(1) << context->rank;
    context->gone |= ranks & ~own & UINT64_MAX >> (64 - context->size);
}

/* Whether the socket to a rank of this host, where there is one, has been closed there: its process
 * has ended, or destroyed its context. Notes it. */
bool coll_context_has_hung_up(coll_context *context, int rank);

/* How many other ranks are on this rank's host. */
static inline int coll_context_neighbours(const coll_context *context)
{
    int count = -1;
    for (int rank = 0; rank < context->size; rank++) {
        count += coll_context_is_here(context, rank);
    }
    return count;
}

/* Made by coll_context_create, with nothing in it but what the options say; coll_context_destroy
 * takes it in every state from here on. NULL: no memory. */
coll_context *coll_context_alloc(const coll_context_options *options);

/* The algorithm of operations that name none; NATIVE: of those on streams. */
void coll_context_say(coll_context *context, coll_algorithm algorithm);

#endif
