/* What a transport does, as a table of functions. Its state is in context->shm and comm->shm where
 * ranks share memory, in context->net and comm->net over sockets. hybrid has both, and
 * comm->hybrid. Ranks are those of the communicator.
 *
 * Two things cross a transport. Flags (flag.h): post shows this rank's to all peers, and theirs
 * appear in comm->peers[].flags. Streams: from each rank to each other rank, COLL_CHANNELS of them,
 * frames of at most chunk_bytes in order, with a few frames of credit; both sides know the size of
 * the next frame from the plan. A frame is written and read in place.
 *
 * Every transport has the functions of lifecycle, flags and streams. What only some have stands in
 * a table of its own.
 *
 * Functions that find a peer breaking the protocol record it with coll_comm_fail. */
#ifndef COLL_SRC_TRANSPORT_H
#define COLL_SRC_TRANSPORT_H

#include <stdbool.h>

#include "coll/coll.h"
#include "core/flag.h"

/* Of a transport whose ranks reach each other's memory with loads and stores. */
typedef struct coll_memory_table {
    /* Takes a posted operation through its stages, as far as it goes. */
    void (*advance)(coll_op *op, bool *moved);
    /* Begins a blocking operation while the communicator's queue is empty, as comm->blocking, and
     * ends it if that takes no long wait; else it stands in the queue. *status is how far that
     * failed. False: nothing was done, and the operation has to go through the queue. */
    bool (*run)(coll_comm *comm, const coll_op_desc *desc, coll_status *status, coll_error *reterr);
    /* Propagates a failure: fails the communicator as the peer has that comm->failed_peer names. */
    void (*propagate_failure)(coll_comm *comm);
} coll_memory_table;

/* Failure notices, and what ranks know of each other's waits. */
typedef struct coll_notice_table {
    /* Sends peers a failure notice: why the communicator has failed here. */
    void (*send_failure)(coll_comm *comm);
    /* Nothing is under way, and the communicator is about to go: fails it if some peer is known to
     * have called something else. Of two ranks that disagree, and show each other that, one learns
     * it at least, as far as the transport knows what has arrived. */
    void (*finalize)(coll_comm *comm);
    /* Called now and then while op is waited for: looks for peers that have failed or gone. */
    void (*watch)(coll_op *op);
    /* Shows peers for which ranks this one has been waiting for some time, a bit for each; 0 when
     * that is over. waits_of: what a peer has shown last. For messages. */
    void (*show_waits)(coll_comm *comm, uint64_t waits);
    uint64_t (*waits_of)(const coll_comm *comm, int peer);
} coll_notice_table;

/* Of a transport over sockets. */
typedef struct coll_socket_table {
    /* Moves sockets on; true if something came or went. */
    bool (*poll)(coll_context *context);
    /* Sends what was kept back to be coalesced. */
    void (*push)(coll_context *context);
} coll_socket_table;

typedef struct coll_sleep_table {
    /* Sleeps until something may have changed, at most until until_ns. `changed` is called again
     * after peers can see that this rank goes to sleep: true means that something has changed
     * already. */
    void (*sleep)(coll_context *context, bool (*changed)(coll_context *context), int64_t until_ns);
    /* Ends a sleep of this process from any thread. */
    void (*wake)(coll_context *context);
} coll_sleep_table;

typedef struct coll_transport_table {
    coll_transport transport;
    bool has_threads; /* which move the bytes, and need a processor while ranks wait */
    const coll_memory_table *memory;  /* NULL: ranks share none */
    const coll_notice_table *notices; /* NULL: none, as in tests of parts */
    const coll_socket_table *sockets; /* NULL: there are none */
    const coll_sleep_table *sleep;

    /* Collective over the context; may call the options' exchange. */
    coll_status (*open)(coll_context *context, const coll_context_options *options,
                        int64_t deadline_ns, coll_error *reterr);
    void (*close)(coll_context *context);

    /* Collective over the communicator; fills flags and peers. */
    coll_status (*comm_open)(coll_comm *comm, int64_t deadline_ns, coll_error *reterr);
    void (*comm_close)(coll_comm *comm);

    /* Makes the arena's memory: own part and peers'. Collective. */
    coll_status (*arena_open)(coll_arena *arena, int64_t deadline_ns, coll_error *reterr);
    void (*arena_close)(coll_arena *arena);

    /* Shows the flag of op, with payload. */
    void (*post)(coll_op *op, const void *payload, size_t payload_bytes);
    /* Whether op, next in order, may be posted: false while a peer might still need what its
     * flag would overwrite. */
    bool (*may_post)(const coll_op *op);
    /* Whether the bytes that this rank gives in op are on their way, so that peers get them while
     * it is not in the library. NULL: always. */
    bool (*has_given)(const coll_op *op);
    /* Whether op, as far as it has come, cannot go on without the peer; for messages. */
    bool (*awaits)(const coll_op *op, int peer);

    /* Room for a frame to a peer; NULL for now. send_end hands it over. */
    void *(*send_begin)(coll_comm *comm, int peer, int channel, size_t size_bytes);
    void (*send_end)(coll_comm *comm, int peer, int channel, size_t size_bytes);
    /* Both at once, from the caller's own bytes, which may change after: as many frames as there is
     * credit for, of chunk_bytes each but for the last. Returns the bytes taken. NULL: room for a
     * frame is as near as it gets. */
    size_t (*send_from)(coll_comm *comm, int peer, int channel, const void *data,
                        size_t size_bytes);
    /* The next size_bytes of frames from a peer, none of which is here yet, are op's and belong at
     * target: they may be written there as they come, and receive_begin returns that address. Until
     * then, or until the communicator has failed, the bytes there are the transport's. NULL: they
     * are copied. */
    void (*receive_into)(coll_op *op, int peer, int channel, void *target, size_t size_bytes);
    /* The next frame from a peer, of exactly size_bytes; NULL for now.
     * receive_end gives it back. */
    const void *(*receive_begin)(coll_comm *comm, int peer, int channel, size_t size_bytes);
    void (*receive_end)(coll_comm *comm, int peer, int channel);
} coll_transport_table;

#endif
