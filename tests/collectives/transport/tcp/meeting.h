/* Ranks as threads that meet over tcp, and a test between a rank and what it receives of the others:
 * it may change addresses, and have strangers connect. */
#ifndef TEST_TCP_MEETING_H
#define TEST_TCP_MEETING_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#include "ranks.h"
#include "transport/tcp/record.h"

enum { MEETING_STRANGERS = 2 * COLL_RANKS_MAX }; /* as many as are kept */

/* What comes between a rank and what it receives of the others. */
typedef struct meeting {
    coll_context_options options; /* the rank's own */
    const void *user;
    coll_status (*meddle)(struct meeting *g, coll_tcp_record *all, coll_error *reterr);
    int strangers[MEETING_STRANGERS];
} meeting;

/* Creates the rank's context, and closes what strangers are left. */
coll_status meeting_create(test_rank *rank, meeting *g);

/* The rank's context adds up, and is destroyed. */
void meeting_check(test_rank *rank);

/* The ranks run the body; 0: with the usual timeout. */
void meeting_run_for(int64_t timeout_ns, int size, test_rank_body body, void *user);
void meeting_run(int size, test_rank_body body, void *user);

/* The opening of a rank 1 with the job's key. */
void meeting_opening(const coll_context_options *options, const coll_tcp_record *all,
                     uint8_t opening[COLL_OPENING_BYTES]);

/* A socket; -1: it cannot connect. */
int meeting_connected_to(const struct sockaddr_in *to);

/* The bytes that come until the end; SIZE_MAX: that does not come in 5 s. */
size_t meeting_receive(int sock, uint8_t *bytes, size_t size);

#endif
