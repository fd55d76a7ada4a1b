/* libcoll: collective operations between the ranks of a job, on CPU. docs/LIBCOLL.md begins with
 * whole programs. types.h has the kinds of operations, and what each reads and writes.
 *
 * A process makes one coll_context: it knows its rank, its peers and how to reach them. A coll_comm
 * is an ordered subset of a context's ranks. A coll_op describes one operation on one communicator;
 * it is made once and started as often as wanted. A coll_arena is memory made collectively, which
 * peers may read and write directly: operations whose buffers lie in an arena move no bytes twice.
 *
 * Determinism: every rank ends an all-reduce with the same bits. Operands are combined in an order
 * fixed by rank, never "mine + theirs". The canonical order is a balanced binary tree over the
 * ranks: neighbours pair up, level by level, and one left over waits for the next level:
 * (r0+r1)+(r2+r3) for 4, ((r0+r1)+(r2+r3))+r4 for 5. So 2^k operands that a rank has combined in
 * this order beforehand give the bits of one tree over all of them, for any number of ranks.
 * `direct`, `recursive_doubling` and `halving_doubling` have the canonical order for any number of
 * ranks, `two_level` has it where every host has the next 2^k ranks. `ring` and `tree` (the double
 * binary tree) have orders of their own, fixed too, which depend on the element's place in the
 * vector. `auto` chooses only among algorithms of the canonical order. docs/COLLECTIVES.md explains
 * them all.
 *
 * Values: min and max keep the left operand unless the right one is strictly less (greater), so a
 * NaN on the left stays, one on the right is passed over, and of -0 and +0 the left one stays. A
 * sum, product or average is IEEE 754's: with a NaN among its operands, or infinities that cancel,
 * it is a NaN (the same bits on every rank; of several NaNs it is not said whose), -0 + -0 is -0,
 * and -0 + +0 is +0. Sums and products of integers wrap. An average is the sum, divided once by the
 * number of ranks before it is spread; of integers it is the wrapped sum's, cut towards zero. And, or
 * and xor combine the bits of integers, with a sign or without; of floats they are COLL_ERR_INVALID.
 *
 * 16-bit floats: `direct` widens every operand, computes the whole tree in float32 (an average's
 * division too) and rounds once, to the nearest, ties to even. All other algorithms compute each
 * combination in float32 and round it: once per hop (`two_level`: once per level), and once more
 * for an average's division. min and max round nothing. `auto` uses only `direct` for 16-bit sums,
 * products and averages.
 *
 * Failure: a blocking call ends by its deadline at the latest, naming the ranks that it waited for.
 * A failure that another rank reported begins with that rank: "rank 0 (host h, pid 42) says: ...".
 * A mismatch of operation, count, type or root is an error on every rank that names both sides; of
 * the next call where the operation had ended before its peer was there, as a short broadcast does
 * for its root (coll_comm_finalize where no other call is to come). A communicator that has failed
 * is dead: every later call on it returns the first error; destroy it. A rank that gets no memory for
 * what it makes or starts fails its communicator, too: so its peers learn of it at once, with how much
 * that was. An argument that cannot be fails nothing: peers wait until the rank calls rightly.
 *
 * Statuses: a call that communicates may return COLL_ERR_TIMEOUT (its deadline passed),
 * COLL_ERR_PEER (a rank is gone, or sent what it must not), COLL_ERR_MISMATCH (ranks disagree),
 * COLL_ERR_ABORTED (coll_context_abort) and COLL_ERR_IO (the system refused). A call that makes
 * something may also return COLL_ERR_INVALID (an argument cannot be) and COLL_ERR_MEMORY. On a
 * communicator that has failed, calls return the status of the first failure. What else a function
 * may return stands beside it.
 *
 * Sizes: coll_context_options, coll_op_desc and coll_reduction begin with their size, which the
 * caller sets to sizeof of the struct; all that it does not set is 0. Later versions of libcoll add
 * members at the end, for which 0 means what was so before. So a program that was compiled with an
 * older header goes on working: what its struct lacks counts as 0. One that was compiled with a newer
 * header works as long as what this version does not know is 0, and gets COLL_ERR_UNSUPPORTED
 * otherwise. Any other size is COLL_ERR_INVALID.
 *
 * Threads: a context, and what was made from it, is used by one thread at a time.
 * coll_context_abort, coll_context_describe and coll_context_dump may be called from any thread, at
 * any time until the context is destroyed. A child that was forked must not use its parent's context:
 * calls that begin something return COLL_ERR_STATE there. It may destroy what was made from it, and then
 * the context. Nothing is sent, and the parent goes on. Over shm and tcp that closes the child's copies of
 * the parent's sockets, which it holds else until it executes a program or ends (docs/LIBCOLL.md).
 *
 * Arguments: a handle, `desc`, `options` and the place of what a call makes or says must not be NULL
 * where nothing else is said. All other arguments that cannot be are COLL_ERR_INVALID. reterr may be
 * NULL. Buffers may lie at any address; those with the alignment of their elements are faster. What a
 * call that fails should have made (*context, *comm, *arena, *op …) is left as it was: so initialize it
 * with NULL if it is destroyed in any case.
 *
 * Numbers in messages: "all_reduce #5" is the fifth operation of its communicator. The library's own
 * count as well: #1 makes the communicator, and each arena is one. Messages (send, receive) are
 * counted apart, from 1 between two ranks in each direction. "of communicator 2 of ranks 0-2 5" is
 * the second one that was made of this list of the context's ranks. Where none is named, it is the
 * world, which is the first of all ranks; their second is the library's own, where it has measured
 * the cost model (tune.h). */
