/* The backend's part of a communicator: its beginning and its end. Called by device_op.c, when a
 * communicator fails, and when it is destroyed. */
#include "core/device.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "core/failure.h"

#define DEVICE_BIT (UINT64_C(1) << 31) /* of a communicator's id */
_Static_assert(COLL_COMMS_MADE_MAX < DEVICE_BIT, "a communicator has the id of a device");

/* Abort or close in a thread. Whoever is last of thread and owner frees it. */
struct coll_ending {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int users;
    bool returned;
    const coll_backend *backend;
    void *comm;
    bool closes; /* false: aborts */
    int64_t deadline_ns;
    coll_status status;
    coll_error error;
};

static void leave(coll_ending *ending)
{
    (void)pthread_mutex_lock(&ending->lock);
    const bool last = --ending->users == 0;
    (void)pthread_mutex_unlock(&ending->lock);
    if (last) {
        (void)pthread_cond_destroy(&ending->changed);
        (void)pthread_mutex_destroy(&ending->lock);
        free(ending);
    }
}

static void *run_ending(void *argument)
{
    coll_ending *ending = argument;
    coll_error error = {.message = ""};
    coll_status status = COLL_OK;
    if (ending->closes) {
        status = ending->backend->close(ending->comm, ending->deadline_ns, &error);
    } else {
        ending->backend->abort(ending->comm);
    }
    (void)pthread_mutex_lock(&ending->lock);
    ending->status = status;
    ending->error = error;
    ending->returned = true;
    (void)pthread_cond_broadcast(&ending->changed);
    (void)pthread_mutex_unlock(&ending->lock);
    leave(ending);
    return NULL;
}

static coll_ending *ending_alloc(const coll_device *device, bool closes, int64_t deadline_ns)
{
    coll_ending *ending = calloc(1, sizeof *ending);
    if (ending == NULL) {
        return NULL;
    }
    *ending = (coll_ending){.users = 2,
                            .backend = device->backend,
                            .comm = device->comm,
                            .closes = closes,
                            .deadline_ns = deadline_ns};
    (void)pthread_mutex_init(&ending->lock, NULL);
    base_cond_init(&ending->changed);
    return ending;
}

/* The state is read by other threads. */
static void set_state(coll_device *device, coll_device_state state)
{
    (void)pthread_mutex_lock(device->lock);
    device->state = state;
    (void)pthread_mutex_unlock(device->lock);
}

/* Begins the end in a thread; without one it counts as stuck. */
static void begin_ending(coll_device *device, bool closes, int64_t deadline_ns)
{
    coll_ending *ending = ending_alloc(device, closes, deadline_ns);
    pthread_t thread;
    (void)pthread_mutex_lock(device->lock);
    device->backend->progress(device->comm, &device->started, &device->finished);
    device->state = COLL_DEVICE_ENDING;
    (void)pthread_mutex_unlock(device->lock);
    device->ending_until_ns = base_now_ns() + COLL_DEVICE_ABORT_SECONDS * BASE_NS_PER_S;
    if (closes && deadline_ns > base_now_ns()) {
        device->ending_until_ns += deadline_ns - base_now_ns();
    }
    if (ending != NULL && pthread_create(&thread, NULL, run_ending, ending) == 0) {
        (void)pthread_detach(thread);
        device->ending = ending;
        return;
    }
    set_state(device, COLL_DEVICE_STUCK);
    if (ending != NULL) {
        ending->users = 1;
        leave(ending);
    }
}

/* Waits for the end that is under way. */
static coll_status await_ending(coll_device *device, coll_error *reterr)
{
    coll_ending *ending = device->ending;
    if (device->state == COLL_DEVICE_STUCK) {
        return coll_fail(reterr, COLL_ERR_TIMEOUT, "%s does not let go of its communicator",
                         device->backend->name);
    }
    if (ending == NULL) {
        return COLL_OK;
    }
    (void)pthread_mutex_lock(&ending->lock);
    bool in_time = true;
    while (!ending->returned && in_time) {
        in_time = base_cond_wait(&ending->changed, &ending->lock, device->ending_until_ns);
    }
    const bool returned = ending->returned;
    const bool closes = ending->closes;
    const coll_status status = ending->status;
    const coll_error error = ending->error;
    (void)pthread_mutex_unlock(&ending->lock);
    leave(ending);
    device->ending = NULL;
    set_state(device, returned ? COLL_DEVICE_ENDED : COLL_DEVICE_STUCK);
    if (!returned) {
        return coll_fail(reterr, COLL_ERR_TIMEOUT,
                         "%s did not return from %s its communicator in %d s: this process has to "
                         "be killed",
                         device->backend->name, closes ? "closing" : "aborting",
                         COLL_DEVICE_ABORT_SECONDS);
    }
    return status == COLL_OK
               ? COLL_OK
               : coll_fail(reterr, status, "%s, closing: %s", device->backend->name, error.message);
}

uint64_t coll_device_id(const coll_comm *comm)
{
    return comm->id | DEVICE_BIT;
}

void coll_device_abort(coll_comm *comm)
{
    coll_device *device = comm->device;
    if (device->comm == NULL || device->state > COLL_DEVICE_OPEN) {
        return;
    }
    begin_ending(device, false, 0);
}

