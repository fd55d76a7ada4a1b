/* Softmax cross entropy whose columns ranks share: the loss and the gradient have the bits of one rank, and
 * those of a whole row are near an independent sum in double. */
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "random.h"
#include "support.h"

enum { ROWS = 5, COLUMNS_MAX = 600, RANKS_MAX = 4, LEAVES = 16 };

typedef struct part {
    rank_cross_entropy args;
    float logits[ROWS * COLUMNS_MAX];
    float largest[ROWS];
    float sum[ROWS];
    float target[ROWS];
    double loss;
} part;

static float whole[ROWS * COLUMNS_MAX];
static int32_t targets[ROWS];

static void fill(size_t columns)
{
    test_random_floats(whole, ROWS * columns, 8, columns);
    for (size_t row = 0; row < ROWS; row++) {
        targets[row] = row == 2 ? -1 : (int32_t)((row * 7919 + 3) % columns);
    }
    targets[4] = (int32_t)columns - 1;
}

/* One rank's columns: its share of the leaves, of which the last may be short. */
static void take(part *of, size_t columns, size_t leaf_columns, int rank, int ranks)
{
    const size_t first = (size_t)rank * LEAVES / (size_t)ranks * leaf_columns;
    const size_t most = LEAVES / (size_t)ranks * leaf_columns;
    const size_t count = columns - first < most ? columns - first : most;
    for (size_t row = 0; row < ROWS; row++) {
        memcpy(of->logits + row * count, whole + row * columns + first, count * sizeof *whole);
    }
    of->loss = 0.0;
    of->args = (rank_cross_entropy){
        .rows = ROWS,
        .vocab_size = count,
        .targets = targets,
        .logits = of->logits,
        .want_gradient = true,
        .loss = &of->loss,
        .leaves = LEAVES / ranks,
        .leaf_columns = leaf_columns,
        .shared = {.first_id = (int32_t)first,
                   .largest = of->largest,
                   .sum = of->sum,
                   .target = of->target},
    };
}

static void step(const rank_kernels *kernels, part *parts, int ranks, rank_loss_step what)
{
    for (int r = 0; r < ranks; r++) {
        parts[r].args.shared.step = what;
        kernels->cross_entropy(&parts[r].args);
    }
}

/* What the ranks exchange between two steps. */
static void exchange(part *parts, int ranks, bool largest)
{
    for (size_t row = 0; row < ROWS; row++) {
        for (int width = 1; width < ranks; width *= 2) { /* the canonical tree */
            for (int r = 0; r < ranks; r += 2 * width) {
                part *a = &parts[r];
                const part *b = &parts[r + width];
                if (largest) {
                    a->largest[row] = fmaxf(a->largest[row], b->largest[row]);
                } else {
                    a->sum[row] += b->sum[row];
                    a->target[row] += b->target[row];
                }
            }
        }
        for (int r = 1; r < ranks; r++) {
            parts[r].largest[row] = parts[0].largest[row];
            parts[r].sum[row] = parts[0].sum[row];
            parts[r].target[row] = parts[0].target[row];
        }
    }
}

static void check_split(const rank_kernels *kernels, size_t columns, size_t leaf_columns, int ranks)
{
    static part one;
    static part parts[RANKS_MAX];
    take(&one, columns, leaf_columns, 0, 1);
    step(kernels, &one, 1, RANK_LOSS_WHOLE);
    for (int r = 0; r < ranks; r++) {
        take(&parts[r], columns, leaf_columns, r, ranks);
    }
    step(kernels, parts, ranks, RANK_LOSS_LARGEST);
    exchange(parts, ranks, true);
    step(kernels, parts, ranks, RANK_LOSS_SUM);
    exchange(parts, ranks, false);
    step(kernels, parts, ranks, RANK_LOSS_GRADIENT);
    for (int r = 0; r < ranks; r++) {
        const size_t first = (size_t)parts[r].args.shared.first_id;
        const size_t count = parts[r].args.vocab_size;
        assert_memory_equal(&parts[r].loss, &one.loss, sizeof one.loss);
        for (size_t row = 0; row < ROWS; row++) {
            assert_memory_equal(parts[r].logits + row * count, one.logits + row * columns + first,
                                count * sizeof(float));
        }
    }
}

static void test_shares_have_the_bits_of_one_rank(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{512, 32}, {500, 32}, {600, 64}, {385, 32}, {481, 32}};
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            fill(sizes[i][0]);
            for (int ranks = 1; ranks <= RANKS_MAX; ranks *= 2) {
                if ((size_t)(LEAVES - LEAVES / ranks) * sizes[i][1] < sizes[i][0]) {
                    check_split(kernels, sizes[i][0], sizes[i][1], ranks);
                }
            }
        }
    }
}

static void test_a_row_is_near_a_sum_in_double(void **state)
{
    (void)state;
    enum { COLUMNS = 500 };
    static part one;
    double loss = 0.0;
    fill(COLUMNS);
    take(&one, COLUMNS, 32, 0, 1);
    step(rank_kernels_get(), &one, 1, RANK_LOSS_WHOLE);
    for (size_t row = 0; row < ROWS; row++) {
        const float *logits = whole + row * COLUMNS;
        double sum = 0.0;
        for (size_t j = 0; targets[row] >= 0 && j < COLUMNS; j++) {
            sum += exp((double)logits[j]);
        }
        loss += targets[row] >= 0 ? log(sum) - (double)logits[targets[row]] : 0.0;
        for (size_t j = 0; j < COLUMNS; j++) {
            const double p = targets[row] >= 0 ? exp((double)logits[j]) / sum : 0.0;
            const double due = p - ((int32_t)j == targets[row] ? 1.0 : 0.0);
            assert_true(fabs((double)one.logits[row * COLUMNS + j] - due) < 1e-6);
        }
    }
    assert_true(fabs(one.loss - loss) < 1e-5);
}

/* A model's head takes as many rows at a time as it has room for, which depends on how the model is cut. */
static void test_rows_in_pieces_have_the_same_loss(void **state)
{
    (void)state;
    static part one;
    for (size_t columns = 385; columns < COLUMNS_MAX; columns++) {
        fill(columns);
        take(&one, columns, 64, 0, 1);
        step(rank_kernels_get(), &one, 1, RANK_LOSS_WHOLE);
        for (size_t at_once = 1; at_once < ROWS; at_once++) {
            double loss = 0.0;
            fill(columns);
            for (size_t first = 0; first < ROWS; first += at_once) {
                rank_cross_entropy piece = one.args;
                piece.rows = ROWS - first < at_once ? ROWS - first : at_once;
                piece.targets = targets + first;
                piece.logits = whole + first * columns;
                piece.loss = &loss;
                rank_kernels_get()->cross_entropy(&piece);
            }
            assert_memory_equal(&loss, &one.loss, sizeof loss);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_have_the_bits_of_one_rank),
        cmocka_unit_test(test_a_row_is_near_a_sum_in_double),
        cmocka_unit_test(test_rows_in_pieces_have_the_same_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
