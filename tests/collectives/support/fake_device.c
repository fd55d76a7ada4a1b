/* The fake device's collectives. Used by tests of operations on streams. */
#include "fake_device.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "ringfence/coll_error.h"

enum { RANKS_MAX = 8, BYTES_MAX = 1 << 16 };

/* Where the ranks' collectives meet; shared, counted. */
typedef struct fake_world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int users;
    int arrived;
    unsigned round;
    bool broken; /* a rank was aborted */
    const coll_op_desc *ops[RANKS_MAX];
} fake_world;

/* Ranks map the memory that the exchange goes through each at an address of its own, so a checker
 * of threads does not see that what one did came before what the other does. */
static pthread_mutex_t handed_over = PTHREAD_MUTEX_INITIALIZER;

typedef struct fake_comm {
    fake_device *device;
    fake_world *world;
    int rank;
    int size;
    atomic_bool aborted;
    atomic_bool stuck;  /* poll is not ready any more */
    atomic_bool broken; /* poll reports an error */
    _Atomic uint64_t started;
    _Atomic uint64_t finished;
    int running; /* operations that its streams have to do; under world->lock */
} fake_comm;

typedef struct fake_op {
    fake_comm *comm;
    coll_op_desc desc;
    _Atomic uint64_t enqueued;
    _Atomic uint64_t ended;
} fake_op;

/* One run of an operation on its stream. */
typedef struct fake_run {
    fake_op *op;
    bool warms_up; /* nothing moves */
    bool hangs;
    bool captured; /* a graph's: nobody tests the operation for it */
} fake_run;

/* ---- devices ---- */

void fake_device_init(fake_device *device)
{
    (void)pthread_mutex_init(&device->lock, NULL);
    (void)pthread_cond_init(&device->changed, NULL);
}

void fake_device_fini(fake_device *device)
{
    (void)pthread_mutex_lock(&device->lock);
    while (device->aborting > 0) {
        (void)pthread_cond_wait(&device->changed, &device->lock);
    }
    (void)pthread_mutex_unlock(&device->lock);
    (void)pthread_cond_destroy(&device->changed);
    (void)pthread_mutex_destroy(&device->lock);
}

void fake_device_let_go(fake_device *device)
{
    (void)pthread_mutex_lock(&device->lock);
    device->let_go = true;
    (void)pthread_cond_broadcast(&device->changed);
    (void)pthread_mutex_unlock(&device->lock);
}

/* Until fake_device_let_go, or until the communicator is aborted where there is one. */
static void stand_still(fake_device *device, const fake_comm *comm)
{
    (void)pthread_mutex_lock(&device->lock);
    while (!device->let_go && (comm == NULL || !atomic_load(&comm->aborted))) {
        (void)pthread_cond_wait(&device->changed, &device->lock);
    }
    (void)pthread_mutex_unlock(&device->lock);
}

/* A call that the end of the device waits for begins (1) or ends (-1). */
static void count_call(fake_device *device, int change)
{
    (void)pthread_mutex_lock(&device->lock);
    device->aborting += change;
    (void)pthread_cond_broadcast(&device->changed);
    (void)pthread_mutex_unlock(&device->lock);
}

/* ---- collectives ---- */

static void add(uint8_t *to, const uint8_t *from, size_t count, coll_type type)
{
    for (size_t i = 0; i < count; i++) {
        if (type == COLL_FLOAT32) {
            ((float *)(void *)to)[i] += ((const float *)(const void *)from)[i];
        } else {
            ((int32_t *)(void *)to)[i] += ((const int32_t *)(const void *)from)[i];
        }
    }
}

