/* A bootstrap inside: what admit.c, join.c and exchange.c share. Rank 0 has a link to each other rank,
 * and each other rank one to rank 0. */
#ifndef COLL_SRC_BOOTSTRAP_H
#define COLL_SRC_BOOTSTRAP_H

#include "base/limits.h"
#include "bootstrap/link.h"
#include "coll/bootstrap.h"
#include "ringfence/coll_error.h"

enum {
    COLL_BOOTSTRAP_SLICE_MS = 500, /* between two looks at hosts that may be silent */
    COLL_BOOTSTRAP_TEXT_BYTES = 160,
};

struct coll_bootstrap {
    int rank;
    int world_size;
    char host[BASE_HOSTNAME_BYTES]; /* as the caller has named rank 0's address */
    int port;
    bool has_secret;
    uint8_t link_key[COLL_JOB_KEY_BYTES];
    uint8_t job_key[COLL_JOB_KEY_BYTES];
    int64_t host_timeout_ns;
    coll_bootstrap_process process;
    coll_bootstrap_link *links[COLL_RANKS_MAX]; /* by rank; NULL: there is none */
    char address[COLL_ADDRESS_BYTES];           /* numeric, of rank 0; empty: not known */
    uint64_t exchanges;
    coll_error failed; /* the first failure, which stays; COLL_OK: none */
};

/* Rank 0: listens, and makes a link to each other rank. Blocks until the deadline at most. */
COLL_MUST_CHECK coll_status coll_bootstrap_admit(coll_bootstrap *bootstrap, int64_t deadline_ns,
                                                 coll_error *reterr);

/* The others: connect to rank 0, and wait until all have come. The same deadline. */
COLL_MUST_CHECK coll_status coll_bootstrap_join(coll_bootstrap *bootstrap, int64_t deadline_ns,
                                                coll_error *reterr);

/* The exchange, for coll_context_options. */
coll_status coll_bootstrap_exchange(void *user, const void *mine, void *all, size_t size_bytes,
                                    int64_t deadline_ns, coll_error *reterr);

/* Rank 0 tells a rank that it has failed, and why: the last frame. */
void coll_bootstrap_tell(const coll_bootstrap *bootstrap, coll_bootstrap_link *link,
                         const coll_error *error);

/* What rank 0's FAILED frame says. Returns its status; COLL_ERR_PEER where it says nothing. */
coll_status coll_bootstrap_told(coll_bootstrap_link *link, const coll_bootstrap_frame *frame,
                                coll_error *reterr);

/* This rank has failed: keeps the error, which every later exchange returns; rank 0 tells all. */
void coll_bootstrap_fail(coll_bootstrap *bootstrap, const coll_error *error);

/* "rank 2", "ranks 2, 5-7". */
void coll_bootstrap_list(uint64_t ranks, char *text, size_t size_bytes);

/* The numeric address of an end of a connection, IPv4 written as IPv4; "?" where the system does not
 * say. port may be NULL. */
void coll_bootstrap_end_text(int fd, bool peer, char address[COLL_ADDRESS_BYTES], int *port);

#endif