#ifndef COLL_COLL_H
#define COLL_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/status.h"
#include "coll/types.h"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coll_context coll_context;
typedef struct coll_comm coll_comm;
typedef struct coll_arena coll_arena;
typedef struct coll_op coll_op;
typedef struct coll_request coll_request;
typedef struct coll_backend coll_backend; /* backend.h */

/* A collective all-gather of small byte strings, with which ranks find each other. bootstrap.h has one
 * for programs that have none of their own (MPI's, say). Puts size_bytes from every rank, in rank order, into all (world_size × size_bytes).
 * Called by coll_context_create only, a few times, in the same order on every rank, with at most
 * COLL_EXCHANGE_BYTES_MAX bytes. It should give up with COLL_ERR_TIMEOUT when CLOCK_MONOTONIC has
 * come to deadline_ns: a rank may have died before. May say why it fails in *reterr, where that is
 * not NULL. */
enum { COLL_EXCHANGE_BYTES_MAX = 4096 };
typedef coll_status (*coll_exchange)(void *user, const void *mine, void *all, size_t size_bytes,
                                     int64_t deadline_ns, coll_error *reterr);

typedef struct coll_context_options {
    size_t size; /* sizeof(coll_context_options) */
    int rank;
    int world_size; /* 1 to 64 */
    coll_exchange exchange;
    void *exchange_user;
    coll_transport transport;
    /* For operations that do not name one; the same on every rank. AUTO: the environment variable
     * RINGFENCE_COLL_ALGORITHM where it is set, else chosen for each operation (tune.h). */
    coll_algorithm algorithm;
    int64_t timeout_ns; /* per blocking call; 0: 5 minutes */
    /* Which address zmq and tcp listen on and send to their peers: an interface's name ("eth1"), a
     * numeric address, a network ("10.0.0.0/8"), or names to leave out ("^docker0,lo"). NULL: the
     * source address of the route to `rendezvous_address`, or 127.0.0.1 if that is NULL too. A rank
     * on another host never gets 127.0.0.1. */
    const char *interface;
    const char *rendezvous_address; /* numeric address of whoever relays `exchange` */
    coll_tcp_auth tcp_auth;
    /* 32 bytes that only the job's ranks know. tcp authenticates frames with it; zmq only compares it,
     * because it has keys of its own (curve_…_key); shm does not need it. NULL: agreed by exchange. */
    const uint8_t *job_key;
    /* Cached cost model, of rank 0: read if there, else written. NULL: the environment variable
     * RINGFENCE_COLL_TUNE_FILE where it is set, else measured each time. A file of something else,
     * or one that cannot be written, is an error only if this names it. */
    const char *tune_path;
    /* CURVE for the zmq transport, where tcp_auth is not OFF: key pair of this rank, 32 raw bytes
     * each. NULL: the transport makes a pair of its own and exchanges the public halves through
     * `exchange`. */
    const uint8_t *curve_public_key;
    const uint8_t *curve_secret_key;
    /* For operations on streams (backend.h): on all ranks, or none. NULL: there are none. The table
     * must stay as long as the context. backend_user is handed to it. */
    const coll_backend *backend;
    void *backend_user;
    /* tcp, zmq: a peer whose host has answered nothing for so long is lost, if a call waits then (over
     * zmq, one of the higher rank). A process that is stopped or busy is not: its kernel answers.
     * tcp tries for as long to connect to a host that cannot be reached. 0: 15 s. */
    int64_t host_timeout_ns;
    /* tcp, zmq: where a call that fails because a rank cannot be connected to notes that rank; else it
     * stays as it is. NULL: nowhere. */
    int *unreached;
} coll_context_options;

