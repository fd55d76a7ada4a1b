/* What an all-reduce costs the host, through libcoll and through NCCL's own call. Called by main.c.
 *
 * There is one rank, so nothing waits for a peer, and what is left is the cost of calling. Ours is
 * measured twice: as programs have it, where one rank does not call NCCL at all, and made to call it, as
 * more ranks do. NCCL is the one that the plugin is linked with. Its communicator is made as most
 * programs make it. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/percentile.h"
#include "coll/backend.h"
#include "coll/nccl.h"
#include "measure.h"
#include "nccl_calls.h"
#include "ringfence/coll_error.h"

enum { ROUNDS = 101, WARM_UP = 10, RUNS = 64, FLOATS = 256 };

/* Through libcoll. */
typedef struct ours {
    coll_nccl_options options;
    coll_context *context;
    coll_op *op;       /* started one by one */
    coll_op *captured; /* the same for graphs */
} ours;

typedef struct bench {
    gpu_plugin plugin;
    rank_device device;
    void *stream;
    float *send;
    float *recv;
    ours plain;
    ours calling; /* NCCL, though there is one rank */
    measure_nccl nccl;
} bench;

typedef base_status (*starter)(const bench *b, base_error *reterr);

static coll_status exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    (void)user;
    (void)deadline_ns;
    (void)reterr;
    memcpy(all, mine, size_bytes);
    return COLL_OK;
}

/* ---- the two sides ---- */

static base_status open_ours(const bench *b, ours *made, bool calls_alone, base_error *reterr)
{
    made->options = (coll_nccl_options){.size = sizeof made->options, .calls_alone = calls_alone};
    if (b->plugin.table->collectives == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "the plugin was built without NCCL");
    }
    const coll_context_options options = {.size = sizeof options,
                                          .world_size = 1,
                                          .exchange = exchange,
                                          .backend = b->plugin.table->collectives,
                                          .backend_user = &made->options};
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = COLL_ALL_REDUCE,
                               .send = b->send,
                               .recv = b->recv,
                               .count = FLOATS,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM,
                               .algorithm = COLL_ALGORITHM_NATIVE,
                               .stream = b->stream};
    coll_status status = coll_context_create(&options, &made->context, coll_error_of(reterr));
    if (status == COLL_OK) {
        status = coll_op_create(coll_context_world(made->context), &desc, &made->op,
                                coll_error_of(reterr));
    }
    if (status == COLL_OK) {
        status = coll_op_create(coll_context_world(made->context), &desc, &made->captured,
                                coll_error_of(reterr));
    }
    return (base_status)status;
}

static base_status open_nccl(bench *b, base_error *reterr)
{
    measure_nccl_id id;
    base_status status = measure_nccl_find(&b->nccl, b->plugin.handle, reterr);
    if (status == BASE_OK) {
        status = measure_nccl_make_id(&b->nccl, &id, reterr);
    }
    return status == BASE_OK ? measure_nccl_begin(&b->nccl, 1, &id, 0, reterr) : status;
}

static base_status start_op(coll_op *op, base_error *reterr)
{
    return (base_status)coll_op_start(op, coll_error_of(reterr));
}

static base_status start_plain(const bench *b, base_error *reterr)
{
    return start_op(b->plain.op, reterr);
}

static base_status start_calling(const bench *b, base_error *reterr)
{
    return start_op(b->calling.op, reterr);
}

static base_status start_plain_captured(const bench *b, base_error *reterr)
{
    return start_op(b->plain.captured, reterr);
}

static base_status start_calling_captured(const bench *b, base_error *reterr)
{
    return start_op(b->calling.captured, reterr);
}

static base_status start_nccl(const bench *b, base_error *reterr)
{
    return measure_nccl_all_reduce(&b->nccl, b->send, b->recv, FLOATS, b->stream, reterr);
}

/* ---- timing ---- */

static base_status run_times(const bench *b, starter start, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; status == BASE_OK && i < RUNS; i++) {
        status = start(b, reterr);
    }
    return status;
}

