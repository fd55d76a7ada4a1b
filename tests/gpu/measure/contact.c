/* First contact with a GPU: what everything else there depends on, one thing at a time, so that a
 * wrong driver, library or assumption is named before the long tests run. Called by main.c. */
#include <stdio.h>
#include <string.h>

#include "coll/backend.h"
#include "coll/nccl.h"
#include "measure.h"
#include "ringfence/coll_error.h"

/* NODES takes about a millisecond: so long a graph computes behind which another one waits. */
enum { SIDE = 32, COUNT = SIDE * SIDE, REPLAYS = 3, NODES = 600 };

/* COUNT twos on the device, room for as many more, and what the device writes for the host. */
typedef struct bench {
    gpu_plugin plugin;
    rank_device device;
    float *values;
    float *more;
    double *sum; /* pinned */
} bench;

static base_status get(const rank_device *device, rank_memory kind, size_t size_bytes,
                       void **memory, base_error *reterr)
{
    return device->backend->alloc(device->queue, kind, size_bytes, memory, reterr);
}

static base_status fill(const rank_device *device, float *at, base_error *reterr)
{
    void *host = NULL;
    const base_status status =
        device->backend->map(device->queue, at, COUNT * sizeof *at, true, &host, reterr);
    for (size_t i = 0; status == BASE_OK && i < COUNT; i++) {
        ((float *)host)[i] = 2.0f;
    }
    if (status == BASE_OK) {
        device->backend->unmap(device->queue, host);
    }
    return status;
}

static base_status open_bench(bench *b, const char *plugin, const char *backend, base_error *reterr)
{
    void *memory = NULL;
    void *pinned = NULL;
    base_status status = measure_open(plugin, backend, &b->plugin, &b->device, reterr);
    if (status == BASE_OK) {
        status = get(&b->device, RANK_MEMORY_WORK, 2 * COUNT * sizeof *b->values, &memory, reterr);
    }
    b->values = memory;
    if (status == BASE_OK) {
        status = get(&b->device, RANK_MEMORY_HOST, sizeof *b->sum, &pinned, reterr);
    }
    b->sum = pinned;
    if (status == BASE_OK) {
        b->more = b->values + COUNT;
        status = fill(&b->device, b->values, reterr);
    }
    return status;
}

static void close_bench(bench *b)
{
    const rank_device *device = &b->device;
    if (device->backend != NULL) {
        device->backend->release(device->queue, b->values);
        device->backend->release(device->queue, b->sum);
    }
    rank_device_close(&b->device);
}

static void enqueue_sum(const bench *b, rank_queue *queue, const float *values)
{
    b->device.backend->sum_squares(queue, &(rank_sum_squares){values, COUNT, b->sum});
}

/* Waits, and then compares the sum. */
static base_status expect(const bench *b, rank_queue *queue, double wanted, base_error *reterr)
{
    const base_status status = b->device.backend->sync(queue, reterr);
    return status != BASE_OK || *b->sum == wanted
               ? status
               : base_fail(reterr, BASE_ERR_IO, "a sum is %g, and not %g", *b->sum, wanted);
}

/* ---- steps ---- */

/* Which GPU, and with which libraries. */
static base_status describe(const bench *b, base_error *reterr)
{
    rank_gpu_info info;
    const base_status status = b->plugin.table->describe_gpu(0, &info, reterr);
    if (status == BASE_OK) {
        (void)fprintf(stderr, "%s, %s, %s\n", info.name, info.uuid, b->plugin.table->version);
        (void)printf("contact_driver_cuda %d\ncontact_nccl %d\n", info.driver, info.nccl);
    }
    return status;
}

/* Kernels of each backend, and pinned memory that they write to. */
static base_status try_kernels(const char *plugin, base_error *reterr)
{
    static const char *const backends[] = {"cuda-exact", "cuda", "cuda-tf32"};
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < sizeof backends / sizeof *backends; i++) {
        bench b = {.values = NULL};
        status = open_bench(&b, plugin, backends[i], reterr);
        if (status == BASE_OK && i == 0) {
            status = describe(&b, reterr);
        }
        if (status == BASE_OK) {
            enqueue_sum(&b, b.device.queue, b.values);
            status = expect(&b, b.device.queue, 4.0 * COUNT, reterr);
        }
        close_bench(&b);
    }
    return status;
}

