/* The rank's end of the control plane: joins the job, exchanges, reports, and hears the launcher.
 *
 * A control thread owns the socket; the rank's own thread talks to it through a queue and never
 * blocks on the launcher except in join, exchange and finish. What the launcher says at any time
 * (abort, stop, its end) is heard by that thread: on abort it calls on_abort (from the control
 * thread), waits abort_grace_ms for the rank to leave by itself, and then ends the process. If the
 * launcher is gone (lifeline closed) the process ends.
 *
 * Functions here are called by one thread of the rank. */
#ifndef RANK_CONTROL_H
#define RANK_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/job.h"

typedef struct rank_control rank_control;

/* What the process inherited: the job's own bytes and its keys. Secrets stay inside rank_control.
 */
typedef struct rank_identity {
    int rank;
    int world_size;
    int local_rank;
    int local_world_size;
    proto_job job;
} rank_identity;

typedef void (*rank_on_abort)(void *user, const char *reason);

/* Reads the inherited descriptors and environment. A rank started by hand gets BASE_ERR_AUTH with a
 * message that says what to run. */
BASE_MUST_CHECK base_status rank_control_open(rank_identity *identity, rank_control **control,
                                              base_error *reterr);

/* Connects, joins, waits for the roster. */
BASE_MUST_CHECK base_status rank_control_join(rank_control *control, base_error *reterr);

/* Sets or (NULL) takes away what an abort calls. After it returns the old one is not running and
 * will not be called. on_abort must not block or call this control. */
void rank_control_on_abort(rank_control *control, rank_on_abort on_abort, void *user);

/* A coll_exchange over the launcher; user is the rank_control. */
base_status rank_control_exchange(void *user, const void *mine, void *all, size_t size_bytes,
                                  int64_t deadline_ns, base_error *reterr);

/* The launcher has asked to stop after the current step. */
bool rank_control_stop_requested(const rank_control *control);

/* "host h, pid 42" of another rank, from the roster; static storage of the control. */
const char *rank_control_peer_name(const rank_control *control, int rank);

/* Reports, queued; the messages are ringfence__control__* as generated from control.proto, packed
 * by the callee. They are copied. */
struct Ringfence__Control__Ready;
struct Ringfence__Control__Step;
struct Ringfence__Control__Output;
struct Ringfence__Control__Failed;
struct Ringfence__Control__Finished;
void rank_control_ready(rank_control *control, const struct Ringfence__Control__Ready *ready);
void rank_control_step(rank_control *control, const struct Ringfence__Control__Step *step);
void rank_control_output(rank_control *control, const struct Ringfence__Control__Output *output);
void rank_control_failed(rank_control *control, const struct Ringfence__Control__Failed *failed);

/* Sends the last message and waits (bounded) for the launcher's Goodbye. */
BASE_MUST_CHECK base_status rank_control_finish(rank_control *control,
                                                const struct Ringfence__Control__Finished *finished,
                                                base_error *reterr);

/* Sends what is queued (bounded), ends the thread, wipes the keys. NULL is fine. */
void rank_control_close(rank_control *control);

#endif