/* Median of the rounds, for one call. The host does not wait for the device while it is timed. */
static base_status time_calls(const bench *b, starter start, rank_graph *graph, const char *name,
                              base_error *reterr)
{
    double us[ROUNDS];
    const rank_backend *backend = b->device.backend;
    base_status status = backend->sync(b->device.queue, reterr);
    for (int round = -WARM_UP; status == BASE_OK && round < ROUNDS; round++) {
        const int64_t before_ns = base_now_ns();
        if (graph != NULL) {
            backend->replay(b->device.queue, graph);
        } else {
            status = run_times(b, start, reterr);
        }
        if (round >= 0) {
            us[round] = (double)(base_now_ns() - before_ns) * 1e-3 / RUNS;
        }
        if (status == BASE_OK) {
            status = backend->sync(b->device.queue, reterr);
        }
    }
    if (status == BASE_OK) {
        base_sort(us, ROUNDS);
        (void)printf("%s %.4f\n", name, base_percentile(us, ROUNDS, 0.5));
    }
    return status;
}

static base_status time_graph(const bench *b, starter start, const char *name, base_error *reterr)
{
    rank_graph *graph = NULL;
    const rank_backend *backend = b->device.backend;
    base_status status = backend->capture(b->device.queue, &graph, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const base_status started = run_times(b, start, reterr);
    status = backend->capture_end(b->device.queue, started == BASE_OK ? reterr : NULL);
    status = started != BASE_OK ? started : status;
    if (status == BASE_OK) {
        status = time_calls(b, NULL, graph, name, reterr);
    }
    backend->graph_destroy(b->device.queue, graph);
    return status;
}

static base_status open_device(bench *b, const char *plugin, base_error *reterr)
{
    void *memory = NULL;
    base_status status = measure_open(plugin, "cuda", &b->plugin, &b->device, reterr);
    if (status == BASE_OK) {
        status = b->device.backend->alloc(b->device.queue, RANK_MEMORY_WORK,
                                          2 * FLOATS * sizeof *b->send, &memory, reterr);
    }
    if (status == BASE_OK) {
        b->send = memory;
        b->recv = b->send + FLOATS;
        b->device.backend->zero(b->device.queue, memory, 2 * FLOATS * sizeof *b->send);
        b->stream = b->device.backend->stream(b->device.queue);
        status = b->device.backend->sync(b->device.queue, reterr);
    }
    return status;
}

static void close_ours(ours *made)
{
    coll_op_destroy(made->captured);
    coll_op_destroy(made->op);
    coll_context_destroy(made->context);
}

static void close_all(bench *b)
{
    measure_nccl_end(&b->nccl);
    close_ours(&b->calling);
    close_ours(&b->plain);
    if (b->device.backend != NULL) {
        b->device.backend->release(b->device.queue, b->send);
    }
    rank_device_close(&b->device);
}

base_status measure_all_reduce(const char *plugin, base_error *reterr)
{
    static const struct {
        const char *name;
        starter start;
        bool in_graph;
    } figures[] = {
        {"nccl_host_us", start_nccl, false},
        {"coll_host_us", start_plain, false},
        {"coll_calling_host_us", start_calling, false},
        {"nccl_host_us_in_graph", start_nccl, true},
        {"coll_host_us_in_graph", start_plain_captured, true},
        {"coll_calling_host_us_in_graph", start_calling_captured, true},
    };
    bench b = {.stream = NULL};
    base_status status = open_device(&b, plugin, reterr);
    if (status == BASE_OK) {
        status = open_ours(&b, &b.plain, false, reterr);
    }
    if (status == BASE_OK) {
        status = open_ours(&b, &b.calling, true, reterr);
    }
    if (status == BASE_OK) {
        status = open_nccl(&b, reterr);
    }
    for (size_t i = 0; status == BASE_OK && i < sizeof figures / sizeof *figures; i++) {
        status = figures[i].in_graph
                     ? time_graph(&b, figures[i].start, figures[i].name, reterr)
                     : time_calls(&b, figures[i].start, NULL, figures[i].name, reterr);
    }
    close_all(&b);
    return status;
}
