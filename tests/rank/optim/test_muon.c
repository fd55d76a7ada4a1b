/* Muon: PyTorch's update of matrices, the rest by AdamW, and the same bits however ranks share out the matrices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_device.h"
#include "difference.h"
#include "fixture.h"
#include "random.h"
#include "rank/optim.h"
#include "support.h"
#include "tiny.h"

/* As in make_muon_fixture.py. */
enum { FIXTURE_STEPS = 2 };
static const double RATE = 0.02;
static const double SCALE = 0.5;
static const rank_adamw_config adamw = {
    .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};

/* float32 beside float64; the iterations make small errors of x larger. */
static const double TOLERANCE = 1e-5;

static rank_optimizer *make(const rank_model_config *config, int ranks, int rank)
{
    base_error error;
    rank_optimizer *optimizer = NULL;
    const rank_optimizer_options options = {
        .adamw = adamw, .muon = {.momentum = 0.95, .ranks = ranks, .rank = rank}};
    rank_memory_use planned = {{0}};
    assert_ok(rank_optimizer_create(&test_device, config, &options, &optimizer, &error), &error);
    rank_optimizer_plan(rank_model_param_count(config), &planned);
    rank_optimizer_plan_muon(config, &options.muon, &planned);
    assert_int_equal(planned.bytes[RANK_MEMORY_OPTIMIZER], rank_optimizer_moment_bytes(optimizer));
    return optimizer;
}

static void step(rank_optimizer *optimizer, int number, float *params, const float *grads)
{
    rank_optimizer_step(
        optimizer,
        &(rank_optimizer_values){.step = number, .learning_rate = RATE, .tokens = 1.0 / SCALE},
        params, grads);
}

static void it_updates_as_pytorch_does(void **state)
{
    (void)state;
    const rank_model_config config = {.family = rank_family_default(),
                                      .vocab_size = 20,
                                      .width = 16,
                                      .layers = 1,
                                      .heads = 2,
                                      .context = 8};
    fixture file;
    size_t count = 0;
    fixture_open(&file, "muon.fixture");
    float *params = fixture_get(&file, &count, "start");
    assert_int_equal(count, rank_model_param_count(&config));
    rank_optimizer *optimizer = make(&config, 1, 0);
    for (int i = 1; i <= FIXTURE_STEPS; i++) {
        float *grads = fixture_get(&file, &count, "grads%d", i);
        float *expected = fixture_get(&file, &count, "params%d", i);
        step(optimizer, i, params, grads);
        test_check_close("params", params, expected, count, TOLERANCE);
        free(grads);
        free(expected);
    }
    rank_optimizer_destroy(optimizer);
    free(params);
    fixture_close(&file);
}

static float *random_grads(size_t count, int seed)
{
    float *grads = malloc(count * sizeof *grads);
    assert_non_null(grads);
    test_random_floats(grads, count, 1, (uint64_t)seed);
    return grads;
}

/* What all ranks have after steps of which each has computed a share, as an all-gather gives it to them. */
static float *train_shared(const tiny *t, int ranks, int steps)
{
    enum { RANKS_MAX = 40 };
    rank_optimizer *optimizers[RANKS_MAX];
    float *copies[RANKS_MAX];
    const size_t bytes = t->param_count * sizeof(float);
    for (int r = 0; r < ranks; r++) {
        optimizers[r] = make(&t->config, ranks, r);
        copies[r] = malloc(bytes);
        assert_non_null(copies[r]);
        memcpy(copies[r], t->params, bytes);
    }
    float *whole = malloc(bytes);
    assert_non_null(whole);
    for (int i = 1; i <= steps; i++) {
        float *grads = random_grads(t->param_count, i);
        for (int r = 0; r < ranks; r++) {
            step(optimizers[r], i, copies[r], grads);
        }
        memcpy(whole, copies[0], bytes);
        size_t at = rank_optimizer_share(optimizers[0], 0).offset;
        for (int r = 0; r < ranks; r++) {
            const rank_optimizer_piece share = rank_optimizer_share(optimizers[0], r);
            assert_int_equal(share.offset, at);
            memcpy(whole + at, copies[r] + at, share.count * sizeof *whole);
            at += share.count;
        }
        for (int r = 0; r < ranks; r++) {
            memcpy(copies[r], whole, bytes);
        }
        free(grads);
    }
    const rank_optimizer_moments first = rank_optimizer_get_moments(optimizers[0]);
    for (int r = 0; r < ranks; r++) { /* a checkpoint is rank 0's, and so they must be alike */
        const rank_optimizer_moments moments = rank_optimizer_get_moments(optimizers[r]);
        assert_memory_equal(moments.first, first.first, bytes);
        assert_memory_equal(moments.second, first.second, bytes);
    }
    for (int r = 0; r < ranks; r++) {
        rank_optimizer_destroy(optimizers[r]);
        free(copies[r]);
    }
    return whole;
}

