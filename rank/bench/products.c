/* Runs the matrix products of one training step without the rest of it. Called by bench.c, which
 * compares a whole step with them. */
#include "bench/products.h"

#include <stdlib.h>

#include "backend/cpu/kernels.h"
#include "base/clock.h"

/* The widest operand has 4 widths or the vocabulary of columns. */
struct bench_products {
    rank_device device;
    rank_model_config config;
    size_t tokens;
    size_t wide;
    int32_t *segment_start;
    int rows;
    float *x;  /* (T, wide) */
    float *y;  /* (T, wide) */
    float *w;  /* the largest weight, packed */
    float *dw; /* the same */
    float *packed_rows;
    float *scratch;
};

/* Small values: no denormals, no overflow. */
static void calm(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(i % 97) * 0.001f;
    }
}

static float *make_values(size_t count)
{
    float *values = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    if (values != NULL) {
        calm(values, count);
    }
    return values;
}

void bench_products_destroy(bench_products *products)
{
    if (products == NULL) {
        return;
    }
    free(products->segment_start);
    free(products->x);
    free(products->y);
    free(products->w);
    free(products->dw);
    free(products->packed_rows);
    free(products->scratch);
    free(products);
}

base_status bench_products_create(const rank_model_config *config, const rank_device *device,
                                  int rows, bench_products **products, base_error *reterr)
{
    bench_products *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "bench: no memory");
    }
    const size_t width = (size_t)config->width;
    const size_t vocab_size = (size_t)config->vocab_size;
    p->config = *config;
    p->device = *device;
    p->rows = rows;
    p->tokens = (size_t)rows * (size_t)config->context;
    p->wide = 4 * width > vocab_size ? 4 * width : vocab_size;
    p->segment_start = malloc(((size_t)rows + 1) * sizeof *p->segment_start);
    p->x = make_values(p->tokens * p->wide);
    p->y = make_values(p->tokens * p->wide);
    p->w = make_values(rank_pack_count(p->wide, width) + rank_pack_count(width, p->wide));
    p->dw = make_values(p->wide * width);
    p->packed_rows = make_values(rank_pack_count(device->backend->rows_at_once, p->wide));
    p->scratch = make_values(rank_kernels_get()->attention_scratch(width / (size_t)config->heads,
                                                                   (size_t)config->context));
    if (!p->segment_start || !p->x || !p->y || !p->w || !p->dw || !p->packed_rows || !p->scratch) {
        bench_products_destroy(p);
        return base_fail(reterr, BASE_ERR_MEMORY, "bench: no memory");
    }
    for (int i = 0; i <= rows; i++) {
        p->segment_start[i] = i * config->context;
    }
    *products = p;
    return BASE_OK;
}

/* c (rows, columns) = a (rows, depth) · a packed weight. */
static void product(const bench_products *p, rank_product args)
{
    args.a_row = args.depth;
    args.a_depth = 1;
    args.b = p->w;
    args.c_row = args.columns;
    args.leaves = 1;
    p->device.backend->product(p->device.queue, &args);
}

/* dw (rows, columns) = or, from the second chunk on, += a (depth, rows)ᵀ · b (depth, columns). */
static void product_dw(const bench_products *p, size_t first, rank_product args)
{
    args.a_row = 1;
    args.a_depth = args.rows;
    args.b_row = args.columns;
    args.scratch = p->packed_rows;
    args.c = p->dw;
    args.c_row = args.columns;
    args.leaves = 1;
    args.accumulate = first > 0;
    p->device.backend->product(p->device.queue, &args);
}

static size_t rows_from(const bench_products *p, size_t first)
{
    const size_t most = p->device.backend->rows_at_once;
    return p->tokens - first < most ? p->tokens - first : most;
}

/* Of a chunk of rows: y = x·W, dW += xᵀ·dy, dx = dy·Wᵀ for W of shape (depth, columns). The model has
 * packed W and Wᵀ before, so the first and the last are one kind of product. */
static void linear(const bench_products *p, size_t first, size_t columns, size_t depth)
{
    const size_t rows = rows_from(p, first);
    float *x = p->x + first * p->wide;
    float *y = p->y + first * p->wide;
    product(p, (rank_product){.rows = rows, .columns = columns, .depth = depth, .a = x, .c = y});
    product_dw(p, first,
               (rank_product){.rows = depth, .columns = columns, .depth = rows, .a = x, .b = y});
    product(p, (rank_product){.rows = rows, .columns = depth, .depth = columns, .a = y, .c = x});
}

/* The output embedding (V, C) is read as it is where the gradient goes down. */
static void logits(const bench_products *p, size_t first)
{
    const size_t rows = rows_from(p, first);
    const size_t width = (size_t)p->config.width;
    const size_t vocab_size = (size_t)p->config.vocab_size;
    float *x = p->x + first * p->wide;
    float *y = p->y + first * p->wide;
    product(p, (rank_product){.rows = rows, .columns = vocab_size, .depth = width, .a = x, .c = y});
    product_dw(p, first,
               (rank_product){.rows = vocab_size, .columns = width, .depth = rows, .a = y, .b = x});
    product(
        p,
        (rank_product){
            .rows = rows, .columns = width, .depth = vocab_size, .a = y, .b_row = width, .c = x});
}

static void linear_layer(const bench_products *p)
{
    const size_t width = (size_t)p->config.width;
    const size_t shapes[][2] = {
        {3 * width, width}, {width, width}, {4 * width, width}, {width, 4 * width}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t first = 0; first < p->tokens; first += p->device.backend->rows_at_once) {
            linear(p, first, shapes[i][0], shapes[i][1]);
        }
    }
}

base_status bench_products_run(bench_products *p, int64_t *attention_ns, base_error *reterr)
{
    *attention_ns = 0;
    for (int layer = 0; layer < p->config.layers; layer++) {
        linear_layer(p);
        const int64_t begin_ns = base_now_ns();
        rank_kernels_get()->attention_products(
            &(rank_attention){.width = (size_t)p->config.width,
                              .heads = (size_t)p->config.heads,
                              .segment_count = (size_t)p->rows,
                              .segment_start = p->segment_start,
                              .segment_max = (size_t)p->config.context,
                              .scratch = p->scratch});
        *attention_ns += base_now_ns() - begin_ns;
    }
    for (size_t first = 0; first < p->tokens; first += p->device.backend->rows_at_once) {
        logits(p, first);
    }
    return p->device.backend->sync(p->device.queue, reterr);
}

void bench_products_reset(bench_products *p)
{
    calm(p->x, p->tokens * p->wide);
    calm(p->y, p->tokens * p->wide);
}

double bench_products_flop(const bench_products *p)
{
    const double width = (double)p->config.width;
    const double weights =
        12.0 * width * width * p->config.layers + width * (double)p->config.vocab_size;
    return 3.0 * 2.0 * (double)p->tokens * weights;
}