static void enqueue_product(bench *b)
{
    const rank_device *device = &b->device;
    device->backend->product(device->queue, &(rank_product){.rows = SIDE,
                                                            .columns = SIDE,
                                                            .depth = SIDE,
                                                            .a = b->values,
                                                            .a_row = SIDE,
                                                            .a_depth = 1,
                                                            .b = b->values,
                                                            .b_row = SIDE,
                                                            .c = b->more,
                                                            .c_row = SIDE,
                                                            .leaves = 1});
    enqueue_sum(b, device->queue, b->more);
}

/* A product in a graph, run once before it is captured, as ranks do. */
static base_status try_graph(bench *b, base_error *reterr)
{
    rank_graph *graph = NULL;
    const rank_device *device = &b->device;
    enqueue_product(b);
    base_status status = expect(b, device->queue, 16.0 * SIDE * SIDE * COUNT, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "before the capture");
    }
    status = device->backend->capture(device->queue, &graph, reterr);
    if (status != BASE_OK) {
        return status;
    }
    enqueue_product(b);
    status = device->backend->capture_end(device->queue, reterr);
    for (int i = 0; status == BASE_OK && i < REPLAYS; i++) {
        *b->sum = 0.0;
        device->backend->replay(device->queue, graph);
        status = expect(b, device->queue, 16.0 * SIDE * SIDE * COUNT, reterr);
    }
    device->backend->graph_destroy(device->queue, graph);
    return status;
}

/* Two queues with a graph each. The first one's graph adds twos, and then sets a signal, which also is
 * the end of a time. The second one's awaits the signal, and sums. It is launched while the first has
 * hardly begun, so that it would sum too early without the signal. */
typedef struct pair {
    rank_queue *second;
    rank_graph *sets;
    rank_graph *awaits;
    rank_signal *begun;
    rank_signal *ended;
} pair;

static base_status capture_pair(const bench *b, pair *p, base_error *reterr)
{
    const rank_backend *backend = b->device.backend;
    rank_queue *first = b->device.queue;
    base_status status = backend->capture(first, &p->sets, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (int i = 0; i < NODES; i++) {
        backend->add(first, &(rank_add){COUNT, b->values, b->more});
    }
    backend->signal_set(first, p->ended);
    status = backend->capture_end(first, reterr);
    if (status == BASE_OK) {
        status = backend->capture(p->second, &p->awaits, reterr);
    }
    if (status == BASE_OK) {
        backend->signal_await(p->second, p->ended);
        enqueue_sum(b, p->second, b->more);
        status = backend->capture_end(p->second, reterr);
    }
    return status;
}

static base_status run_pair(const bench *b, const pair *p, base_error *reterr)
{
    const rank_backend *backend = b->device.backend;
    base_status status = BASE_OK;
    for (int i = 1; status == BASE_OK && i <= REPLAYS; i++) {
        const double each = 2.0 + 2.0 * NODES * i;
        backend->signal_set(b->device.queue, p->begun);
        backend->replay(b->device.queue, p->sets);
        backend->replay(p->second, p->awaits);
        status = expect(b, p->second, COUNT * each * each, reterr);
    }
    const int64_t took_ns = backend->signal_elapsed_ns(p->begun, p->ended);
    if (status == BASE_OK && took_ns < 0) {
        status = base_fail(reterr, BASE_ERR_IO, "a signal inside a graph has no time");
    }
    if (status == BASE_OK) {
        (void)printf("contact_graph_us %.3f\n", (double)took_ns * 1e-3);
    }
    return status;
}

static base_status try_signals(bench *b, base_error *reterr)
{
    const rank_backend *backend = b->device.backend;
    pair p = {.second = NULL};
    base_status status = backend->open(&p.second, reterr);
    if (status == BASE_OK) {
        status = backend->signal_open(b->device.queue, true, &p.begun, reterr);
    }
    if (status == BASE_OK) {
        status = backend->signal_open(b->device.queue, true, &p.ended, reterr);
    }
    if (status == BASE_OK) {
        status = fill(&b->device, b->more, reterr);
    }
    if (status == BASE_OK) {
        enqueue_sum(b, p.second, b->more); /* its kernels are loaded before anything waits */
        status = expect(b, p.second, 4.0 * COUNT, reterr);
    }
    if (status == BASE_OK) {
        status = capture_pair(b, &p, reterr);
    }
    if (status == BASE_OK) {
        status = run_pair(b, &p, reterr);
    }
    backend->graph_destroy(b->device.queue, p.sets);
    if (p.second != NULL) {
        backend->graph_destroy(p.second, p.awaits);
    }
    backend->signal_close(p.begun);
    backend->signal_close(p.ended);
    backend->close(p.second);
    return status;
}

static coll_status exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    (void)user;
    (void)deadline_ns;
    (void)reterr;
    memcpy(all, mine, size_bytes);
    return COLL_OK;
}