static void ranks_that_share_have_the_bits_of_one(void **state)
{
    (void)state;
    static const int worlds[] = {2, 3, 8, 40}; /* 40: more than there are matrices */
    for (size_t c = 0; c < TINY_CONFIGS; c++) {
        tiny t;
        tiny_open_as(&t, tiny_configs[c]);
        float *alone = train_shared(&t, 1, 2);
        assert_memory_not_equal(alone, t.params, t.param_count * sizeof *alone);
        for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
            float *shared = train_shared(&t, worlds[i], 2);
            assert_memory_equal(shared, alone, t.param_count * sizeof *alone);
            free(shared);
        }
        free(alone);
        tiny_close(&t);
    }
}

/* Singular values near 1: so xᵀ x, or x xᵀ, is near the unit matrix. */
static void an_update_is_nearly_orthogonal(void **state)
{
    (void)state;
    tiny t;
    tiny_open(&t);
    float *grads = random_grads(t.param_count, 5);
    float *params = calloc(t.param_count, sizeof *params);
    assert_non_null(params);
    rank_optimizer *optimizer = make(&t.config, 1, 0);
    step(optimizer, 1, params, grads); /* from zeros: what is there then is the update */
    int seen = 0;
    for (int i = 0; i < rank_model_tensor_count(&t.config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&t.config, i, &tensor);
        if (strstr(tensor.name, "attn.c_attn.weight") == NULL) {
            continue;
        }
        const size_t rows = tensor.shape[0];
        const size_t columns = tensor.shape[1];
        const double size = RATE * 0.2 * sqrt((double)columns);
        assert_true(rows < columns);
        for (size_t r = 0; r < rows; r++) {
            double square = 0.0;
            for (size_t k = 0; k < columns; k++) {
                const double x = (double)params[tensor.offset + r * columns + k] / size;
                square += x * x;
            }
            assert_true(square > 0.4 && square < 1.5);
        }
        seen++;
    }
    assert_int_equal(seen, 2);
    rank_optimizer_destroy(optimizer);
    free(grads);
    free(params);
    tiny_close(&t);
}

/* The tensor of the first layer with that in its name. */
static rank_tensor tensor_of(const rank_model_config *config, const char *name)
{
    rank_tensor tensor;
    for (int i = 0; i < rank_model_tensor_count(config); i++) {
        rank_model_tensor(config, i, &tensor);
        if (strstr(tensor.name, name) != NULL) {
            return tensor;
        }
    }
    fail_msg("no tensor %s", name);
    return tensor;
}

/* What a step from zero parameters makes of these gradients, over the factor of the update. The caller frees it. */
static float *update_of(const rank_model_config *config, const float *grads, double length)
{
    const size_t count = rank_model_param_count(config);
    float *params = calloc(count, sizeof *params);
    assert_non_null(params);
    rank_optimizer *optimizer = make(config, 1, 0);
    step(optimizer, 1, params, grads);
    rank_optimizer_destroy(optimizer);
    for (size_t i = 0; i < count; i++) {
        params[i] /= (float)(-RATE * 0.2 * sqrt(length));
    }
    return params;
}

/* A matrix that is taller than wide: its columns are then nearly orthonormal. */
static void tall_matrices_get_orthogonal_columns(void **state)
{
    (void)state;
    tiny t;
    tiny_open(&t);
    const rank_tensor tall = tensor_of(&t.config, "mlp.c_proj.weight");
    assert_true(tall.shape[0] > tall.shape[1]);
    float *grads = random_grads(t.param_count, 5);
    float *update = update_of(&t.config, grads, (double)tall.shape[0]);
    const float *x = update + tall.offset;
    for (size_t i = 0; i < tall.shape[1]; i++) {
        for (size_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (size_t k = 0; k < tall.shape[0]; k++) {
                sum += (double)x[k * tall.shape[1] + i] * (double)x[k * tall.shape[1] + j];
            }
            assert_true(i == j ? sum > 0.4 && sum < 1.5 : fabs(sum) < 0.3);
        }
    }
    free(update);
    free(grads);
    tiny_close(&t);
}

