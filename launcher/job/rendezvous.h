/* What the files that handle the ranks' messages share. */
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

/* Blames the rank if the message does not reach it and it has not exited. */
void rendezvous_send(launch_session *session, int rank, ProtobufCMessage *body);

/* A rank has joined; when the last one has, the roster is sent to all. */
void rendezvous_handle_join(launch_session *session, int rank,
                            const Ringfence__Control__Join *join);

/* A rank is ready to train. After the last one, the ranks' reports are compared. */
void rendezvous_handle_ready(launch_session *session, int rank,
                             const Ringfence__Control__Ready *ready);

/* Takes one rank's part. The last part completes the exchange. */
void rendezvous_handle_exchange(launch_session *session, int rank,
                                const Ringfence__Control__Exchange *exchange);

/* A rank has finished: takes what it reports, and lets it go. */
void rendezvous_handle_finished(launch_session *session, int rank,
                                const Ringfence__Control__Finished *finished);

/* " (exchange #3 waits for rank 1, 2)" during an exchange; else "". */
void rendezvous_describe_exchange(const launch_session *session, char *text, size_t size_bytes);

#endif