/* The canonical order: neighbours, level by level. */
static void sum_as_tree(const fake_world *world, int ranks, uint8_t *result)
{
    const coll_op_desc *desc = world->ops[0];
    const size_t bytes = desc->count * sizeof(float);
    uint8_t *parts[RANKS_MAX];
    for (int rank = 0; rank < ranks; rank++) {
        parts[rank] = malloc(bytes);
        BASE_ASSERT(parts[rank] != NULL);
        memcpy(parts[rank], world->ops[rank]->send, bytes);
    }
    for (int step = 1; step < ranks; step *= 2) {
        for (int rank = 0; rank + step < ranks; rank += 2 * step) {
            add(parts[rank], parts[rank + step], desc->count, desc->type);
        }
    }
    memcpy(result, parts[0], bytes);
    for (int rank = 0; rank < ranks; rank++) {
        free(parts[rank]);
    }
}

/* What every rank gets; 0 bytes: nothing. */
static size_t compute(const fake_world *world, int ranks, uint8_t *result)
{
    const coll_op_desc *desc = world->ops[0];
    const size_t bytes = desc->count * coll_type_size_bytes(desc->type);
    BASE_ASSERT(bytes * (size_t)ranks <= BYTES_MAX);
    switch (desc->kind) {
    case COLL_ALL_REDUCE:
        sum_as_tree(world, ranks, result);
        return bytes;
    case COLL_BROADCAST:
        memcpy(result, world->ops[desc->root]->send, bytes);
        return bytes;
    case COLL_ALL_GATHER:
        for (int rank = 0; rank < ranks; rank++) {
            memcpy(result + (size_t)rank * bytes, world->ops[rank]->send, bytes);
        }
        return bytes * (size_t)ranks;
    default:
        return 0;
    }
}

/* The last to come does it for all, who stand here meanwhile. Where one was aborted, none ends. */
static void run_collective(fake_op *op)
{
    fake_comm *comm = op->comm;
    fake_world *world = comm->world;
    (void)atomic_fetch_add(&comm->started, 1);
    (void)pthread_mutex_lock(&world->lock);
    const unsigned round = world->round;
    world->ops[comm->rank] = &op->desc;
    if (++world->arrived == comm->size && !world->broken) {
        uint8_t result[BYTES_MAX];
        const size_t bytes = compute(world, comm->size, result);
        for (int rank = 0; rank < comm->size && bytes > 0; rank++) {
            memcpy(world->ops[rank]->recv, result, bytes);
        }
        world->arrived = 0;
        world->round++;
        (void)pthread_cond_broadcast(&world->changed);
    }
    while (world->round == round && !atomic_load(&comm->aborted)) {
        (void)pthread_cond_wait(&world->changed, &world->lock);
    }
    (void)atomic_fetch_add(&comm->finished, world->round == round ? 0 : 1);
    (void)pthread_mutex_unlock(&world->lock);
}

static void count_running(fake_comm *comm, int change)
{
    fake_world *world = comm->world;
    (void)pthread_mutex_lock(&world->lock);
    comm->running += change;
    (void)pthread_cond_broadcast(&world->changed);
    (void)pthread_mutex_unlock(&world->lock);
}

static void run_op(void *argument)
{
    const fake_run *run = argument;
    fake_op *op = run->op;
    if (run->captured) {
        count_running(op->comm, 1);
    }
    if (run->hangs) {
        stand_still(op->comm->device, op->comm);
    }
    if (!run->warms_up && !atomic_load(&op->comm->aborted)) {
        run_collective(op);
    }
    (void)atomic_fetch_add(&op->ended, run->captured ? 0 : 1);
    count_running(op->comm, -1);
}

static void enqueue(fake_run run)
{
    (void)atomic_fetch_add(&run.op->enqueued, run.captured ? 0 : 1);
    if (!run.captured) {
        count_running(run.op->comm, 1);
    }
    fake_stream_enqueue(run.op->desc.stream, run_op, &run, sizeof run);
}

/* ---- the table ---- */