/* Collective over world_size ranks. Blocks until every rank has called it or the timeout has passed.
 * The options are used, and what they point to, by this call only. The caller owns *context.
 * COLL_ERR_UNSUPPORTED: the transport, or what it needs, cannot be had here. Also what `exchange`
 * returns. */
COLL_MUST_CHECK coll_status coll_context_create(const coll_context_options *options,
                                                coll_context **context, coll_error *reterr);
/* Frees it and its world. What else was made from it is destroyed before. Ranks need not call it
 * together: what this one has sent gets the time to leave it, the timeout at most (over zmq,
 * and after a failure, 10 s), and next to none if it is for a rank of a communicator that has failed,
 * unless one with that rank was made since. When a rank dies, the world fails, and so this is of all
 * ranks. NULL is fine. */
void coll_context_destroy(coll_context *context);

/* Makes this rank's running and later calls return COLL_ERR_ABORTED with `reason` (cut at 255
 * bytes). The first reason stays. Any thread, any time; does not block. */
void coll_context_abort(coll_context *context, const char *reason);

/* The transport in use, after AUTO was decided; AUTO itself where some ranks share a host and some
 * do not: shm inside each host, tcp between them. */
coll_transport coll_context_transport(const coll_context *context);

/* The algorithm of operations that name none. AUTO where it depends on the operation: not on one
 * host over shared memory, where AUTO is `direct`. */
coll_algorithm coll_context_algorithm(const coll_context *context);

/* The communicator of all ranks; owned by the context. */
coll_comm *coll_context_world(coll_context *context);

/* Whether a rank of the context is known to have gone: its process has ended, it has destroyed its
 * context, its host has not answered for host_timeout_ns, or a peer whose communicator failed has said
 * so. It does not come back. Looks at what has come, and does not block. Ranks learn of a death in turn:
 * within moments, but not at once. One that is stopped, or late, has not gone. False of this rank, and of
 * a number that is no rank. */
bool coll_context_rank_gone(coll_context *context, int rank);

/* Makes a communicator of the ranks listed, which all call this with the same list: numbers of the
 * context, this rank's among them, in any order. The place in the list is the rank in the new
 * communicator. The caller destroys it before the context. Dozens are meant; idle ones cost other
 * calls no time, and each some memory (docs/COLLECTIVES.md, "What a communicator costs"). Where it fails on one rank, the call that
 * belongs to it fails on the others, or what it made does with the next call; after that the same
 * list can be tried again. COLL_ERR_LIMIT: 2^31 - 1 were made of this very list, those that failed
 * included.
 *
 * It needs no other communicator to work. So ranks that have lost one can go on without it: those
 * that are left list themselves (shrink), and destroy the communicator that has failed.
 * coll_context_rank_gone says who is not left. Where one rank knows of a death that another has yet to
 * learn of, their lists differ, and both calls fail: so try again a moment later, with a new list
 * (docs/COLLECTIVES.md, "Shrink"). */
