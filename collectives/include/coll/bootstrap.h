/* An all-gather for programs that have none of their own: neither MPI nor a launcher of ours.
 *
 * Rank 0 listens at an address and a port, and the others connect to it: only that port must be
 * reachable for this. A rank that comes before rank 0 tries again until the deadline. What the
 * exchange carries is not data: the ranks connect to each other as in any other program, and
 * RINGFENCE_COLL_PORTS says at which ports.
 *
 *     coll_bootstrap_options place = {.size = sizeof place};
 *     coll_context_options options = {.size = sizeof options};
 *     status = coll_bootstrap_environment(&place, &error);   // and so on, while it is COLL_OK:
 *     status = coll_bootstrap_open(&place, &bootstrap, &error);
 *     coll_bootstrap_apply(bootstrap, &options);
 *     status = coll_context_create(&options, &context, &error);
 *     coll_bootstrap_close(bootstrap);
 *
 * Secret: with one, only processes that know it take part; all that is exchanged is encrypted and
 * authenticated, and so is what ranks send each other later, as far as tcp_auth says. WITHOUT ONE,
 * whoever reaches rank 0's port can take a rank's place or end the job, and whoever sees the traffic
 * can learn the keys of tcp: use it on one host, or in a network that you trust. Bytes that are not of
 * this protocol harm nothing in either case.
 *
 * Failures name ranks: those that have not come, two that take themselves for one, one whose world
 * size differs, one that has ended. All that have joined fail then, at once, with one message.
 *
 * One thread at a time. */
#ifndef COLL_BOOTSTRAP_H
#define COLL_BOOTSTRAP_H

#include "coll/coll.h"

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coll_bootstrap coll_bootstrap;

enum { COLL_BOOTSTRAP_PORT = 29500 }; /* where nothing else is said, as torchrun's */

typedef struct coll_bootstrap_options {
    size_t size; /* sizeof(coll_bootstrap_options) */
    int rank;
    int world_size; /* 1 to 64. One rank alone needs neither address nor port */
    /* Rank 0's: a host's name, or a numeric address (IPv4 or IPv6). Rank 0 listens at a numeric
     * address and at "localhost", which is 127.0.0.1; for any other name at all its addresses,
     * because its own name may be another address on its host than elsewhere. The other ranks try
     * each address of a name. */
    const char *address;
    int port; /* 1 to 65535; 0: COLL_BOOTSTRAP_PORT */
    /* The same bytes on every rank, at best 32 random ones: a word can be guessed from what the
     * network carries. NULL, or 0 bytes: there is none. Not kept. */
    const void *secret;
    size_t secret_bytes;
    int64_t timeout_ns; /* until all have come; 0: 5 minutes */
} coll_bootstrap_options;

/* Fills all but `size` and timeout_ns from the environment; strings point into it.
 *
 *     RANK WORLD_SIZE            where they are not set, those of Slurm (SLURM_PROCID), Open MPI
 *                                (OMPI_COMM_WORLD_RANK) or PMI (PMI_RANK)
 *     MASTER_ADDR MASTER_PORT    port: 29500 where it is not set. Where torchrun's own store listens
 *                                there (TORCHELASTIC_USE_AGENT_STORE), the next one
 *     RINGFENCE_COLL_SECRET      any text
 *
 * Our launcher and torchrun set the first four. COLL_ERR_INVALID names what is missing or wrong. */
COLL_MUST_CHECK coll_status coll_bootstrap_environment(coll_bootstrap_options *options,
                                                       coll_error *reterr);

/* Collective: blocks until all ranks have come, or the timeout has passed (COLL_ERR_TIMEOUT, with
 * those that have not). COLL_ERR_MISMATCH: ranks disagree on the world size, or two have one number.
 * COLL_ERR_AUTH: rank 0 has another secret. COLL_ERR_PEER: a rank has ended, or what listens at the
 * address is no rank 0. COLL_ERR_IO: rank 0 cannot listen there. The caller owns *bootstrap. */
COLL_MUST_CHECK coll_status coll_bootstrap_open(const coll_bootstrap_options *options,
                                                coll_bootstrap **bootstrap, coll_error *reterr);

/* Sets what the bootstrap knows: rank, world_size, exchange, exchange_user, rendezvous_address, and
 * with a secret job_key, which is derived from it. Other members stay. It holds until the close. */
void coll_bootstrap_apply(coll_bootstrap *bootstrap, coll_context_options *options);

/* After coll_context_create nothing needs it any more. A rank that closes it earlier has ended, for
 * the others. NULL is fine. */
void coll_bootstrap_close(coll_bootstrap *bootstrap);

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
