/* The rank's end of the control plane: joins the job, exchanges, reports, and receives the
 * launcher's messages.
 *
 * A control thread owns the socket. The rank's own thread passes it messages through a queue, and
 * blocks on the launcher only in join, exchange and finish. The control thread receives what the
 * launcher sends at any time: abort, stop, the end of the launcher. On abort it calls on_abort,
 * waits abort_grace_ms for the rank to exit by itself, and then ends the process. If the launcher
 * has died (the lifeline is closed), it ends the process.
 *
 * One thread of the rank calls these functions. */
#ifndef PROTO_CLIENT_H
#define PROTO_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/job.h"
#include "proto/key.h"
#include "proto/request.h"

typedef struct proto_client proto_client;

/* What the process inherited: the job's exact bytes and its keys. Secrets stay inside
 * proto_client. */
typedef struct proto_identity {
    int rank;
    int world_size;
    int local_rank;
    int local_world_size;
    int host_timeout_ms; /* silence of another host until it is lost; 0: the launcher does not say */
    proto_job job;
    uint8_t
        launcher_public_key[PROTO_KEY_BYTES]; /* the job's: after join, the listener has proved that
                                               * it has the secret key */
    uint8_t collectives_key[PROTO_KEY_BYTES]; /* with it ranks prove to each other that they belong
                                               * to the job */
    char launcher_address[PROTO_ENDPOINT_BYTES]; /* numeric, without the port */
} proto_identity;

typedef void (*proto_on_abort)(void *user, const char *reason);

/* Writes the flight record of this rank's collectives to fd, as JSON. Either thread may call it. */
typedef void (*proto_on_dump)(void *user, int fd, const char *reason);

/* Reads the inherited descriptors and environment. A rank that was started by hand gets
 * BASE_ERR_AUTH, with a message that says what to run. */
BASE_MUST_CHECK base_status proto_client_open(proto_identity *identity, proto_client **client,
                                              base_error *reterr);

/* The exact bytes of JOB.json, as inherited. They live as long as the client. */
const void *proto_client_job_bytes(const proto_client *client, size_t *size_bytes);

/* Connects, joins, and waits until all have joined. The launcher takes ranks of its own build only; "": the build
 * of a user's program is nobody's concern. */
BASE_MUST_CHECK base_status proto_client_join(proto_client *client, const char *build,
                                              base_error *reterr);

/* Sets the function that an abort calls; NULL: none. When this returns, the old one is not running
 * and will not be called. on_abort must not block or call this client. */
void proto_client_on_abort(proto_client *client, proto_on_abort on_abort, void *user);

/* The same for the function that writes the flight record. The record goes to the launcher if this
 * rank fails, if the job is aborted (whatever the rank's own thread is doing), and if the launcher
 * asks for it. */
void proto_client_on_dump(proto_client *client, proto_on_dump on_dump, void *user);

/* An all-gather over the launcher, as libcoll's coll_exchange; user is the proto_client. */
base_status proto_client_exchange(void *user, const void *mine, void *all, size_t size_bytes,
                                  int64_t deadline_ns, base_error *reterr);

/* Whether the launcher has asked for a stop after the current step. */
bool proto_client_stop_requested(const proto_client *client);

/* Rank 0 of a training: whether the launcher asks now for the end at the next checkpoint. It may withdraw that. */
bool proto_client_pause_requested(const proto_client *client);

/* Reports. They are queued. The messages are ringfence__control__* as generated from control.proto.
 * These functions pack them, which copies them. */
struct ProtobufCMessage;
struct Ringfence__Control__Ready;
struct Ringfence__Control__Gpu;
struct Ringfence__Control__Failed;
struct Ringfence__Control__Finished;
void proto_client_ready(proto_client *client, const struct Ringfence__Control__Ready *ready);
void proto_client_gpu(proto_client *client, const struct Ringfence__Control__Gpu *gpu);
void proto_client_failed(proto_client *client, const struct Ringfence__Control__Failed *failed);

/* Sends a text of UTF-8 for a prompt, in parts. What is behind PROTO_OUTPUT_BYTES_MAX is cut off. */
void proto_client_output(proto_client *client, uint64_t index, const char *text);

/* A Step, a Loaded or a Piece. */
void proto_client_report(proto_client *client, struct ProtobufCMessage *report);

/* Requests that come while the job runs (infer.requests), on rank 0. */
typedef enum proto_work_kind {
    PROTO_WORK_REQUEST = 1,
    PROTO_WORK_CANCEL = 2, /* of the request with this id */
    PROTO_WORK_DRAIN = 3,  /* no more requests come */
} proto_work_kind;

typedef struct proto_work {
    proto_work_kind kind;
    proto_request request; /* of a cancel, only its id */
} proto_work;

/* Takes what the launcher sent first. False: nothing has come. */
bool proto_client_take_work(proto_client *client, proto_work *work);

/* Waits until there may be something to do: work has come, the launcher has given credit or asked
 * for a stop, or the deadline has passed. Fails if the link has ended. */
BASE_MUST_CHECK base_status proto_client_wait_work(proto_client *client, int64_t deadline_ns,
                                                   base_error *reterr);

/* Sends an event of a request: a Verdict, Tokens or Answered. Never blocks. False: it was not sent,
 * because the launcher has not taken PROTO_EVENTS_AHEAD_MAX earlier ones yet. */
bool proto_client_event(proto_client *client, struct ProtobufCMessage *event);

/* Sends the last message and waits (bounded) for the launcher's Goodbye. */
BASE_MUST_CHECK base_status proto_client_finish(proto_client *client,
                                                const struct Ringfence__Control__Finished *finished,
                                                base_error *reterr);

/* Sends what is queued (bounded), ends the thread, wipes the keys. NULL is fine. */
void proto_client_close(proto_client *client);

#endif
