/* All-reduces of several GPUs in one job: NCCL's own call, ours with `native` and with `direct`, and
 * `direct` in a graph, whose values are checked. Called by main.c in each rank of
 * `launcher --ranks N -- gpu-measure all-reduces PLUGIN MIB`.
 *
 * The three take turns on the same memory, in place. NCCL is the one that the plugin is linked with. Its
 * communicator is made as most programs make it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/percentile.h"
#include "coll/backend.h"
#include "coll/launched.h"
#include "coll/nccl.h"
#include "measure.h"
#include "nccl_calls.h"
#include "ringfence/coll_error.h"

enum { ROUNDS = 11, WARM_UP = 2, RUNS = 20, REPLAYS = 3, SIZES = 3 };

typedef struct job {
    coll_launched *launched;
    coll_comm *world; /* of the CPUs */
    int rank;
    int ranks;
    gpu_plugin plugin;
    rank_device device;
    coll_nccl_options options;
    coll_context *context;
    coll_comm *gpus;
    measure_nccl nccl;
    float *at;
    size_t count; /* floats of the size that is measured */
    coll_op *native;
    coll_op *direct;
} job;

typedef base_status (*starter)(const job *j, base_error *reterr);

static coll_status exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    const job *j = user;
    (void)deadline_ns;
    return coll_all_gather(j->world, mine, all, size_bytes, COLL_UINT8, reterr);
}

/* ---- the three ways ---- */

static base_status start_nccl(const job *j, base_error *reterr)
{
    return measure_nccl_all_reduce(&j->nccl, j->at, j->at, j->count,
                                   j->device.backend->stream(j->device.queue), reterr);
}

static base_status start_op(coll_op *op, base_error *reterr)
{
    return (base_status)coll_op_start(op, coll_error_of(reterr));
}

static base_status start_native(const job *j, base_error *reterr)
{
    return start_op(j->native, reterr);
}

static base_status start_direct(const job *j, base_error *reterr)
{
    return start_op(j->direct, reterr);
}

static base_status make_op(const job *j, coll_algorithm algorithm, coll_op **op, base_error *reterr)
{
    const coll_op_desc desc = {.size = sizeof desc,
                               .kind = COLL_ALL_REDUCE,
                               .send = j->at,
                               .recv = j->at,
                               .count = j->count,
                               .type = COLL_FLOAT32,
                               .reduce = COLL_SUM,
                               .algorithm = algorithm,
                               .stream = j->device.backend->stream(j->device.queue)};
    return (base_status)coll_op_create(j->gpus, &desc, op, coll_error_of(reterr));
}

/* ---- times ---- */

/* Zeros, so that sums stay small. All ranks begin together. */
static base_status begin(const job *j, base_error *reterr)
{
    j->device.backend->zero(j->device.queue, j->at, j->count * sizeof *j->at);
    const base_status status = j->device.backend->sync(j->device.queue, reterr);
    return status == BASE_OK ? (base_status)coll_barrier(j->world, coll_error_of(reterr)) : status;
}

static base_status time_round(const job *j, starter start, double *us, base_error *reterr)
{
    base_status status = begin(j, reterr);
    const int64_t before_ns = base_now_ns();
    for (int i = 0; status == BASE_OK && i < RUNS; i++) {
        status = start(j, reterr);
    }
    if (status == BASE_OK) {
        status = j->device.backend->sync(j->device.queue, reterr);
    }
    *us = (double)(base_now_ns() - before_ns) * 1e-3 / RUNS;
    return status;
}

/* Medians over the rounds; in each round every way has its turn. */
static base_status time_size(job *j, base_error *reterr)
{
    static const struct {
        const char *name;
        starter start;
    } ways[] = {{"nccl", start_nccl}, {"native", start_native}, {"direct", start_direct}};
    enum { WAYS = sizeof ways / sizeof *ways };
    double us[WAYS][ROUNDS];
    base_status status = make_op(j, COLL_ALGORITHM_NATIVE, &j->native, reterr);
    if (status == BASE_OK) {
        status = make_op(j, COLL_ALGORITHM_DIRECT, &j->direct, reterr);
    }
    for (int round = -WARM_UP; status == BASE_OK && round < ROUNDS; round++) {
        for (int way = 0; status == BASE_OK && way < WAYS; way++) {
            status = time_round(j, ways[way].start, &us[way][round < 0 ? 0 : round], reterr);
        }
    }
    for (int way = 0; status == BASE_OK && j->rank == 0 && way < WAYS; way++) {
        base_sort(us[way], ROUNDS);
        (void)printf("%s_all_reduce_us_%zu %.3f\n", ways[way].name, j->count * sizeof *j->at,
                     base_percentile(us[way], ROUNDS, 0.5));
    }
    coll_op_destroy(j->native);
    coll_op_destroy(j->direct);
    j->native = NULL;
    j->direct = NULL;
    return status;
}