static coll_status fake_open(const coll_backend_open_args *args, void **made, coll_error *reterr)
{
    fake_device *device = args->user;
    fake_world *worlds[RANKS_MAX] = {NULL};
    fake_world *mine = NULL;
    (void)atomic_fetch_add(&device->opened, 1);
    if (device->fault == FAKE_OPEN_FAILS) {
        return coll_fail(reterr, COLL_ERR_IO, "the device has fallen off the bus");
    }
    (void)pthread_mutex_lock(&handed_over);
    if (args->rank == 0) {
        mine = calloc(1, sizeof *mine);
        BASE_ASSERT(mine != NULL);
        (void)pthread_mutex_init(&mine->lock, NULL);
        (void)pthread_cond_init(&mine->changed, NULL);
        mine->users = args->rank_count;
    }
    (void)pthread_mutex_unlock(&handed_over);
    const coll_status status =
        args->exchange(args->exchange_user, &mine, worlds, sizeof mine, args->deadline_ns, reterr);
    if (status != COLL_OK) {
        free(mine);
        return status;
    }
    (void)pthread_mutex_lock(&handed_over);
    (void)pthread_mutex_unlock(&handed_over);
    fake_comm *comm = calloc(1, sizeof *comm);
    BASE_ASSERT(comm != NULL);
    comm->device = device;
    comm->world = worlds[0];
    comm->rank = args->rank;
    comm->size = args->rank_count;
    device->comm = comm;
    *made = comm;
    return COLL_OK;
}

static coll_status fake_poll(void *comm_, bool *ready, coll_error *reterr)
{
    const fake_comm *comm = comm_;
    *ready = comm->device->fault != FAKE_OPEN_HANGS && !atomic_load(&comm->stuck);
    return atomic_load(&comm->broken)
               ? coll_fail(reterr, COLL_ERR_IO, "an asynchronous error of the device")
               : COLL_OK;
}

static coll_status fake_op_make(void *comm_, const coll_op_desc *desc, void **made,
                                coll_error *reterr)
{
    fake_comm *comm = comm_;
    if (comm->device->fault == FAKE_MAKE_FAILS) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "the device has no memory left");
    }
    fake_op *op = calloc(1, sizeof *op);
    BASE_ASSERT(op != NULL);
    op->comm = comm;
    op->desc = *desc;
    (void)atomic_fetch_add(&comm->device->ops, 1);
    enqueue((fake_run){.op = op, .warms_up = true});
    comm->device->op = op;
    *made = op;
    return COLL_OK;
}

static coll_status fake_group(void *comm_, bool begin, coll_error *reterr)
{
    const fake_comm *comm = comm_;
    (void)reterr;
    (void)atomic_fetch_add(&comm->device->groups, begin ? 1 : 0);
    return COLL_OK;
}

static coll_status fake_start(void *op_, uint64_t sequence, bool *captured, coll_error *reterr)
{
    fake_op *op = op_;
    fake_comm *comm = op->comm;
    const bool faulty = sequence >= comm->device->fault_at;
    const fake_fault fault = faulty ? comm->device->fault : FAKE_SOUND;
    fake_run run = {.op = op,
                    .hangs = fault == FAKE_RUN_HANGS || fault == FAKE_RUN_LATE,
                    .captured = fake_stream_is_capturing(op->desc.stream)};
    *captured = run.captured;
    if (run.captured) {
        enqueue(run);
        return COLL_OK;
    }
    if (fault == FAKE_START_FAILS) {
        return coll_fail(reterr, COLL_ERR_IO, "the device does not take it");
    }
    atomic_store(&comm->stuck, fault == FAKE_START_HANGS);
    atomic_store(&comm->broken, fault == FAKE_ASYNC_ERROR);
    run.hangs = run.hangs || fault == FAKE_START_HANGS || fault == FAKE_ASYNC_ERROR;
    enqueue(run);
    return COLL_OK;
}

static coll_status fake_test(void *op_, bool *done, coll_error *reterr)
{
    const fake_op *op = op_;
    (void)reterr;
    *done = atomic_load(&op->ended) == atomic_load(&op->enqueued);
    return COLL_OK;
}

static coll_status fake_idle(void *comm, void *stream, bool *done, coll_error *reterr)
{
    (void)comm;
    (void)reterr;
    *done = fake_stream_idle(stream);
    return COLL_OK;
}

static void fake_op_free(void *op_)
{
    fake_op *op = op_;
    (void)atomic_fetch_sub(&op->comm->device->ops, 1);
    fake_stream_await(op->desc.stream); /* aborted, or ended: it is about to let go of this */
    free(op);
}

