/* The backend's part of a communicator, behind its operations on streams: opened by the first of
 * them, aborted when the communicator fails, closed at its end.
 *
 * Abort and close may hang. Each runs in a thread of its own, for which the owner waits for a
 * limited time. If it does not return, what is the backend's is left alone for ever. */
#ifndef COLL_SRC_DEVICE_H
#define COLL_SRC_DEVICE_H

#include "coll/backend.h"
#include "core/op.h"

typedef struct coll_ending coll_ending;

/* An operation that was enqueued, and is not known to have ended. */
typedef struct coll_device_flight {
    void *stream;
    uint64_t sequence;
    uint64_t number; /* in the flight recorder */
} coll_device_flight;

enum { COLL_DEVICE_FLIGHTS = 256 };

typedef enum coll_device_state {
    COLL_DEVICE_OPENING = 0,
    COLL_DEVICE_OPEN,
    COLL_DEVICE_ENDING, /* abort or close is under way in a thread */
    COLL_DEVICE_ENDED,
    COLL_DEVICE_STUCK, /* has not returned in time */
} coll_device_state;

struct coll_device {
    const coll_backend *backend;
    void *comm; /* the backend's; NULL: it was not made */
    coll_device *next;
    pthread_mutex_t *lock; /* the context's describe_lock: other threads read what stands below */
    uint64_t id;           /* in flight records */
    coll_device_state state;
    bool grouping;
    uint64_t enqueued; /* operations started, but for those that were captured */
    uint64_t made;     /* operations made */
    uint64_t started;  /* on the device, when the end began */
    uint64_t finished;
    coll_ending *ending;
    int64_t ending_until_ns;
    coll_op *probe;    /* waits for one peer after the other, so that its going is noticed */
    int flights_first; /* a ring */
    int flights_count;
    coll_device_flight flights[COLL_DEVICE_FLIGHTS];
};

/* What flight records call the communicator's operations on streams. */
uint64_t coll_device_id(const coll_comm *comm);

/* The devices of the context, and how far they are. Any thread. */
int coll_device_list(coll_context *context, coll_flight_device *devices, int room);

/* Begins the abort. Called once, by the communicator's first failure. */
void coll_device_abort(coll_comm *comm);
/* The orderly end, by now + limit_ns. Nothing is left to do if the communicator has failed. */
COLL_MUST_CHECK coll_status coll_device_close(coll_comm *comm, int64_t limit_ns,
                                              coll_error *reterr);
/* Frees it, closing it before where that is due. */
void coll_device_destroy(coll_comm *comm);

/* Whether the backend may be called: nothing runs in a thread, and nothing is stuck. Waits for an
 * abort that is under way. */
bool coll_device_is_callable(coll_comm *comm);

/* Fails comm with an error of the backend's. */
coll_status coll_device_broken(coll_comm *comm, coll_status status, const coll_error *error,
                               coll_error *reterr);

/* Keeps that op was enqueued; and that on this stream all have ended, up to `sequence`. */
void coll_device_note(coll_device *device, const coll_op *op);
void coll_device_note_end(const coll_comm *comm, const void *stream, uint64_t sequence);

/* device_wait.c */

typedef enum coll_await_what {
    COLL_AWAIT_READY, /* what was asked of the backend has reached the device */
    COLL_AWAIT_OP,    /* op has ended */
    COLL_AWAIT_STREAM,
} coll_await_what;

typedef struct coll_await {
    coll_comm *comm;
    coll_await_what what;
    const coll_op *op; /* for messages too; NULL: none */
    void *stream;
    const char *doing; /* without an operation: "opening the communicator" */
} coll_await;

/* Waits, with the context's timeout, and listens to peers meanwhile. */
COLL_MUST_CHECK coll_status coll_device_await(const coll_await *await, coll_error *reterr);

#endif
