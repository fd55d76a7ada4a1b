/* Everything that reads a family's description, with a family that it has never seen. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "rank/checkpoint.h"
#include "rank/optim.h"
#include "support.h"

enum { TOKENS = 12, VOCAB = 19, STEPS = 80 };

typedef struct bed {
    rank_model_config config;
    rank_device device;
    rank_model *model;
    rank_hooks hooks;
    float *params;
    float *grads;
    size_t count;
} bed;

static int32_t ids[TOKENS];
static int32_t targets[TOKENS];
static const int32_t segments[] = {0, 5, TOKENS};
static const rank_batch batch = {.token_count = TOKENS,
                                 .ids = ids,
                                 .targets = targets,
                                 .segment_count = 2,
                                 .segment_start = segments};

static void bed_open(bed *b)
{
    base_error error;
    json_t *object = json_pack("{s:i, s:i, s:i, s:i, s:f}", "vocab", VOCAB, "width", 16, "layers",
                               2, "context", 8, "deviation", 0.3);
    *b = (bed){.count = 0};
    assert_ok(chain_family.configure(object, &b->config, &error), &error);
    json_decref(object);
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = i * 7 % VOCAB;
        targets[i] = i % 4 == 1 ? -1 : i * 3 % VOCAB;
    }
    b->count = rank_model_param_count(&b->config);
    b->params = malloc(b->count * sizeof *b->params);
    b->grads = malloc(b->count * sizeof *b->grads);
    assert_non_null(b->params);
    assert_non_null(b->grads);
    rank_model_init(&b->config, 5, b->params);
    b->hooks = rank_hooks_flat(b->params);
    assert_ok(rank_device_open("cpu", &b->device, &error), &error);
    assert_ok(rank_model_create(&(rank_model_options){.config = &b->config,
                                                      .device = &b->device,
                                                      .token_count_max = TOKENS,
                                                      .training = true},
                                &b->model, &error),
              &error);
}

static void bed_close(bed *b)
{
    rank_model_destroy(b->model);
    rank_device_close(&b->device);
    free(b->params);
    free(b->grads);
}

static double loss_of(bed *b)
{
    base_error error;
    rank_result result;
    assert_ok(rank_model_forward(b->model, &b->hooks, &batch, NULL, &result, &error), &error);
    return result.loss_sum;
}

static double train(bed *b)
{
    base_error error;
    rank_result result;
    assert_ok(rank_model_train(b->model, &b->hooks, &batch, b->grads, &result, &error), &error);
    assert_int_equal(result.target_count, 9);
    return result.loss_sum;
}

/* Differences of the loss, one element in eleven. */
static void its_gradients_are_differences(void **state)
{
    (void)state;
    const float step = 0x1p-7f;
    bed b;
    bed_open(&b);
    assert_true(fabs(train(&b) - loss_of(&b)) < 1e-5);
    for (size_t i = 0; i < b.count; i += 11) {
        const float kept = b.params[i];
        b.params[i] = kept + step;
        const double up = loss_of(&b);
        b.params[i] = kept - step;
        const double down = loss_of(&b);
        b.params[i] = kept;
        assert_true(fabs((up - down) / (2.0 * (double)step) - (double)b.grads[i]) < 2e-2);
    }
    bed_close(&b);
}

static void it_learns(void **state)
{
    (void)state;
    base_error error;
    bed b;
    rank_optimizer *optimizer = NULL;
    const rank_optimizer_options options = {
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}};
    bed_open(&b);
    assert_ok(rank_optimizer_create(&b.device, &b.config, &options, &optimizer, &error), &error);
    const double before = train(&b);
    for (int64_t i = 1; i <= STEPS; i++) {
        (void)train(&b);
        rank_optimizer_step(
            optimizer, &(rank_optimizer_values){.step = i, .learning_rate = 1e-2, .tokens = 9.0},
            b.params, b.grads);
    }
    assert_true(loss_of(&b) < before / 10.0);
    rank_optimizer_destroy(optimizer);
    bed_close(&b);
}

static void checkpoints_follow_its_description(void **state)
{
    (void)state;
    base_error error;
    test_directory scratch;
    bed b;
    bed_open(&b);
    test_directory_make(&scratch);
    const char *path = test_directory_path(&scratch, "a.safetensors");
    float *back = malloc(b.count * sizeof *back);
    assert_non_null(back);
    for (size_t i = 0; i < b.count; i++) {
        b.params[i] = (float)i;
    }
    assert_ok(rank_safetensors_write(path, &b.config, b.params, "chain.", RANK_FLOAT32, &error),
              &error);
    memset(back, 0xff, b.count * sizeof *back);
    assert_ok(rank_safetensors_read(path, &b.config, back, &error), &error);
    assert_memory_equal(back, b.params, b.count * sizeof *back);

    /* a tensor that is called a mask is passed over, but the bias has to be there */
    test_file_change(path, "chain.layers.0.bias", "chain.layers.0.mask");
    assert_status(rank_safetensors_read(path, &b.config, back, &error), BASE_ERR_INVALID);
    assert_has(error.message, "no tensor layers.0.bias in it");
    test_file_change(path, "chain.layers.0.mask", "chain.layers.0.what");
    assert_status(rank_safetensors_read(path, &b.config, back, &error), BASE_ERR_INVALID);
    free(back);
    test_directory_remove(&scratch);
    bed_close(&b);
}

static void ranks_that_fit_are_listed(void **state)
{
    (void)state;
    base_error error;
    bed b;
    bed_open(&b);
    assert_ok(rank_model_check_world(&b.config, 8, &error), &error); /* 16 columns in twos */
    assert_status(rank_model_check_world(&b.config, 3, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "between 1, 2, 4, 8"));
    assert_status(rank_model_check_world(&b.config, 16, &error), BASE_ERR_INVALID);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_gradients_are_differences),
        cmocka_unit_test(it_learns),
        cmocka_unit_test(checkpoints_follow_its_description),
        cmocka_unit_test(ranks_that_fit_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