COLL_MUST_CHECK coll_status coll_comm_create(coll_context *context, const int *ranks, int count,
                                             coll_comm **comm, coll_error *reterr);
/* Reports nothing: see coll_comm_finalize. What was made from it is destroyed before. An operation or
 * request that is left all the same may be destroyed afterwards; starting, testing and waiting give
 * COLL_ERR_STATE, and where it was under way, peers learn of it as from coll_op_destroy. NULL is
 * fine. */
void coll_comm_destroy(coll_comm *comm);

/* The last call before a communicator is destroyed (the world: with its context), for programs that
 * may end with an operation which waits for nobody. Reports a mismatch that no other call is left
 * to report, as a message that is here and that nobody has received; else the communicator's first
 * failure. Local: it waits for no peer's call, only until
 * what this rank has sent has arrived (the timeout at most), as coll_context_destroy does. If two
 * ranks disagree and both finalize, at least one gets the error, and the other gets it if it
 * finalizes after that. zmq does not say what has arrived: there the error comes only if the peer's
 * flag or notice is here. COLL_ERR_STATE, and nothing has changed, while an operation is under
 * way. */
COLL_MUST_CHECK coll_status coll_comm_finalize(coll_comm *comm, coll_error *reterr);

/* Collective over comm: the ranks that pass one colour make a communicator, ordered by key, then by
 * rank in comm. A negative colour takes part and gets NULL. */
COLL_MUST_CHECK coll_status coll_comm_split(coll_comm *comm, int colour, int key, coll_comm **split,
                                            coll_error *reterr);

/* This rank's number in comm, from 0, and how many ranks comm has. */
int coll_comm_rank(const coll_comm *comm);
int coll_comm_size(const coll_comm *comm);

/* The context that comm was made in, and its ranks' numbers there: rank r of comm is ranks[r]. The list
 * has coll_comm_size elements, and is there as long as comm. */
coll_context *coll_comm_context(const coll_comm *comm);
const int *coll_comm_ranks(const coll_comm *comm);

/* COLL_OK as long as comm works; else the status of its first failure, or of an abort, with its
 * message: comm is dead then. An error that a call returned has not killed it if this says COLL_OK.
 * Local. */
COLL_MUST_CHECK coll_status coll_comm_status(coll_comm *comm, coll_error *reterr);

/* Collective: the same size_bytes on every rank of comm. Zero-filled, aligned to 4096 bytes. On a
 * transport without shared memory it is ordinary private memory, and every operation still works.
 * Owned by the caller, destroyed before the communicator. After a failed operation a recv buffer in
 * it is undefined, and peers that come to that operation late may still write there, until the arena
 * is destroyed. A send buffer may be used again at once: a peer that reads it afterwards fails.
 * COLL_ERR_LIMIT: too long for any rank, too many arenas of comm are alive (64), or it has made
 * 2^31 - 1; nothing is exchanged then, and comm goes on. Where a rank's system refuses the memory, comm fails. */
COLL_MUST_CHECK coll_status coll_arena_create(coll_comm *comm, size_t size_bytes,
                                              coll_arena **arena, coll_error *reterr);
/* Local. No operation on its memory may be under way. NULL is fine. */
void coll_arena_destroy(coll_arena *arena);

/* Its memory, at one address as long as it lives, and how many bytes that is. */
void *coll_arena_data(coll_arena *arena);
size_t coll_arena_size_bytes(const coll_arena *arena);

