/* What a transport does, as a table of functions. Its state is in context->shm and comm->shm where
 * ranks share memory, in context->net and comm->net over sockets. hybrid has both, and
 * comm->hybrid. Ranks are those of the communicator.
 *
 * Two things cross a transport:
 *   - Flags (flag.h). post sends this rank's flag to all peers. Their flags appear in
 *     comm->peers[].flags.
 *   - Streams. There are COLL_CHANNELS of them from each rank to each other rank. A stream carries
 *     frames of at most chunk_bytes, in order, and has credit for a few frames. Both sides know the
 *     size of the next frame from the plan. A frame is written and read in place.
 *
 * Every transport has the functions for lifecycle, flags and streams. Functions that only some
 * transports have are in tables of their own.
 *
 * A function that finds that a peer breaks the protocol fails the communicator with
 * coll_comm_fail. */
#ifndef COLL_SRC_TRANSPORT_H
#define COLL_SRC_TRANSPORT_H

#include <stdbool.h>

#include "coll/coll.h"
#include "core/flag.h"

/* Of a transport whose ranks reach each other's memory with loads and stores. */
typedef struct coll_memory_table {
    /* Moves a posted operation through its stages, as far as it goes. */
    void (*advance)(coll_op *op, bool *moved);
    /* A short cut for a blocking operation. Begins it as comm->blocking, and ends it if the wait is
     * short. Otherwise it is in the queue afterwards. *status is that of beginning it. False:
     * nothing was done, and the caller has to use the queue. */
    bool (*run)(coll_comm *comm, const coll_op_desc *desc, coll_status *status, coll_error *reterr);
    /* Propagates a failure: fails the communicator for the reason of the peer that
     * comm->failed_peer names. */
    void (*propagate_failure)(coll_comm *comm);
    /* Called when something was loaded from a peer's buffer, before anybody is told that it is done.
     * False: a peer has failed, so the bytes may be others than it posted. The communicator has
     * failed then. */
    bool (*confirm_reads)(coll_comm *comm);
    /* Whether a peer has given back the room of so many frames that this rank has sent it. */
    bool (*has_taken)(coll_comm *comm, int peer, int channel, uint64_t frames);
} coll_memory_table;

/* Failure notices, and what ranks know of each other's waits. */
typedef struct coll_notice_table {
    /* Sends peers a failure notice: why the communicator has failed here. */
    void (*send_failure)(coll_comm *comm);
    /* Called before the communicator is destroyed, while nothing is under way. Fails it if a peer
     * has called something else. If two ranks disagree, at least one of them finds out, as far as
     * the transport knows what has arrived. */
    void (*finalize)(coll_comm *comm);
    /* Called now and then while this rank waits for op, or tests it. Looks for peers that have
     * failed or whose process has ended. */
    void (*watch)(coll_op *op);
    /* For error messages. show_waits tells peers which ranks this one has been waiting for, one bit
     * each; 0 when the wait is over. waits_of is what a peer has told last. */
    void (*show_waits)(coll_comm *comm, uint64_t waits);
    uint64_t (*waits_of)(const coll_comm *comm, int peer);
} coll_notice_table;

/* Of a transport over sockets. */
typedef struct coll_socket_table {
    /* Reads and writes the sockets without blocking. True if any bytes moved. */
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

    /* Posts the flag of op, with its payload. */
    void (*post)(coll_op *op, const void *payload, size_t payload_bytes);
    /* Whether op, the next in order, may be posted. False while a peer might still need what op's
     * flag would overwrite. */
    bool (*may_post)(const coll_op *op);
    /* Whether the bytes that this rank gives in op have left it, so that peers get them even if it
     * does not call the library for long. NULL: always. */
    bool (*has_given)(const coll_op *op);
    /* For error messages: whether op cannot go on without the peer. */
    bool (*awaits)(const coll_op *op, int peer);

    /* Room for a frame to a peer; NULL if there is no credit now. send_end sends the frame. */
    void *(*send_begin)(coll_comm *comm, int peer, int channel, size_t size_bytes);
    void (*send_end)(coll_comm *comm, int peer, int channel, size_t size_bytes);
    /* Sends the caller's own bytes, which may change afterwards: as many frames as there is credit
     * for, of chunk_bytes each but for the last. Returns how many bytes it took. NULL: the
     * transport has only send_begin and send_end. */
    size_t (*send_from)(coll_comm *comm, int peer, int channel, const void *data,
                        size_t size_bytes);
    /* Says that the next size_bytes of frames from a peer, none of which has arrived, belong to op
     * and have to go to target. The transport may write them there as they arrive; receive_begin
     * then returns that address. Until then, or until the communicator has failed, the bytes at
     * target belong to the transport. NULL: frames are always copied. */
    void (*receive_into)(coll_op *op, int peer, int channel, void *target, size_t size_bytes);
    /* The next frame from a peer, of exactly size_bytes; NULL if it has not arrived. receive_end
     * gives its room back. */
    const void *(*receive_begin)(coll_comm *comm, int peer, int channel, size_t size_bytes);
    void (*receive_end)(coll_comm *comm, int peer, int channel);
} coll_transport_table;

#endif