/* An all-reduce of one rank on NCCL's own memory, by NCCL: run, captured, replayed. Its kernels count in
 * the device's memory, and tell the host in pinned memory. */
static base_status reduce_alone(const bench *b, coll_comm *comm, float *at, base_error *reterr)
{
    coll_op *op = NULL;
    rank_graph *graph = NULL;
    uint64_t started = 0;
    uint64_t finished = 0;
    const rank_backend *backend = b->device.backend;
    rank_queue *queue = b->device.queue;
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = COLL_ALL_REDUCE,
                               .send = at,
                               .recv = at,
                               .count = COUNT,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM,
                               .algorithm = COLL_ALGORITHM_DIRECT,
                               .stream = backend->stream(queue)};
    backend->copy(queue, at, b->values, COUNT * sizeof *at);
    base_status status = (base_status)coll_op_create(comm, &desc, &op, coll_error_of(reterr));
    if (status == BASE_OK) {
        status = (base_status)coll_op_start(op, coll_error_of(reterr));
    }
    if (status == BASE_OK) {
        status = (base_status)coll_op_wait(op, coll_error_of(reterr));
    }
    if (status == BASE_OK) {
        status = backend->capture(queue, &graph, reterr);
    }
    if (status == BASE_OK) {
        status = (base_status)coll_op_start(op, coll_error_of(reterr));
        enqueue_sum(b, queue, at);
        const base_status ended = backend->capture_end(queue, status == BASE_OK ? reterr : NULL);
        status = status == BASE_OK ? ended : status;
    }
    for (int i = 0; status == BASE_OK && i < REPLAYS; i++) {
        backend->replay(queue, graph);
        status = expect(b, queue, 4.0 * COUNT, reterr);
    }
    coll_device_progress(comm, &started, &finished);
    if (status == BASE_OK && (started != REPLAYS + 1 || finished != started)) {
        status = base_fail(reterr, BASE_ERR_IO, "the device counts %d and %d operations, of %d",
                           (int)started, (int)finished, REPLAYS + 1);
    }
    backend->graph_destroy(queue, graph);
    coll_op_destroy(op);
    return status;
}

static base_status try_collective(bench *b, base_error *reterr)
{
    void *memory = NULL;
    coll_context *context = NULL;
    coll_nccl_options nccl = {.size = sizeof nccl, .calls_alone = true};
    const coll_context_options options = {.size = sizeof options,
                                          .world_size = 1,
                                          .exchange = exchange,
                                          .backend = b->plugin.table->collectives,
                                          .backend_user = &nccl};
    coll_status opened = coll_context_create(&options, &context, coll_error_of(reterr));
    coll_comm *comm = opened == COLL_OK ? coll_context_world(context) : NULL;
    if (opened == COLL_OK) {
        opened = coll_device_open(comm, coll_error_of(reterr));
    }
    if (opened == COLL_OK) {
        opened = coll_device_alloc(comm, COUNT * sizeof *b->values, &memory, coll_error_of(reterr));
    }
    base_status status = (base_status)opened;
    if (status == BASE_OK) {
        status =
            b->device.backend->adopt(b->device.queue, memory, COUNT * sizeof *b->values, reterr);
    }
    if (status == BASE_OK) {
        status = reduce_alone(b, comm, memory, reterr);
        b->device.backend->disown(b->device.queue, memory);
    }
    if (memory != NULL) {
        coll_device_free(comm, memory);
    }
    coll_context_destroy(context);
    return status;
}

base_status measure_contact(const char *plugin, const char *what, base_error *reterr)
{
    static const struct {
        const char *name;
        base_status (*try)(bench *b, base_error *reterr);
    } steps[] = {{"graph", try_graph}, {"signals", try_signals}, {"collective", try_collective}};
    bench b = {.values = NULL};
    base_status status = BASE_ERR_NOTFOUND;
    if (strcmp(what, "kernels") == 0) {
        return try_kernels(plugin, reterr);
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (strcmp(what, steps[i].name) == 0) {
            status = open_bench(&b, plugin, "cuda", reterr);
            status = status == BASE_OK ? steps[i].try(&b, reterr) : status;
            close_bench(&b);
            return status;
        }
    }
    return base_fail(reterr, status, "there is no contact '%s'", what);
}
