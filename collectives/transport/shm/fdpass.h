/* Descriptors from rank to rank on one host, over AF_UNIX sockets with abstract autobound names.
 *
 * Why not socket pairs inherited from the launcher: ranks may be started by anything. Why abstract
 * and autobound: the kernel picks a free name, so two jobs cannot collide; it is no file, so a
 * SIGKILL leaves nothing behind. The name and a random 128-bit nonce go through the caller's
 * exchange. A process that connects must know the nonce (so belongs to the job) and run under this
 * process's user (SO_PEERCRED); anybody else is closed without an answer. */
#ifndef COLL_SRC_FDPASS_H
#define COLL_SRC_FDPASS_H

#include "core/context.h"

/* Collective: calls the exchange once, then connects every pair of ranks. Fills context->socks. */
COLL_MUST_CHECK coll_status coll_fdpass_open(coll_context *context,
                                             const coll_context_options *options,
                                             int64_t deadline_ns, coll_error *reterr);
void coll_fdpass_close(coll_context *context);

/* What goes along with a descriptor. */
typedef struct coll_fdpass_label {
    uint64_t tag;
    uint64_t size_bytes;
} coll_fdpass_label;

/* Sends fd to a rank of the context with its label; the caller keeps fd. */
COLL_MUST_CHECK coll_status coll_fdpass_send(coll_context *context, int rank, int fd,
                                             const coll_fdpass_label *label, coll_error *reterr);

/* The next descriptor from a rank, which must carry this label (else COLL_ERR_MISMATCH), after
 * those of the same list of ranks that have a lower number (comm_make.c), which are closed. The
 * caller closes *fd. Blocks until the deadline or an abort. */
COLL_MUST_CHECK coll_status coll_fdpass_receive(coll_context *context, int rank,
                                                const coll_fdpass_label *label, int64_t deadline_ns,
                                                int *fd, coll_error *reterr);

#endif
