/* A bootstrap inside: what admit.c, join.c and exchange.c share. Rank 0 has a link to each other rank,
 * and each other rank one to rank 0. */
#ifndef COLL_SRC_BOOTSTRAP_H
#define COLL_SRC_BOOTSTRAP_H

#include "base/limits.h"
#include "bootstrap/link.h"
#include "coll/bootstrap.h"
#include "ringfence/coll_error.h"

struct coll_bootstrap {
    int rank;
    int world_size;
    char host[BASE_HOSTNAME_BYTES]; /* as the caller has named rank 0's address */
    int port;
    bool has_secret;
    uint8_t link_key[COLL_JOB_KEY_BYTES];
    uint8_t job_key[COLL_JOB_KEY_BYTES];
    /* A bit for each rank that has not come, or not to this exchange. Bit 0, on other ranks than that: it
     * has not said who. */
    uint64_t missing;
    uint64_t told;     /* rank 0: what it has told the others of that */
    char refused[256]; /* whom it was that rank 0 has refused last; empty: nobody */
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

/* Waits until something comes, for a while at most: on the caller's `count` items, which have room for
 * COLL_RANKS_MAX more, and on the links, which are marked as ready then; where it only sends, it waits for
 * room to send. What links have to send goes on. If nothing has come, rank 0 tells those who wait for whom. */
struct pollfd;
coll_status coll_bootstrap_wait(coll_bootstrap *bootstrap, struct pollfd *items, size_t count,
                                bool only_sends, int64_t deadline_ns, coll_error *reterr);

/* Takes what has come on a link, if it is whole. *came: it is one of this exchange's bytes, in `frame`. What
 * rank 0 notes is kept; its failure is returned. */
coll_status coll_bootstrap_take(coll_bootstrap *bootstrap, coll_bootstrap_link *link,
                                coll_bootstrap_frame *frame, bool *came, coll_error *reterr);

/* Not rank 0: waits for the bytes of this exchange; frame NULL: until all ranks have come. */
coll_status coll_bootstrap_hear(coll_bootstrap *bootstrap, coll_bootstrap_frame *frame,
                                int64_t deadline_ns, coll_error *reterr);

/* Rank 0 tells those that have come who has not. */
coll_status coll_bootstrap_tell_missing(coll_bootstrap *bootstrap, coll_error *reterr);

/* Tells a rank that this one has failed, and why: the last frame. */
void coll_bootstrap_tell(const coll_bootstrap *bootstrap, coll_bootstrap_link *link,
                         const coll_error *error);

/* The failure that a rank has noted: "rank 1 (host h, pid 42) says: ...". */
coll_status coll_bootstrap_pass_on(const coll_bootstrap_link *link, const coll_bootstrap_note *note,
                                   coll_error *reterr);

/* COLL_ERR_PEER: "rank 1 (host h, pid 42) has ended in exchange 1 before rank 2 had come to it", with `what` for
 * "has ended". */
coll_status coll_bootstrap_blame(const coll_bootstrap *bootstrap, const coll_bootstrap_link *link,
                                 const char *what, coll_error *reterr);

/* This rank has failed: keeps the error, which every later exchange returns; rank 0 tells all, and
 * another rank tells rank 0 of a lack of memory. */
void coll_bootstrap_fail(coll_bootstrap *bootstrap, const coll_error *error);

/* All but rank 0, a bit each. */
static inline uint64_t coll_bootstrap_others(const coll_bootstrap *bootstrap)
{
    return UINT64_MAX >> (COLL_RANKS_MAX - bootstrap->world_size) & ~UINT64_C(1);
}

/* "rank 2", "ranks 2, 5-7". */
void coll_bootstrap_list(uint64_t ranks, char *text, size_t size_bytes);

/* The numeric address of an end of a connection, IPv4 written as IPv4; "?" where the system does not
 * say. */
void coll_bootstrap_end_text(int fd, bool peer, char address[COLL_ADDRESS_BYTES]);

#endif
