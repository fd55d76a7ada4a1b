/* Training and generating on a backend that counts operations and lets no other code touch its
 * memory. */
#include <stdlib.h>
#include <string.h>

#include "generate/generate.h"
#include "guarded.h"
#include "rank/optim.h"
#include "support.h"

enum { TOKENS = 40, VOCAB = 37, STEPS = 3 };

static rank_model_config config = {
    .vocab_size = VOCAB, .width = 20, .layers = 2, .heads = 2, .context = 24};

/* Parameters and gradients on a device. */
typedef struct bed {
    rank_device device;
    rank_model *model;
    rank_optimizer *optimizer;
    float *params;
    float *grads;
    size_t size_bytes;
    double loss; /* of the last step */
} bed;

static void make_array(const bed *b, float **array)
{
    base_error error;
    void *memory = NULL;
    assert_ok(b->device.backend->alloc(b->device.queue, RANK_MEMORY_WEIGHTS, b->size_bytes, &memory,
                                       &error),
              &error);
    *array = memory;
}

static void bed_open(bed *b)
{
    base_error error;
    void *host = NULL;
    config.family = rank_family_default();
    b->size_bytes = rank_model_param_count(&config) * sizeof(float);
    make_array(b, &b->params);
    make_array(b, &b->grads);
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

static void train(bed *b)
{
    base_error error;
    int32_t ids[TOKENS];
    int32_t targets[TOKENS];
    const int32_t segments[] = {0, 24, TOKENS};
    const rank_hooks hooks = rank_hooks_flat(b->params);
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = i * 7 % VOCAB;
        targets[i] = i % 3 == 0 ? -1 : i * 5 % VOCAB; /* some rows are left out */
    }
    const rank_batch batch = {.token_count = TOKENS,
                              .ids = ids,
                              .targets = targets,
                              .segment_count = 2,
                              .segment_start = segments};
    for (int64_t step = 1; step <= STEPS; step++) {
        rank_result result;
        assert_ok(rank_model_train(b->model, &hooks, &batch, b->grads, &result, &error), &error);
        rank_optimizer_step(b->optimizer,
                            &(rank_optimizer_values){.step = step,
                                                     .learning_rate = 1e-2,
                                                     .tokens = (double)result.target_count},
                            b->params, b->grads);
        assert_ok(b->device.backend->sync(b->device.queue, &error), &error);
        b->loss = result.loss_sum;
    }
}

static void copy_out(const bed *b, float *to)
{
    base_error error;
    void *host = NULL;
    assert_ok(
        b->device.backend->map(b->device.queue, b->params, b->size_bytes, false, &host, &error),
        &error);
    memcpy(to, host, b->size_bytes);
    b->device.backend->unmap(b->device.queue, host);
}

/* Products read a transposed operand here, in chunks of 48 rows: all 40 in one. So each layer takes
 * 4 products forward and 8 backward, the logits 1 and 2. */
static void training_goes_through_the_backend(void **state)
{
    (void)state;
    base_error error;
    bed guarded = {.loss = 0.0};
    bed cpu = {.loss = 0.0};
    guarded_open(&guarded.device);
    assert_ok(rank_device_open("cpu", &cpu.device, &error), &error);
    bed_open(&guarded);
    bed_open(&cpu);
    train(&guarded);
    train(&cpu);
    const guarded_counts counts = guarded_count(&guarded.device);
    assert_int_equal(counts.products, STEPS * (config.layers * 12 + 3));
    assert_int_equal(counts.attentions, STEPS * config.layers * 2);
    assert_int_equal(counts.adamws, STEPS); /* one for all tensors */
    float *a = malloc(guarded.size_bytes);
    float *b = malloc(cpu.size_bytes);
    assert_non_null(a);
    assert_non_null(b);
    copy_out(&guarded, a);
    copy_out(&cpu, b);
    assert_memory_equal(a, b, cpu.size_bytes); /* the length of chunks changes no bit */
    assert_true(guarded.loss - cpu.loss < 1e-3 && cpu.loss - guarded.loss < 1e-3);
    free(a);
    free(b);
    bed_close(&guarded);
    bed_close(&cpu);
}

static void count_answer(void *user, const rank_answer *answer)
{
    *(size_t *)user += strlen(answer->text) <= answer->text_bytes;
}

static void generating_goes_through_the_backend(void **state)
{
    (void)state;
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    bed b = {.loss = 0.0};
    size_t answers = 0;
    static const char *const prompts[] = {"he goed", "she"};
    guarded_open(&b.device);
    assert_ok(rank_tokenizer_load(ORACLE_DIRECTORY "/tokenizer.json", &tokenizer, &error), &error);
    config.vocab_size = rank_tokenizer_vocab_size(tokenizer);
    bed_open(&b);
    const rank_generate_options options = {.device = &b.device,
                                           .config = &config,
                                           .params = b.params,
                                           .tokenizer = tokenizer,
                                           .sequences = 2,
                                           .new_tokens_max = 3,
                                           .on_answer = count_answer,
                                           .answer_user = &answers};
    assert_ok(rank_generate(&options, prompts, 2, NULL, &error), &error);
    assert_int_equal(answers, 2);
    bed_close(&b);
    rank_tokenizer_destroy(tokenizer);
    config.vocab_size = VOCAB;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_goes_through_the_backend),
        cmocka_unit_test(generating_goes_through_the_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