/* Gives the whole pages of 4096 bytes inside [offset_bytes, offset_bytes + size_bytes) back to the
 * system. What they hold afterwards is undefined until it is written again, at the same address.
 * Local; no rank's operation on these bytes may be under way. The range lies inside the arena. */
void coll_arena_discard(coll_arena *arena, size_t offset_bytes, size_t size_bytes);

/* A reduction of the program's own, for all kinds that combine (MPI_Op_create). It is associative,
 * and need not be commutative: where an algorithm mixes the ranks' order (`ring` and `tree` but in
 * scans, `two_level` without the canonical order), what AUTO chooses runs instead. It is the same on
 * every rank: name and element_bytes are compared as type and reduce are. */
enum { COLL_ELEMENT_BYTES_MAX = 4096, COLL_REDUCTION_NAME_BYTES = 16 /* with its NUL */ };
typedef struct coll_reduction {
    size_t size;          /* sizeof(coll_reduction) */
    const char *name;     /* for messages: 1 to 15 letters, digits, '_', '-' and '.' */
    size_t element_bytes; /* 1 to COLL_ELEMENT_BYTES_MAX; `count` is in such elements */
    /* left[i] = left[i] · right[i] for `count` elements, one or more: some piece of the vector,
     * whose place there it does not learn. left is the operand of the lower ranks. The result must
     * depend on nothing but the two operands and what `user` holds, to the bit: ranks may each compute
     * it. left and right do not overlap; both are aligned to the largest power of two that divides
     * element_bytes, up to 16, wherever the callers' buffers lie. Elements are copied between
     * processes, so a pointer in one means nothing elsewhere.
     *
     * It runs in the thread that uses the context, in any call that moves operations on, any number of
     * times, and for other ranks too, on their operands, with this rank's `user`. It returns, and calls
     * nothing of the same context. What cannot be combined it says inside the element, as a NaN does. */
    void (*combine)(void *left, const void *right, size_t count, void *user);
    void *user;
    /* element_bytes that leave every element as it is, on all ranks alike: what an exclusive scan gives
     * rank 0. Only that needs it; else it may be NULL. Must stay valid as buffers must. */
    const void *neutral;
} coll_reduction;

typedef struct coll_op_desc {
    size_t size; /* sizeof(coll_op_desc) */
    coll_kind kind;
    const void *send; /* == recv: in place */
    void *recv;
    size_t count; /* elements; see coll_kind */
    /* The variable forms of all-gather, reduce-scatter, gather and scatter: elements of each rank
     * (size of the communicator many), the same on all ranks. Of an all-to-all: what this rank sends
     * to each, and recv_counts below is what it receives from each. What one rank sends to another
     * must be what that one receives from it; other counts may differ as they like. Read by
     * coll_op_create only; may be 0; blocks lie one after the other. NULL: `count` each. */
    const size_t *counts;
    coll_type type;
    coll_reduce_op reduce; /* all-reduce, reduce, reduce-scatter, scans */
    int root;              /* rank in the communicator; send and receive: the other side */
    coll_algorithm algorithm;
    void *stream; /* of the context's backend (backend.h); NULL on CPU */
    /* An all-to-all with counts only. In place, they are equal to counts. */
    const size_t *recv_counts;
    /* In place of type and reduce, which are 0 then. On CPU only. Read by coll_op_create only. */
    const coll_reduction *reduction;
} coll_op_desc;

/* Checks the descriptor and makes an operation that can be started again and again. Local. Buffers
 * must stay valid until the operation is destroyed. The caller owns *op. COLL_ERR_UNSUPPORTED: a
 * member of desc that this version does not know.
 *
 * With a stream it is collective, and communicates: backend.h. COLL_ERR_UNSUPPORTED then also means
 * that the context has no backend, or that the backend does not have this operation. */
COLL_MUST_CHECK coll_status coll_op_create(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                                           coll_error *reterr);

/* The algorithm that it runs, after AUTO was decided for its kind and size. */
coll_algorithm coll_op_algorithm(const coll_op *op);

