#include "backend/cpu/bench/products.h"

#include <stdlib.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/matmul.h"
#include "base/clock.h"
#include "model/state.h"

/* The widest operand has 4 widths or the vocabulary of columns. */
struct bench_products {
    rank_model_config config;
    size_t tokens;
    size_t wide;
    int32_t *segment_start;
    int rows;
    float *x;  /* (T, wide) */
    float *y;  /* (T, wide) */
    float *w;  /* the largest weight */
    float *dw; /* the same */
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
    free(products->scratch);
    free(products);
}

base_status bench_products_create(const rank_model_config *config, int rows,
                                  bench_products **products, base_error *reterr)
{
    bench_products *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "bench: no memory");
    }
    const size_t width = (size_t)config->width;
    const size_t vocab_size = (size_t)config->vocab_size;
    p->config = *config;
    p->rows = rows;
    p->tokens = (size_t)rows * (size_t)config->context;
    p->wide = 4 * width > vocab_size ? 4 * width : vocab_size;
    p->segment_start = malloc(((size_t)rows + 1) * sizeof *p->segment_start);
    p->x = make_values(p->tokens * p->wide);
    p->y = make_values(p->tokens * p->wide);
    p->w = make_values(p->wide * width);
    p->dw = make_values(p->wide * width);
    p->scratch = make_values(rank_kernels_get()->attention_scratch(width / (size_t)config->heads,
                                                                   (size_t)config->context));
    if (!p->segment_start || !p->x || !p->y || !p->w || !p->dw || !p->scratch) {
        bench_products_destroy(p);
        return base_fail(reterr, BASE_ERR_MEMORY, "bench: no memory");
    }
    for (int i = 0; i <= rows; i++) {
        p->segment_start[i] = i * config->context;
    }
    rank_matmul_init();
    rank_matmul_use_one_thread();
    *products = p;
    return BASE_OK;
}

/* Of a chunk of rows: y = x·W, dW += xᵀ·dy, dx = dy·Wᵀ for W of shape (depth, columns). As in the
 * model, Wᵀ has been made before, so that the last is a plain product too. */
static base_status linear(const bench_products *p, size_t first, size_t columns, size_t depth,
                          base_error *reterr)
{
    const size_t rows = p->tokens - first < ROW_CHUNK ? p->tokens - first : ROW_CHUNK;
    float *x = p->x + first * p->wide;
    float *y = p->y + first * p->wide;
    base_status status =
        rank_matmul_nn(&(rank_matmul){rows, columns, depth, .a = x, .b = p->w, .c = y}, reterr);
    if (status == BASE_OK) {
        status = rank_matmul_tn(&(rank_matmul){.rows = depth,
                                               .columns = columns,
                                               .depth = rows,
                                               .a = x,
                                               .b = y,
                                               .c = p->dw,
                                               .accumulate = first > 0},
                                reterr);
    }
    if (status == BASE_OK) {
        status =
            rank_matmul_nn(&(rank_matmul){rows, depth, columns, .a = y, .b = p->w, .c = x}, reterr);
    }
    return status;
}

/* The output embedding is (V, C): its products have the other transpositions. */
static base_status logits(const bench_products *p, size_t first, base_error *reterr)
{
    const size_t rows = p->tokens - first < ROW_CHUNK ? p->tokens - first : ROW_CHUNK;
    const size_t width = (size_t)p->config.width;
    const size_t vocab_size = (size_t)p->config.vocab_size;
    float *x = p->x + first * p->wide;
    float *y = p->y + first * p->wide;
    base_status status =
        rank_matmul_nt(&(rank_matmul){rows, vocab_size, width, .a = x, .b = p->w, .c = y}, reterr);
    if (status == BASE_OK) {
        status = rank_matmul_tn(&(rank_matmul){.rows = vocab_size,
                                               .columns = width,
                                               .depth = rows,
                                               .a = y,
                                               .b = x,
                                               .c = p->dw,
                                               .accumulate = first > 0},
                                reterr);
    }
    if (status == BASE_OK) {
        status = rank_matmul_nn(&(rank_matmul){rows, width, vocab_size, .a = y, .b = p->w, .c = x},
                                reterr);
    }
    return status;
}

static base_status linear_layer(const bench_products *p, base_error *reterr)
{
    const size_t width = (size_t)p->config.width;
    const size_t shapes[][2] = {
        {3 * width, width}, {width, width}, {4 * width, width}, {width, 4 * width}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t first = 0; first < p->tokens; first += ROW_CHUNK) {
            const base_status status = linear(p, first, shapes[i][0], shapes[i][1], reterr);
            if (status != BASE_OK) {
                return status;
            }
        }
    }
    return BASE_OK;
}

base_status bench_products_run(bench_products *p, int64_t *attention_ns, base_error *reterr)
{
    *attention_ns = 0;
    for (int layer = 0; layer < p->config.layers; layer++) {
        const base_status status = linear_layer(p, reterr);
        if (status != BASE_OK) {
            return status;
        }
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
    for (size_t first = 0; first < p->tokens; first += ROW_CHUNK) {
        const base_status status = logits(p, first, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
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