/* Of a gradient with one direction, rows · columns, the update has that one alone, with a singular value near 1. */
static void a_matrix_of_rank_one_stays_one(void **state)
{
    (void)state;
    static const char *const names[] = {"mlp.c_fc.weight", "mlp.c_proj.weight"};
    tiny t;
    tiny_open(&t);
    for (size_t n = 0; n < 2; n++) {
        const rank_tensor of = tensor_of(&t.config, names[n]);
        const size_t rows = of.shape[0];
        const size_t columns = of.shape[1];
        float *sides = random_grads(rows + columns, 9);
        float *grads = calloc(t.param_count, sizeof *grads);
        assert_non_null(grads);
        double square[2] = {0.0, 0.0};
        for (size_t i = 0; i < rows + columns; i++) {
            square[i < rows ? 0 : 1] += (double)sides[i] * (double)sides[i];
        }
        for (size_t i = 0; i < of.count; i++) {
            grads[of.offset + i] = sides[i / columns] * sides[rows + i % columns];
        }
        float *update = update_of(&t.config, grads, (double)(rows > columns ? rows : columns));
        double along = 0.0;
        for (size_t i = 0; i < of.count; i++) {
            along += (double)update[of.offset + i] * (double)grads[of.offset + i] /
                     sqrt(square[0] * square[1]);
        }
        assert_true(along > 0.65 && along < 1.2);
        for (size_t i = 0; i < of.count; i++) {
            const double part = along * (double)grads[of.offset + i] / sqrt(square[0] * square[1]);
            assert_true(fabs((double)update[of.offset + i] - part) < 1e-4);
        }
        free(update);
        free(grads);
        free(sides);
    }
    tiny_close(&t);
}

/* An update is as large whatever the gradient's size, from 1e-6 to where float32 ends. */
static void the_size_of_a_gradient_does_not_count(void **state)
{
    (void)state;
    static const float factors[] = {0x1p-20f, 0x1p-4f, 0x1p60f, 0x1p100f, 0x1p126f};
    tiny t;
    tiny_open(&t);
    const rank_tensor of = tensor_of(&t.config, "attn.c_attn.weight");
    float *grads = random_grads(t.param_count, 7);
    float *expected = update_of(&t.config, grads, 1.0);
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++) {
        float *scaled = calloc(t.param_count, sizeof *scaled);
        assert_non_null(scaled);
        for (size_t i = 0; i < of.count; i++) {
            scaled[of.offset + i] = factors[f] * grads[of.offset + i];
        }
        float *update = update_of(&t.config, scaled, 1.0);
        test_check_close("update", update + of.offset, expected + of.offset, of.count, 1e-4);
        free(update);
        free(scaled);
    }
    free(expected);
    free(grads);
    tiny_close(&t);
}

/* A matrix whose gradient ends goes on in the same direction, as far in each step. */
static void momentum_goes_on_alone(void **state)
{
    (void)state;
    tiny t;
    tiny_open(&t);
    const rank_tensor of = tensor_of(&t.config, "attn.c_attn.weight");
    float *grads = random_grads(t.param_count, 7);
    float *nothing = calloc(t.param_count, sizeof *nothing);
    float *params = calloc(t.param_count, sizeof *params);
    float *first = calloc(of.count, sizeof *first);
    assert_non_null(nothing);
    assert_non_null(params);
    assert_non_null(first);
    rank_optimizer *optimizer = make(&t.config, 1, 0);
    step(optimizer, 1, params, grads);
    memcpy(first, params + of.offset, of.count * sizeof *first);
    step(optimizer, 2, params, nothing);
    const float kept = 1.0f - (float)(RATE * adamw.weight_decay);
    for (size_t i = 0; i < of.count; i++) {
        params[of.offset + i] -= kept * first[i];
    }
    test_check_close("update", params + of.offset, first, of.count, 1e-4);
    rank_optimizer_destroy(optimizer);
    free(first);
    free(params);
    free(nothing);
    free(grads);
    tiny_close(&t);
}

/* Of zeros there is no direction: weights only decay, and nothing is NaN. */
static void no_gradient_is_no_update(void **state)
{
    (void)state;
    tiny t;
    tiny_open(&t);
    float *grads = calloc(t.param_count, sizeof *grads);
    assert_non_null(grads);
    float *before = malloc(t.param_count * sizeof *before);
    assert_non_null(before);
    memcpy(before, t.params, t.param_count * sizeof *before);
    rank_optimizer *optimizer = make(&t.config, 1, 0);
    step(optimizer, 1, t.params, grads);
    for (size_t i = 0; i < t.param_count; i++) {
        assert_true(fabsf(t.params[i] - before[i]) <= 0.0021f * fabsf(before[i]));
    }
    rank_optimizer_destroy(optimizer);
    free(grads);
    free(before);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_updates_as_pytorch_does),
        cmocka_unit_test(ranks_that_share_have_the_bits_of_one),
        cmocka_unit_test(an_update_is_nearly_orthogonal),
        cmocka_unit_test(tall_matrices_get_orthogonal_columns),
        cmocka_unit_test(a_matrix_of_rank_one_stays_one),
        cmocka_unit_test(the_size_of_a_gradient_does_not_count),
        cmocka_unit_test(momentum_goes_on_alone),
        cmocka_unit_test(no_gradient_is_no_update),
    };
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
