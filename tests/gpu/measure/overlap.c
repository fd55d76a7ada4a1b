/* Kernels of decoding that may overlap: a chain of them has the same bytes with overlap, with a wait
 * after each kernel, and in a graph. Called by main.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "random.h"

/* Each link has weights of its own, so that no link's rows are those of another one: they begin SHIFT
 * floats further. Links share their rows, as layers do. */
enum { ROWS = 4, LINKS = 64, PRODUCTS = 2 * LINKS, SHIFT = 68 };

typedef struct chain {
    gpu_plugin plugin;
    rank_device device;
    size_t width;
    size_t float_count;
    float *weights; /* (C, C) of each product; what follows lies behind */
    float *vector;  /* (C): bias of GELU, weight and bias of the norm */
    float *first;   /* (ROWS, C): what the chain begins with */
    float *x;       /* (ROWS, C) each */
    float *hidden;
    float *sum;
    float *statistics; /* (2, ROWS) */
    float *expected;   /* (ROWS, C), the host's */
} chain;

static size_t row_floats(const chain *c)
{
    return ROWS * c->width;
}

static base_status chain_open(chain *c, const char *plugin, base_error *reterr)
{
    void *memory = NULL;
    void *host = NULL;
    const size_t weight_floats = c->width * c->width + (size_t)PRODUCTS * SHIFT;
    base_status status = measure_open(plugin, "cuda", &c->plugin, &c->device, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const rank_backend *backend = c->device.backend;
    rank_queue *queue = c->device.queue;
    c->float_count = weight_floats + c->width + 4 * row_floats(c) + 2 * (size_t)ROWS;
    c->expected = malloc(row_floats(c) * sizeof(float));
    if (c->expected == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the chain's rows");
    }
    status =
        backend->alloc(queue, RANK_MEMORY_WORK, c->float_count * sizeof(float), &memory, reterr);
    if (status != BASE_OK) {
        return status;
    }
    c->weights = memory;
    c->vector = c->weights + weight_floats;
    c->first = c->vector + c->width;
    c->x = c->first + row_floats(c);
    c->hidden = c->x + row_floats(c);
    c->sum = c->hidden + row_floats(c);
    c->statistics = c->sum + row_floats(c);
    status = backend->map(queue, c->weights, c->float_count * sizeof(float), true, &host, reterr);
    if (status == BASE_OK) {
        test_random_floats(host, c->float_count, 1.0f, 35);
        test_random_floats(host, weight_floats, 8.0f / (float)c->width,
                           35); /* GELU is neither linear nor zero */
        backend->unmap(queue, host);
    }
    return status;
}

static void chain_close(chain *c)
{
    if (c->device.backend != NULL) {
        c->device.backend->release(c->device.queue, c->weights);
    }
    rank_device_close(&c->device);
    free(c->expected);
}

static void enqueue_product(const chain *c, int number, const float *from, float *to,
                            const float *gelu_bias)
{
    c->device.backend->product(c->device.queue,
                               &(rank_product){.rows = ROWS,
                                               .columns = c->width,
                                               .depth = c->width,
                                               .a = from,
                                               .a_row = c->width,
                                               .a_depth = 1,
                                               .b = c->weights + (size_t)number * SHIFT,
                                               .b_row = c->width,
                                               .b_transposed = true,
                                               .c = to,
                                               .c_row = c->width,
                                               .leaves = 1,
                                               .gelu_bias = gelu_bias});
}

static void enqueue_norm(const chain *c)
{
    c->device.backend->layernorm(c->device.queue, &(rank_layernorm){.rows = ROWS,
                                                                    .width = c->width,
                                                                    .x = c->sum,
                                                                    .weight = c->vector,
                                                                    .bias = c->vector,
                                                                    .out = c->x,
                                                                    .mean = c->statistics,
                                                                    .rstd = c->statistics + ROWS});
}

/* The wait after a kernel, where the chain has waits. */
static base_status pause(const chain *c, bool waits, base_error *reterr)
{
    return waits ? c->device.backend->sync(c->device.queue, reterr) : BASE_OK;
}

static base_status enqueue(const chain *c, bool waits, base_error *reterr)
{
    c->device.backend->copy(c->device.queue, c->x, c->first, row_floats(c) * sizeof(float));
    base_status status = pause(c, waits, reterr);
    for (int link = 0; status == BASE_OK && link < LINKS; link++) {
        enqueue_product(c, 2 * link, c->x, c->hidden, c->vector);
        status = pause(c, waits, reterr);
        if (status == BASE_OK) {
            enqueue_product(c, 2 * link + 1, c->hidden, c->sum, NULL);
            status = pause(c, waits, reterr);
        }
        if (status == BASE_OK) {
            enqueue_norm(c);
            status = pause(c, waits, reterr);
        }
    }
    return status;
}

/* Waits, and compares the rows with those of the first run. */
static base_status compare(const chain *c, bool first, const char *way, int run, base_error *reterr)
{
    void *host = NULL;
    const size_t size_bytes = row_floats(c) * sizeof(float);
    const base_status status =
        c->device.backend->map(c->device.queue, c->x, size_bytes, false, &host, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (first) {
        memcpy(c->expected, host, size_bytes);
    }
    const bool same = memcmp(host, c->expected, size_bytes) == 0;
    c->device.backend->unmap(c->device.queue, host);
    return same ? BASE_OK
                : base_fail(reterr, BASE_ERR_IO,
                            "run %d of a chain of kernels %s has other bytes than with waits", run,
                            way);
}

static base_status run_plainly(const chain *c, bool waits, int times, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; status == BASE_OK && i < times; i++) {
        status = enqueue(c, waits, reterr);
        if (status == BASE_OK) {
            status = compare(c, waits && i == 0, waits ? "with waits" : "that overlap", i, reterr);
        }
    }
    return status;
}

static base_status run_captured(const chain *c, int times, base_error *reterr)
{
    rank_graph *graph = NULL;
    const rank_backend *backend = c->device.backend;
    base_status status = backend->capture(c->device.queue, &graph, reterr);
    if (status != BASE_OK) {
        return status;
    }
    (void)enqueue(c, false, NULL); /* without waits it does not fail */
    status = backend->capture_end(c->device.queue, reterr);
    for (int i = 0; status == BASE_OK && i < times; i++) {
        backend->replay(c->device.queue, graph);
        status = compare(c, false, "in a graph", i, reterr);
    }
    backend->graph_destroy(c->device.queue, graph);
    return status;
}

base_status measure_overlap(const char *plugin, size_t width, int times, base_error *reterr)
{
    chain c = {.width = width};
    base_status status = chain_open(&c, plugin, reterr);
    if (status == BASE_OK) {
        status = run_plainly(&c, true, times, reterr);
    }
    if (status == BASE_OK) {
        status = run_plainly(&c, false, times, reterr);
    }
    if (status == BASE_OK) {
        status = run_captured(&c, times, reterr);
    }
    if (status == BASE_OK) {
        (void)printf("contact_overlap_runs %d\n", 3 * times);
    }
    chain_close(&c);
    return status;
}