/* ---- a graph ---- */

/* A vector whose values tell their places, and whose sums stay exact: 1, 2, … 89, 1, 2, … times the
 * scale. */
static float value_at(size_t i, float scale)
{
    return scale * (float)(1 + i % 89);
}

/* Whether all of the memory is value_at(i, scale). */
static base_status check_values(const job *j, float scale, base_error *reterr)
{
    void *host = NULL;
    const rank_backend *backend = j->device.backend;
    base_status status =
        backend->map(j->device.queue, j->at, j->count * sizeof *j->at, false, &host, reterr);
    const float *values = host;
    for (size_t i = 0; status == BASE_OK && i < j->count; i++) {
        if (values[i] != value_at(i, scale)) {
            status = base_fail(reterr, BASE_ERR_MISMATCH,
                               "direct in a graph: value %zu is %g, and not %g", i,
                               (double)values[i], (double)value_at(i, scale));
        }
    }
    if (host != NULL) {
        backend->unmap(j->device.queue, host);
    }
    return status;
}

static base_status fill(const job *j, float scale, base_error *reterr)
{
    void *host = NULL;
    const rank_backend *backend = j->device.backend;
    const base_status status =
        backend->map(j->device.queue, j->at, j->count * sizeof *j->at, true, &host, reterr);
    float *values = host;
    for (size_t i = 0; status == BASE_OK && i < j->count; i++) {
        values[i] = value_at(i, scale);
    }
    if (host != NULL) {
        backend->unmap(j->device.queue, host);
    }
    return status;
}

static base_status capture(const job *j, rank_graph **graph, base_error *reterr)
{
    const rank_backend *backend = j->device.backend;
    const base_status status = backend->capture(j->device.queue, graph, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const base_status started = start_direct(j, reterr);
    const base_status ended =
        backend->capture_end(j->device.queue, started == BASE_OK ? reterr : NULL);
    return started != BASE_OK ? started : ended;
}

/* Rank i has the scale i + 1: the first sum's is 1 + 2 + … + N, and each one's after it N times the one
 * before. */
static base_status check_graph(job *j, base_error *reterr)
{
    rank_graph *graph = NULL;
    const rank_backend *backend = j->device.backend;
    float expected = (float)j->ranks * (float)(j->ranks + 1) / 2;
    base_status status = make_op(j, COLL_ALGORITHM_DIRECT, &j->direct, reterr);
    if (status == BASE_OK) {
        status = capture(j, &graph, reterr);
    }
    if (status == BASE_OK) {
        status = fill(j, (float)(j->rank + 1), reterr);
    }
    for (int i = 0; status == BASE_OK && i < REPLAYS; i++) {
        backend->replay(j->device.queue, graph);
        status = backend->sync(j->device.queue, reterr);
        if (status == BASE_OK) {
            status = check_values(j, expected, reterr);
        }
        expected *= (float)j->ranks;
    }
    if (status == BASE_OK && j->rank == 0) {
        (void)printf("direct_replays %d\n", REPLAYS);
    }
    backend->graph_destroy(j->device.queue, graph);
    coll_op_destroy(j->direct);
    j->direct = NULL;
    return status;
}

/* ---- the job ---- */

/* Of those that the job may see, as ranks choose theirs: from now on this process has one GPU. */
static base_status choose_gpu(const job *j, base_error *reterr)
{
    char given[BASE_PATH_BYTES];
    char number[16];
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    (void)snprintf(number, sizeof number, "%d", j->rank);
    if (visible == NULL) {
        (void)setenv("CUDA_VISIBLE_DEVICES", number, 1);
        return BASE_OK;
    }
    (void)snprintf(given, sizeof given, "%s", visible);
    char *rest = given;
    const char *mine = strsep(&rest, ",");
    for (int i = 0; i < j->rank && mine != NULL; i++) {
        mine = strsep(&rest, ",");
    }
    if (mine == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "CUDA_VISIBLE_DEVICES has no GPU for rank %d",
                         j->rank);
    }
    (void)setenv("CUDA_VISIBLE_DEVICES", mine, 1);
    return BASE_OK;
}

