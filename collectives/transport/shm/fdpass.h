/* Passes file descriptors between the ranks of one host, over AF_UNIX sockets with abstract,
 * autobound names.
 *
 * The kernel chooses an autobound name, so two jobs cannot collide. An abstract name is not a file,
 * so SIGKILL leaves nothing behind. Socket pairs would have to be inherited from a common parent,
 * but any program may start the ranks. Ranks learn each other's name and a random 128-bit nonce
 * through the caller's exchange. A process that connects has to know the nonce, which proves that
 * it belongs to the job, and to run under the same user (SO_PEERCRED). Any other is disconnected
 * without an answer. */
#ifndef COLL_SRC_FDPASS_H
#define COLL_SRC_FDPASS_H

#include "core/context.h"

/* Collective: calls the exchange once, then connects every pair of ranks. Fills context->socks.
 * `status`, with *reterr: of what this rank did before. If that is not COLL_OK, it only says so. */
COLL_MUST_CHECK coll_status coll_fdpass_open(coll_context *context,
                                             const coll_context_options *options,
                                             int64_t deadline_ns, coll_status status,
                                             coll_error *reterr);
void coll_fdpass_close(coll_context *context);

/* What goes along with a descriptor, or in place of one. */
typedef struct coll_fdpass_label {
    uint64_t tag; /* of the communicator: its id */
    uint64_t size_bytes;
    uint32_t arena;                      /* its number; 0: memory of a communicator itself */
    uint32_t rank_count;                 /* of that communicator; 0: it is not a communicator's */
    uint8_t ranks[COLL_RANKS_MAX];       /* of the context, in its order; for messages */
    char lack[COLL_ERROR_MESSAGE_BYTES]; /* why there is no descriptor; empty: there is one */
} coll_fdpass_label;

/* Sends fd to a rank of the context with its label, or why there is none (fd: -1); the caller keeps
 * fd.
 *
 * Linux refuses (ETOOMANYREFS) while more descriptors of a user are in transit than a process may
 * have open. So n ranks that pass descriptors to each other do so in rounds: each sends one, and
 * then receives one. No rank is more than one ahead, so at most n are in transit. */
COLL_MUST_CHECK coll_status coll_fdpass_send(coll_context *context, int rank, int fd,
                                             const coll_fdpass_label *label, coll_error *reterr);

/* What a rank has sent. */
typedef struct coll_fdpass_answer {
    bool has_come;
    bool is_gone;                        /* it has ended, or talks nonsense */
    int fd;                              /* the caller closes it; -1: none */
    char lack[COLL_ERROR_MESSAGE_BYTES]; /* why it has none; else empty */
} coll_fdpass_answer;

/* Takes the next descriptor from a rank, if it is here. It must carry this label, else
 * COLL_ERR_MISMATCH, with a message that names what both make. COLL_ERR_PEER: the rank is gone, or
 * has none and says why. One exception: descriptors of communicators that this rank has begun to
 * make before are closed and skipped (comm_make.c numbers them). Such a descriptor remains where a
 * creation failed: this rank gave it up, and the peer has sent its descriptor. */
COLL_MUST_CHECK coll_status coll_fdpass_take(coll_context *context, int rank,
                                             const coll_fdpass_label *label,
                                             coll_fdpass_answer *answer, coll_error *reterr);

/* The same, but waits for it until the deadline or an abort. The caller closes *fd. Nothing else of
 * the context is moved meanwhile: for the time when a context is made. */
COLL_MUST_CHECK coll_status coll_fdpass_receive(coll_context *context, int rank,
                                                const coll_fdpass_label *label, int64_t deadline_ns,
                                                int *fd, coll_error *reterr);

#endif