coll_status coll_device_ended(coll_comm *comm, coll_error *reterr)
{
    return comm->device == NULL ? COLL_OK : await_ending(comm->device, reterr);
}

bool coll_device_is_callable(coll_comm *comm)
{
    return coll_device_ended(comm, NULL) == COLL_OK || comm->device->state == COLL_DEVICE_ENDED;
}

coll_status coll_device_close(coll_comm *comm, int64_t limit_ns, coll_error *reterr)
{
    coll_device *device = comm->device;
    if (device->comm == NULL || device->state > COLL_DEVICE_OPEN) {
        return COLL_OK;
    }
    begin_ending(device, true, base_deadline_after_ns(limit_ns));
    const coll_status status = await_ending(device, reterr);
    return status == COLL_OK
               ? COLL_OK
               : coll_comm_fail(comm, status, "%s", reterr != NULL ? reterr->message : "closing");
}

/* So that calls in other threads do not find it any more. */
static void unlist(coll_comm *comm)
{
    const coll_device *device = comm->device;
    coll_context *context = comm->context;
    coll_device **link = &context->devices;
    (void)pthread_mutex_lock(&context->describe_lock);
    while (*link != device) {
        link = &(*link)->next;
    }
    *link = device->next;
    comm->device = NULL;
    (void)pthread_mutex_unlock(&context->describe_lock);
}

void coll_device_destroy(coll_comm *comm)
{
    coll_device *device = comm->device;
    if (device == NULL) {
        return;
    }
    if (!comm->failed) {
        (void)!coll_device_close(comm, COLL_DEVICE_ABORT_SECONDS * BASE_NS_PER_S, NULL);
    }
    const bool callable = coll_device_is_callable(comm);
    unlist(comm);
    if (callable && device->comm != NULL) {
        device->backend->release(device->comm);
    }
    if (device->probe != NULL) {
        device->probe->device = NULL;
        coll_op_destroy(device->probe);
    }
    free(device);
}

static void progress_of(const coll_device *device, uint64_t *started, uint64_t *finished)
{
    *started = device->started;
    *finished = device->finished;
    if (device->state <= COLL_DEVICE_OPEN && device->comm != NULL) {
        device->backend->progress(device->comm, started, finished);
    }
}

uint64_t coll_device_busy_ns(const coll_comm *comm)
{
    pthread_mutex_t *lock = &comm->context->describe_lock;
    uint64_t busy_ns = 0;
    (void)pthread_mutex_lock(lock);
    const coll_device *device = comm->device;
    if (device != NULL && device->state <= COLL_DEVICE_OPEN && device->comm != NULL) {
        busy_ns = device->backend->busy_ns(device->comm);
    }
    (void)pthread_mutex_unlock(lock);
    return busy_ns;
}

void coll_device_progress(const coll_comm *comm, uint64_t *started, uint64_t *finished)
{
    pthread_mutex_t *lock = &comm->context->describe_lock;
    *started = 0;
    *finished = 0;
    (void)pthread_mutex_lock(lock);
    if (comm->device != NULL) {
        progress_of(comm->device, started, finished);
    }
    (void)pthread_mutex_unlock(lock);
}

int coll_device_list(coll_context *context, coll_flight_device *devices, int room)
{
    int count = 0;
    (void)pthread_mutex_lock(&context->describe_lock);
    for (const coll_device *device = context->devices; device != NULL && count < room;
         device = device->next) {
        devices[count] = (coll_flight_device){.comm = device->id, .backend = device->backend->name};
        progress_of(device, &devices[count].started, &devices[count].finished);
        count++;
    }
    (void)pthread_mutex_unlock(&context->describe_lock);
    return count;
}

coll_status coll_device_broken(coll_comm *comm, coll_status status, const coll_error *error,
                               coll_error *reterr)
{
    (void)coll_comm_fail(comm, status, "%s: %s", comm->context->backend->name, error->message);
    return coll_comm_check(comm, reterr);
}

void coll_device_note(coll_device *device, const coll_op *op)
{
    if (device->flights_count == COLL_DEVICE_FLIGHTS) { /* the oldest has ended long ago */
        coll_flight_end(op->comm->context->flight, device->flights[device->flights_first].number);
        device->flights_first = (device->flights_first + 1) % COLL_DEVICE_FLIGHTS;
        device->flights_count--;
    }
    const int at = (device->flights_first + device->flights_count++) % COLL_DEVICE_FLIGHTS;
    device->flights[at] = (coll_device_flight){
        .stream = op->desc.stream, .sequence = op->sequence, .number = op->flight};
}

void coll_device_note_end(const coll_comm *comm, const void *stream, uint64_t sequence)
{
    coll_device *device = comm->device;
    int kept = 0;
    for (int i = 0; i < device->flights_count; i++) {
        const coll_device_flight flight =
            device->flights[(device->flights_first + i) % COLL_DEVICE_FLIGHTS];
        if (flight.stream == stream && flight.sequence <= sequence) {
            coll_flight_end(comm->context->flight, flight.number);
        } else {
            device->flights[(device->flights_first + kept++) % COLL_DEVICE_FLIGHTS] = flight;
        }
    }
    device->flights_count = kept;
}
