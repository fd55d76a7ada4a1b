/* The gradient of attention with a window, against plain loops in double: segments of several blocks of rows, and windows
 * that end in and beside tiles and blocks. What forward makes of a window has test_attention_cached.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "numbers.h"
#include "random.h"
#include "support.h"

enum {
    HEADS = 2,
    D = 12,
    WIDTH = HEADS * D,
    ROW = 3 * WIDTH,
    SEGMENTS = 2,
    TOKENS = 150 + 39,
};

static const int32_t starts[SEGMENTS + 1] = {0, 150, TOKENS};
static const float SCALE = 0.3f;

typedef struct arrays {
    float qkv[TOKENS * ROW];
    float bias[ROW];
    float out[TOKENS * WIDTH];
    float row_max[TOKENS * HEADS];
    float row_scale[TOKENS * HEADS];
    float dout[TOKENS * WIDTH];
    float dqkv[TOKENS * ROW];
    float dbias[ROW];
} arrays;

static double expected[TOKENS * ROW];

static void run(const rank_kernels *kernels, size_t window, arrays *x)
{
    float *scratch = malloc(kernels->attention_scratch(D, TOKENS) * sizeof *scratch);
    assert_non_null(scratch);
    memset(x, 0, sizeof *x);
    test_random_floats(x->qkv, TOKENS * ROW, 1, 1);
    test_random_floats(x->dout, TOKENS * WIDTH, 1, 2);
    memset(x->dqkv, 0xff, sizeof x->dqkv);
    rank_attention args = {.width = WIDTH,
                           .heads = HEADS,
                           .segment_count = SEGMENTS,
                           .segment_start = starts,
                           .segment_max = TOKENS,
                           .qkv = x->qkv,
                           .bias = x->bias,
                           .out = x->out,
                           .row_max = x->row_max,
                           .row_scale = x->row_scale,
                           .dout = x->dout,
                           .dqkv = x->dqkv,
                           .dbias = x->dbias,
                           .scratch = scratch,
                           .window = window,
                           .scale = SCALE};
    kernels->attention(&args);
    kernels->attention_grad(&args);
    free(scratch);
}

static double dot(const float *a, const float *b)
{
    double sum = 0;
    for (size_t d = 0; d < D; d++) {
        sum += (double)a[d] * (double)b[d];
    }
    return sum;
}

/* One row of one head, which sees tokens first … row: adds to `expected`. */
static void expect_row(const arrays *x, size_t row, size_t first, size_t head)
{
    static double p[TOKENS];
    static double dp[TOKENS];
    const size_t at = row * ROW + head * D;
    const float *dout = x->dout + row * WIDTH + head * D;
    double sum = 0;
    double mean = 0;
    for (size_t t = first; t <= row; t++) {
        p[t] = exp((double)SCALE * dot(x->qkv + at, x->qkv + t * ROW + WIDTH + head * D));
        sum += p[t];
    }
    for (size_t t = first; t <= row; t++) {
        p[t] /= sum;
        dp[t] = dot(dout, x->qkv + t * ROW + 2 * WIDTH + head * D);
        mean += p[t] * dp[t];
    }
    for (size_t t = first; t <= row; t++) {
        const size_t key = t * ROW + WIDTH + head * D;
        const double dscore = (double)SCALE * p[t] * (dp[t] - mean);
        for (size_t d = 0; d < D; d++) {
            expected[at + d] += dscore * (double)x->qkv[key + d];
            expected[key + d] += dscore * (double)x->qkv[at + d];
            expected[key + WIDTH + d] += p[t] * (double)dout[d];
        }
    }
}

static void expect(const arrays *x, size_t window)
{
    memset(expected, 0, sizeof expected);
    for (size_t s = 0; s < SEGMENTS; s++) {
        const size_t begin = (size_t)starts[s];
        for (size_t row = begin; row < (size_t)starts[s + 1]; row++) {
            const size_t first = row - begin + 1 > window ? row + 1 - window : begin;
            for (size_t head = 0; head < HEADS; head++) {
                expect_row(x, row, first, head);
            }
        }
    }
}

static void gradients_are_those_of_plain_loops(void **state)
{
    static const size_t windows[] = {1, 5, 8, 16, 17, 31, 63, 64, 65, 100, 1000};
    static arrays found[2];
    (void)state;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        const rank_kernels *kernels = NULL;
        for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
            arrays *x = &found[isa > 1];
            run(kernels, windows[i], x);
            expect(x, windows[i]);
            for (size_t j = 0; j < TOKENS * ROW; j++) {
                if (!(fabs((double)x->dqkv[j] - expected[j]) <= 1e-4)) {
                    fail_msg("%s, window %zu, token %zu, column %zu: %g, expected %g",
                             kernels->name, windows[i], j / ROW, j % ROW, (double)x->dqkv[j],
                             expected[j]);
                }
            }
            if (isa > 1) { /* the first has no fused multiply-add */
                assert_memory_equal(found[0].dqkv, found[1].dqkv, sizeof found[0].dqkv);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_those_of_plain_loops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