static base_status open_gpu(job *j, const char *plugin, size_t size_bytes, base_error *reterr)
{
    void *memory = NULL;
    base_status status = choose_gpu(j, reterr);
    if (status == BASE_OK) {
        status = measure_open(plugin, "cuda", &j->plugin, &j->device, reterr);
    }
    if (status == BASE_OK && j->plugin.table->collectives == NULL) {
        status = base_fail(reterr, BASE_ERR_UNSUPPORTED, "the plugin was built without NCCL");
    }
    if (status != BASE_OK) {
        return status;
    }
    j->options = (coll_nccl_options){.size = sizeof j->options};
    const coll_context_options options = {.size = sizeof options,
                                          .rank = j->rank,
                                          .world_size = j->ranks,
                                          .exchange = exchange,
                                          .exchange_user = j,
                                          .backend = j->plugin.table->collectives,
                                          .backend_user = &j->options};
    coll_status made = coll_context_create(&options, &j->context, coll_error_of(reterr));
    if (made == COLL_OK) {
        j->gpus = coll_context_world(j->context);
        made = coll_device_open(j->gpus, coll_error_of(reterr));
    }
    if (made == COLL_OK) {
        made = coll_device_alloc(j->gpus, size_bytes, &memory, coll_error_of(reterr));
    }
    j->at = memory;
    if (made == COLL_OK) {
        status = j->device.backend->adopt(j->device.queue, memory, size_bytes, reterr);
    }
    return made == COLL_OK ? status : (base_status)made;
}

static base_status open_nccl(job *j, base_error *reterr)
{
    measure_nccl_id id = {{0}};
    base_status status = measure_nccl_find(&j->nccl, j->plugin.handle, reterr);
    if (status == BASE_OK && j->rank == 0) {
        status = measure_nccl_make_id(&j->nccl, &id, reterr);
    }
    if (status == BASE_OK) {
        status = (base_status)coll_broadcast(j->world, &id, sizeof id, COLL_UINT8, 0,
                                             coll_error_of(reterr));
    }
    return status == BASE_OK ? measure_nccl_begin(&j->nccl, j->ranks, &id, j->rank, reterr)
                             : status;
}

static void close_gpu(job *j)
{
    measure_nccl_end(&j->nccl);
    if (j->at != NULL) {
        j->device.backend->disown(j->device.queue, j->at);
        coll_device_free(j->gpus, j->at);
    }
    coll_context_destroy(j->context);
    rank_device_close(&j->device);
}

static base_status run(job *j, const char *plugin, size_t size_bytes, base_error *reterr)
{
    const size_t sizes[SIZES] = {4096, 1 << 20, size_bytes};
    j->world = coll_context_world(coll_launched_context(j->launched));
    j->rank = coll_comm_rank(j->world);
    j->ranks = coll_comm_size(j->world);
    (void)setenv("NCCL_GRAPH_REGISTER", "0", 0); /* all as ranks do */
    (void)setenv("NCCL_ALGO", "^NVLS,NVLSTree", 0);
    (void)setenv("NCCL_NVLS_ENABLE", "0", 0);
    base_status status = open_gpu(j, plugin, size_bytes, reterr);
    if (status == BASE_OK) {
        status = open_nccl(j, reterr);
    }
    for (int i = 0; status == BASE_OK && i < SIZES; i++) {
        j->count = sizes[i] / sizeof *j->at;
        status = time_size(j, reterr);
    }
    return status == BASE_OK ? check_graph(j, reterr) : status;
}

base_status measure_all_reduces(const char *plugin, size_t size_bytes, base_error *reterr)
{
    job j = {.rank = 0};
    base_status status = (base_status)coll_launched_open(&j.launched, coll_error_of(reterr));
    if (status != BASE_OK) {
        return status;
    }
    status = run(&j, plugin, size_bytes, reterr);
    if (status != BASE_OK) {
        coll_launched_fail(j.launched, coll_error_of(reterr));
    }
    close_gpu(&j);
    const base_status closed = (base_status)coll_launched_close(j.launched, NULL);
    return status == BASE_OK ? closed : status;
}