/* If it is under way, its communicator fails with COLL_ERR_STATE. NULL is fine. */
void coll_op_destroy(coll_op *op);

/* Starts the operation and returns at once; the send buffer must not change, nor recv be touched,
 * until it is done. Any number may be started; they begin in order, and every rank starts those of
 * one communicator in the same order (send and receive: those between the same two ranks and in
 * the same direction). Progress is made inside start, test and wait of any operation of the
 * context, and in coll_context_progress: nothing moves behind the caller's back. COLL_ERR_STATE: neither
 * wait nor test has said that its last start is done (on a stream that need not be: what is started twice
 * runs twice, in order). */
COLL_MUST_CHECK coll_status coll_op_start(coll_op *op, coll_error *reterr);

/* Moves everything started in the context on without blocking, then says whether this one is done.
 * Every eighth test that finds its own not done looks for the failure or death of a peer that anything
 * under way waits for, at most once in some milliseconds. COLL_ERR_TIMEOUT: from such a look on, for
 * the context's timeout, tests found this one not done, and nothing moving; not of operations on
 * streams. COLL_ERR_STATE: it has not been started. */
COLL_MUST_CHECK coll_status coll_op_test(coll_op *op, bool *done, coll_error *reterr);

/* Waits until done; the context's timeout counts from here. COLL_ERR_STATE: it has not been
 * started. */
COLL_MUST_CHECK coll_status coll_op_wait(coll_op *op, coll_error *reterr);

/* Moves everything started in the context on without blocking, and looks for failures as tests do.
 * Where a communicator has failed with operations under way, and no call has said so yet, it returns
 * that failure, once. It has no timeout. */
COLL_MUST_CHECK coll_status coll_context_progress(coll_context *context, coll_error *reterr);

/* One-shot operations: made and started at once. The request is released, and *request set to NULL,
 * by the test that finds it done or by wait, also when they fail. Until then buffers must stay
 * valid. A NULL request is done; its address must not be NULL. Statuses as of coll_op_create, start,
 * test and wait. */
