/* MiniGPT on the CUDA backends, on the emulator: training steps beside the CPU's, and answers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "emulate/emulate.h"
#include "generate/generate.h"
#include "rank/optim.h"
#include "support.h"

enum { TOKENS = 56, STEPS = 3 };

/* MiniGPT's shape, with a few sentences for a batch. */
static rank_model_config config = {
    .vocab_size = 512, .width = 128, .layers = 2, .heads = 4, .context = 64};

/* Parameters and gradients on a device. */
typedef struct bed {
    rank_device device;
    rank_model *model;
    rank_optimizer *optimizer;
    float *params;
    float *grads;
    size_t size_bytes;
    double loss[STEPS];
} bed;

static float *make_array(const bed *b)
{
    base_error error;
    void *memory = NULL;
    assert_ok(b->device.backend->alloc(b->device.queue, RANK_MEMORY_WEIGHTS, b->size_bytes, &memory,
                                       &error),
              &error);
    return memory;
}

static void bed_open(bed *b, const rank_backend *backend)
{
    base_error error;
    void *host = NULL;
    config.family = rank_family_default();
    *b = (bed){.size_bytes = rank_model_param_count(&config) * sizeof(float)};
    if (backend == NULL) {
        assert_ok(rank_device_open("cpu", &b->device, &error), &error);
    } else {
        b->device.backend = backend;
        assert_ok(backend->open(&b->device.queue, &error), &error);
    }
    b->params = make_array(b);
    b->grads = make_array(b);
    assert_ok(
        b->device.backend->map(b->device.queue, b->params, b->size_bytes, true, &host, &error),
        &error);
    rank_model_init(&config, 3, host);
    b->device.backend->unmap(b->device.queue, host);
    assert_ok(rank_model_create(&(rank_model_options){.config = &config,
                                                      .device = &b->device,
                                                      .token_count_max = TOKENS,
                                                      .training = true},
                                &b->model, &error),
              &error);
    const rank_optimizer_options options = {
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1},
        .norm_max = 1.0};
    assert_ok(rank_optimizer_create(&b->device, &config, &options, &b->optimizer, &error), &error);
}

static void bed_close(bed *b)
{
    rank_model_destroy(b->model);
    rank_optimizer_destroy(b->optimizer);
    b->device.backend->release(b->device.queue, b->params);
    b->device.backend->release(b->device.queue, b->grads);
    rank_device_close(&b->device);
}

/* Some rows have no target, so rows of the last layer move. */
static void train(bed *b)
{
    base_error error;
    int32_t ids[TOKENS];
    int32_t targets[TOKENS];
    const int32_t segments[] = {0, 20, 21, TOKENS};
    const rank_hooks hooks = rank_hooks_flat(b->params);
    for (int64_t step = 1; step <= STEPS; step++) {
        for (int i = 0; i < TOKENS; i++) {
            ids[i] = i * 7 % 30 * 17;
            targets[i] = i % 3 == 0 ? -1 : i * 5 % config.vocab_size;
        }
        const rank_batch batch = {TOKENS, ids, targets, 3, segments};
        rank_result result;
        assert_ok(rank_model_train(b->model, &hooks, &batch, b->grads, &result, &error), &error);
        rank_optimizer_step(b->optimizer,
                            &(rank_optimizer_values){.step = step,
                                                     .learning_rate = 1e-3,
                                                     .tokens = (double)result.target_count},
                            b->params, b->grads);
        assert_ok(b->device.backend->sync(b->device.queue, &error), &error);
        b->loss[step - 1] = result.loss_sum / (double)result.target_count;
    }
}

static float *params_of(const bed *b)
{
    base_error error;
    void *host = NULL;
    float *copy = malloc(b->size_bytes);
    assert_non_null(copy);
    assert_ok(
        b->device.backend->map(b->device.queue, b->params, b->size_bytes, false, &host, &error),
        &error);
    memcpy(copy, host, b->size_bytes);
    b->device.backend->unmap(b->device.queue, host);
    return copy;
}

