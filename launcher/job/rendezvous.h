/* Between rendezvous.c and exchange.c. */
#ifndef LAUNCH_RENDEZVOUS_H
#define LAUNCH_RENDEZVOUS_H

#include <control.pb-c.h>

#include "base/exitcode.h"
#include "job/session.h"

typedef Ringfence__Control__Envelope envelope_type;

/* A rank that breaks the protocol ends the job. */
#define BLAME_PROTOCOL(session, rank, format, ...)                                                 \
    launch_blame(session, LAUNCH_BLAME_CAUSE, rank, BASE_EXIT_ERROR, "rank %d (pid %d): " format,  \
                 rank, launch_rank_pid(&(session)->ranks[rank]), __VA_ARGS__)

/* A rank that cannot be reached, and has not exited, is blamed. */
void rendezvous_send(launch_session *session, int rank, envelope_type *envelope);

/* One rank's part; the last one's is what the others waited for. */
void rendezvous_hear_exchange(launch_session *session, int rank,
                              const Ringfence__Control__Exchange *exchange);

/* " (exchange #3 waits for rank 1, 2)" while one is under way; else "". */
void rendezvous_describe_exchange(const launch_session *session, char *text, size_t size_bytes);

#endif