COLL_MUST_CHECK coll_status coll_start(coll_comm *comm, const coll_op_desc *desc,
                                       coll_request **request, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_request_test(coll_request **request, bool *done,
                                              coll_error *reterr);
COLL_MUST_CHECK coll_status coll_request_wait(coll_request **request, coll_error *reterr);
/* Waits for all `count` requests, NULLs left out, with one timeout for the call; the first failure
 * is reported, and all are released. */
COLL_MUST_CHECK coll_status coll_request_wait_all(coll_request **requests, size_t count,
                                                  coll_error *reterr);

/* Waits for the first of `count` requests of one context to be done, NULLs left out, and releases that
 * one. *index: its place, also if it has failed; count: all are NULL. The timeout counts from here; the
 * request that is named then fails. COLL_ERR_UNSUPPORTED, and nothing has changed: one is on a
 * stream. */
COLL_MUST_CHECK coll_status coll_request_wait_any(coll_request **requests, size_t count,
                                                  size_t *index, coll_error *reterr);

/* Does one operation and returns when it is done: coll_start and coll_request_wait, without a
 * request. */
COLL_MUST_CHECK coll_status coll_run(coll_comm *comm, const coll_op_desc *desc, coll_error *reterr);

/* Blocking forms of all kinds; algorithm as in the context. Buffers, and what `count` elements are
 * counted in, are as with the kind of the same name (coll_kind): all_gather's recv has count elements
 * of each rank. `root` and `peer` are ranks of comm. broadcast works in place. Statuses as of
 * coll_op_create and coll_op_wait. */
COLL_MUST_CHECK coll_status coll_all_reduce(coll_comm *comm, const void *send, void *recv,
                                            size_t count, coll_type type, coll_reduce_op reduce,
                                            coll_error *reterr);
COLL_MUST_CHECK coll_status coll_reduce(coll_comm *comm, const void *send, void *recv, size_t count,
                                        coll_type type, coll_reduce_op reduce, int root,
                                        coll_error *reterr);
COLL_MUST_CHECK coll_status coll_broadcast(coll_comm *comm, void *data, size_t count,
                                           coll_type type, int root, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_all_gather(coll_comm *comm, const void *send, void *recv,
                                            size_t count, coll_type type, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_gather(coll_comm *comm, const void *send, void *recv, size_t count,
                                        coll_type type, int root, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_scatter(coll_comm *comm, const void *send, void *recv,
                                         size_t count, coll_type type, int root,
                                         coll_error *reterr);
COLL_MUST_CHECK coll_status coll_reduce_scatter(coll_comm *comm, const void *send, void *recv,
                                                size_t count, coll_type type, coll_reduce_op reduce,
                                                coll_error *reterr);
COLL_MUST_CHECK coll_status coll_all_to_all(coll_comm *comm, const void *send, void *recv,
                                            size_t count, coll_type type, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_scan(coll_comm *comm, const void *send, void *recv, size_t count,
                                      coll_type type, coll_reduce_op reduce, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_exscan(coll_comm *comm, const void *send, void *recv, size_t count,
                                        coll_type type, coll_reduce_op reduce, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_barrier(coll_comm *comm, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_send(coll_comm *comm, const void *data, size_t count,
                                      coll_type type, int peer, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_receive(coll_comm *comm, void *data, size_t count, coll_type type,
                                         int peer, coll_error *reterr);

/* With a count for each rank, which is not NULL: see coll_op_desc. */
COLL_MUST_CHECK coll_status coll_all_gather_v(coll_comm *comm, const void *send, void *recv,
                                              const size_t *counts, coll_type type,
                                              coll_error *reterr);
COLL_MUST_CHECK coll_status coll_gather_v(coll_comm *comm, const void *send, void *recv,
                                          const size_t *counts, coll_type type, int root,
                                          coll_error *reterr);
COLL_MUST_CHECK coll_status coll_scatter_v(coll_comm *comm, const void *send, void *recv,
                                           const size_t *counts, coll_type type, int root,
                                           coll_error *reterr);
COLL_MUST_CHECK coll_status coll_reduce_scatter_v(coll_comm *comm, const void *send, void *recv,
                                                  const size_t *counts, coll_type type,
                                                  coll_reduce_op reduce, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_all_to_all_v(coll_comm *comm, const void *send,
                                              const size_t *send_counts, void *recv,
                                              const size_t *recv_counts, coll_type type,
                                              coll_error *reterr);

/* Bytes of operands and results that this rank has sent since the context was made: over the wire,
 * or through memory that it shares with a peer, whichever of the two copies or reads them there. */
uint64_t coll_context_bytes_sent(const coll_context *context);

/* Operations of this kind that this rank has started on comm since comm was made, whether they have
 * ended or not, by whatever path they go. What the library itself does to make communicators and
 * arenas is not among them. */
uint64_t coll_comm_operations(const coll_comm *comm, coll_kind kind);

/* Bytes of these operations' vectors, added up: count × size of the type, and in the kinds with a
 * part per rank all ranks' parts; of an all-to-all what this rank sends, to itself included. What of
 * them went over links depends on the algorithm. */
uint64_t coll_comm_operation_bytes(const coll_comm *comm, coll_kind kind);

/* What this rank is in the middle of, for failure reports: "all_reduce #17 float × 1024, waiting
 * for rank 1 (host h, pid 42)"; empty when idle. May be called from any thread. */
void coll_context_describe(const coll_context *context, char *text, size_t size_bytes);

/* The flight recorder: writes the pending operations and the last 256 completed ones of this rank
 * as one JSON object (docs/COLLECTIVES.md) to a descriptor. `reason` may be NULL. Any thread. */
COLL_MUST_CHECK coll_status coll_context_dump(coll_context *context, int fd, const char *reason,
                                              coll_error *reterr);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