static bool has_fma(const bed *cpu)
{
    rank_backend_info info;
    cpu->device.backend->info(cpu->device.queue, &info);
    return strcmp(info.kernels, "baseline") != 0;
}

/* The loss of each step within the tolerance, and falling. */
static void compare_losses(const bed *cpu, const bed *gpu, double tolerance)
{
    for (int i = 0; i < STEPS; i++) {
        if (!(fabs(cpu->loss[i] - gpu->loss[i]) <= tolerance * cpu->loss[i])) {
            fail_msg("step %d: loss %.9f, on the CPU %.9f", i + 1, gpu->loss[i], cpu->loss[i]);
        }
    }
    assert_true(gpu->loss[STEPS - 1] < gpu->loss[0]);
}

static void exact_training_has_the_cpus_parameters(void **state)
{
    (void)state;
    bed cpu;
    bed gpu;
    emulate_set_order(EMULATE_SHUFFLED, 11);
    bed_open(&cpu, NULL);
    bed_open(&gpu, &rank_cuda_exact_backend);
    train(&cpu);
    train(&gpu);
    compare_losses(&cpu, &gpu, has_fma(&cpu) ? 1e-12 : 1e-4);
    float *expected = params_of(&cpu);
    float *found = params_of(&gpu);
    if (has_fma(&cpu)) {
        assert_memory_equal(expected, found, cpu.size_bytes);
    }
    free(expected);
    free(found);
    bed_close(&gpu);
    bed_close(&cpu);
    assert_int_equal(emulate_count().blocks, 0);
    assert_int_equal(emulate_count().objects, 0);
}

static void training_with_cublaslt_has_the_cpus_losses(void **state)
{
    (void)state;
    bed cpu;
    bed gpu;
    const uint64_t products = emulate_count().products;
    emulate_set_order(EMULATE_FORWARD, 0);
    bed_open(&cpu, NULL);
    bed_open(&gpu, &rank_cuda_backend);
    train(&cpu);
    train(&gpu);
    compare_losses(&cpu, &gpu, 1e-4);
    /* Of a layer's products forward two have leaves; the other two, and all eight backward, and
     * three for the logits are cublasLt's. */
    assert_int_equal(emulate_count().products - products,
                     (uint64_t)(STEPS * (config.layers * 10 + 3)));
    bed_close(&gpu);
    bed_close(&cpu);
}

typedef struct answers {
    char text[256];
} answers;

static void keep_answer(void *user, const rank_answer *answer)
{
    answers *kept = user;
    strncat(kept->text, answer->text, 100);
    strncat(kept->text, "|", 2);
}

static void generate(const rank_backend *backend, answers *found)
{
    static const char *const prompts[] = {"he goed", "she dont like apples", "i"};
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    bed b;
    assert_ok(rank_tokenizer_load(ORACLE_DIRECTORY "/tokenizer.json", &tokenizer, &error), &error);
    config = (rank_model_config){.vocab_size = rank_tokenizer_vocab_size(tokenizer),
                                 .width = 32,
                                 .layers = 2,
                                 .heads = 2,
                                 .context = 64};
    bed_open(&b, backend);
    const rank_generate_options options = {.device = &b.device,
                                           .config = &config,
                                           .params = b.params,
                                           .tokenizer = tokenizer,
                                           .sequences = 2,
                                           .new_tokens_max = 6,
                                           .ignore_end = true,
                                           .on_answer = keep_answer,
                                           .answer_user = found};
    assert_ok(rank_generate(&options, prompts, 3, NULL, &error), &error);
    bed_close(&b);
    rank_tokenizer_destroy(tokenizer);
}

static void answers_are_the_cpus(void **state)
{
    (void)state;
    answers expected = {.text = ""};
    answers found = {.text = ""};
    emulate_set_order(EMULATE_BACKWARD, 0);
    generate(NULL, &expected);
    generate(&rank_cuda_exact_backend, &found);
    assert_true(strlen(expected.text) > 6);
    assert_string_equal(expected.text, found.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_training_has_the_cpus_parameters),
        cmocka_unit_test(training_with_cublaslt_has_the_cpus_losses),
        cmocka_unit_test(answers_are_the_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