static void fake_progress(const void *comm_, uint64_t *started, uint64_t *finished)
{
    const fake_comm *comm = comm_;
    *started = atomic_load(&comm->started);
    *finished = atomic_load(&comm->finished);
}

/* A microsecond for each operation. */
static uint64_t fake_busy_ns(const void *comm_)
{
    const fake_comm *comm = comm_;
    return atomic_load(&comm->finished) * 1000;
}

static void fake_abort(void *comm_)
{
    fake_comm *comm = comm_;
    fake_device *device = comm->device;
    (void)atomic_fetch_add(&device->aborted, 1);
    count_call(device, 1);
    if (device->abort_hangs) {
        stand_still(device, NULL);
    }
    (void)pthread_mutex_lock(&comm->world->lock);
    comm->world->broken = true;
    atomic_store(&comm->aborted, true);
    (void)pthread_cond_broadcast(&comm->world->changed);
    (void)pthread_mutex_unlock(&comm->world->lock);
    count_call(device, -1);
}

static coll_status fake_close(void *comm_, int64_t deadline_ns, coll_error *reterr)
{
    fake_comm *comm = comm_;
    (void)deadline_ns;
    fake_device *device = comm->device;
    (void)atomic_fetch_add(&device->closed, 1);
    count_call(device, 1);
    if (device->close_hangs) {
        stand_still(device, NULL);
    }
    const fake_fault fault = device->fault;
    count_call(device, -1);
    return fault == FAKE_CLOSE_FAILS ? coll_fail(reterr, COLL_ERR_IO, "the device does not close")
                                     : COLL_OK;
}

static void fake_release(void *comm_)
{
    fake_comm *comm = comm_;
    fake_world *world = comm->world;
    (void)atomic_fetch_add(&comm->device->released, 1);
    (void)pthread_mutex_lock(&world->lock);
    while (comm->running > 0 && atomic_load(&comm->aborted)) { /* the stream leaves it */
        (void)pthread_cond_wait(&world->changed, &world->lock);
    }
    const bool last = --world->users == 0;
    (void)pthread_mutex_unlock(&world->lock);
    if (last) {
        (void)pthread_cond_destroy(&world->changed);
        (void)pthread_mutex_destroy(&world->lock);
        free(world);
    }
    free(comm);
}

static coll_status fake_alloc(void *comm_, size_t size_bytes, void **memory, coll_error *reterr)
{
    const fake_comm *comm = comm_;
    *memory = calloc(1, size_bytes);
    (void)atomic_fetch_add(&comm->device->allocated, 1);
    return *memory != NULL ? COLL_OK : coll_fail(reterr, COLL_ERR_MEMORY, "no device memory");
}

static void fake_free(void *comm_, void *memory)
{
    const fake_comm *comm = comm_;
    (void)atomic_fetch_sub(&comm->device->allocated, 1);
    free(memory);
}

const coll_backend fake_backend = {
    .size = sizeof(coll_backend),
    .abi = COLL_BACKEND_ABI,
    .name = "fake",
    .kinds = COLL_BIT(COLL_ALL_REDUCE) | COLL_BIT(COLL_BROADCAST) | COLL_BIT(COLL_ALL_GATHER) |
             COLL_BIT(COLL_BARRIER),
    .types = COLL_BIT(COLL_FLOAT32) | COLL_BIT(COLL_INT32) | COLL_BIT(COLL_UINT8),
    .reduces = COLL_BIT(COLL_SUM),
    .open = fake_open,
    .poll = fake_poll,
    .op_make = fake_op_make,
    .group = fake_group,
    .start = fake_start,
    .test = fake_test,
    .idle = fake_idle,
    .op_free = fake_op_free,
    .progress = fake_progress,
    .busy_ns = fake_busy_ns,
    .abort = fake_abort,
    .close = fake_close,
    .release = fake_release,
    .alloc = fake_alloc,
    .free = fake_free,
};
