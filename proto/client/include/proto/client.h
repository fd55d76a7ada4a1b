/* The rank's end of the control plane: joins the job, exchanges, reports, and hears the launcher.
 *
 * A control thread owns the socket; the rank's own thread talks to it through a queue and never
 * blocks on the launcher except in join, exchange and finish. What the launcher says at any time
 * (abort, stop, its end) is heard by that thread: on abort it calls on_abort (from the control
 * thread), waits abort_grace_ms for the rank to leave by itself, and then ends the process. If the
 * launcher is gone (lifeline closed) the process ends.
 *
 * Functions here are called by one thread of the rank. */
#ifndef PROTO_CLIENT_H
#define PROTO_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/job.h"
#include "proto/key.h"

typedef struct proto_client proto_client;

/* What the process inherited: the job's own bytes and its keys.
 * Secrets stay inside proto_client. */
typedef struct proto_identity {
    int rank;
    int world_size;
    int local_rank;
    int local_world_size;
    proto_job job;
    uint8_t
        launcher_public_key[PROTO_KEY_BYTES]; /* the job's: who listens has proved it once joined */
    uint8_t collectives_key[PROTO_KEY_BYTES]; /* for ranks to prove that they belong to the job */
    char launcher_address[PROTO_ENDPOINT_BYTES]; /* numeric, without the port */
} proto_identity;

typedef void (*proto_on_abort)(void *user, const char *reason);

/* Writes the flight record of this rank's collectives to fd, as JSON. Called by either thread. */
typedef void (*proto_on_dump)(void *user, int fd, const char *reason);

/* Reads the inherited descriptors and environment. A rank started by hand gets BASE_ERR_AUTH with a
 * message that says what to run. */
BASE_MUST_CHECK base_status proto_client_open(proto_identity *identity, proto_client **client,
                                              base_error *reterr);

/* JOB.json's own bytes, as inherited; they live as long as the client. */
const void *proto_client_job_bytes(const proto_client *client, size_t *size_bytes);

/* Connects, joins, waits for the roster. */
BASE_MUST_CHECK base_status proto_client_join(proto_client *client, base_error *reterr);

/* Sets or (NULL) takes away what an abort calls. After it returns the old one is not running and
 * will not be called. on_abort must not block or call this client. */
void proto_client_on_abort(proto_client *client, proto_on_abort on_abort, void *user);

/* The same for what writes the flight record: it goes to the launcher when this rank fails, when
 * the job is aborted (whatever the rank's own thread is doing), and when the launcher asks. */
void proto_client_on_dump(proto_client *client, proto_on_dump on_dump, void *user);

/* A coll_exchange over the launcher; user is the proto_client. */
base_status proto_client_exchange(void *user, const void *mine, void *all, size_t size_bytes,
                                  int64_t deadline_ns, base_error *reterr);

/* The launcher has asked to stop after the current step. */
bool proto_client_stop_requested(const proto_client *client);

/* "host h, pid 42" of another rank, from the roster; static storage of the client. */
const char *proto_client_peer_name(const proto_client *client, int rank);

/* Reports, queued; the messages are ringfence__control__* as generated from control.proto, packed
 * by the callee. They are copied. */
struct Ringfence__Control__Ready;
struct Ringfence__Control__Step;
struct Ringfence__Control__Output;
struct Ringfence__Control__Loaded;
struct Ringfence__Control__Piece;
struct Ringfence__Control__Failed;
struct Ringfence__Control__Finished;
void proto_client_ready(proto_client *client, const struct Ringfence__Control__Ready *ready);
void proto_client_step(proto_client *client, const struct Ringfence__Control__Step *step);
void proto_client_output(proto_client *client, const struct Ringfence__Control__Output *output);
void proto_client_loaded(proto_client *client, const struct Ringfence__Control__Loaded *loaded);
void proto_client_piece(proto_client *client, const struct Ringfence__Control__Piece *piece);
void proto_client_failed(proto_client *client, const struct Ringfence__Control__Failed *failed);

/* Sends the last message and waits (bounded) for the launcher's Goodbye. */
BASE_MUST_CHECK base_status proto_client_finish(proto_client *client,
                                                const struct Ringfence__Control__Finished *finished,
                                                base_error *reterr);

/* Sends what is queued (bounded), ends the thread, wipes the keys. NULL is fine. */
void proto_client_close(proto_client *client);

#endif
