/* RMS norms of heads: the bits of the same vectors in rows of their own, and nothing else of a row is touched. */
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "support.h"

enum { ROWS = 7, HEADS = 3, BEHIND = 5, WIDTH_MAX = 128, ROW_MAX = HEADS * WIDTH_MAX + BEHIND };

typedef struct arrays {
    size_t width;
    size_t row;
    float rows[ROWS * ROW_MAX]; /* heads, and behind them what stays */
    float heads[ROWS * HEADS * WIDTH_MAX];
    float weight[WIDTH_MAX];
    float before[ROWS * HEADS * WIDTH_MAX];
    float rstd[ROWS * HEADS];
    float dweight[HEADS * WIDTH_MAX];
} arrays;

static float value_of(size_t i)
{
    return (float)((i * 2654435761u) % 1000) / 250.0f - 2.0f;
}

static void fill(arrays *x, size_t width)
{
    memset(x, 0, sizeof *x);
    x->width = width;
    x->row = HEADS * width + BEHIND;
    for (size_t i = 0; i < ROWS * x->row; i++) {
        x->rows[i] = value_of(i);
    }
    for (size_t i = 0; i < width; i++) {
        x->weight[i] = value_of(i + 77);
    }
}

static float *head_of(arrays *x, size_t row, size_t head)
{
    return x->rows + row * x->row + head * x->width;
}

/* Each head of the rows in a row of its own. */
static void take_apart(arrays *x)
{
    for (size_t i = 0; i < ROWS * HEADS; i++) {
        memcpy(x->heads + i * x->width, head_of(x, i / HEADS, i % HEADS), x->width * sizeof(float));
    }
}

static void assert_rows(arrays *x)
{
    for (size_t i = 0; i < ROWS * HEADS; i++) {
        assert_memory_equal(head_of(x, i / HEADS, i % HEADS), x->heads + i * x->width,
                            x->width * sizeof(float));
    }
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t i = HEADS * x->width; i < x->row; i++) {
            assert_true(x->rows[row * x->row + i] == value_of(row * x->row + i));
        }
    }
}

static void check_forward(const rank_kernels *kernels, arrays *x)
{
    float rstd[ROWS * HEADS];
    static float before[ROWS * HEADS * WIDTH_MAX];
    take_apart(x);
    memcpy(before, x->heads, sizeof before);
    rank_rmsnorm args = {.rows = ROWS * HEADS,
                         .width = x->width,
                         .epsilon = 1e-6f,
                         .x = x->heads,
                         .weight = x->weight,
                         .out = x->heads,
                         .rstd = rstd};
    kernels->rmsnorm(&args);
    args.rows = ROWS;
    args.x = args.out = x->rows;
    args.heads = (rank_side_by_side){HEADS, x->row};
    args.before = x->before;
    args.rstd = x->rstd;
    kernels->rmsnorm(&args);
    assert_rows(x);
    assert_memory_equal(x->rstd, rstd, sizeof rstd);
    assert_memory_equal(x->before, before, ROWS * HEADS * x->width * sizeof(float));
}

/* The weight's gradient comes head by head: that of a head alone. */
static void check_backward(const rank_kernels *kernels, arrays *x)
{
    static float dweight[WIDTH_MAX];
    take_apart(x);
    for (size_t head = 0; head < HEADS; head++) {
        memset(dweight, 0, sizeof dweight);
        for (size_t row = 0; row < ROWS; row++) {
            const size_t at = row * HEADS + head;
            float *d = x->heads + at * x->width;
            kernels->rmsnorm_grad(&(rank_rmsnorm_grad){.rows = 1,
                                                       .width = x->width,
                                                       .x = x->before + at * x->width,
                                                       .rstd = x->rstd + at,
                                                       .weight = x->weight,
                                                       .dout = d,
                                                       .dx = d,
                                                       .dweight = dweight});
        }
        memcpy(x->dweight + head * x->width, dweight, x->width * sizeof(float));
    }
    static float of_heads[HEADS * WIDTH_MAX];
    memset(of_heads, 0, sizeof of_heads);
    kernels->rmsnorm_grad(&(rank_rmsnorm_grad){.rows = ROWS,
                                               .width = x->width,
                                               .x = x->before,
                                               .rstd = x->rstd,
                                               .weight = x->weight,
                                               .dout = x->rows,
                                               .dx = x->rows,
                                               .dweight = of_heads,
                                               .heads = {HEADS, x->row}});
    assert_rows(x);
    assert_memory_equal(of_heads, x->dweight, HEADS * x->width * sizeof(float));
}

static void heads_are_normed_like_rows(void **state)
{
    static const size_t widths[] = {2, 6, 16, 18, 64, 128};
    static arrays x;
    (void)state;
    const rank_kernels *kernels = NULL;
    for (int set = 0; (kernels = rank_kernels_at(set)) != NULL; set++) {
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
            fill(&x, widths[i]);
            check_forward(kernels, &x);
            check_backward(kernels, &x);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_normed_like_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
