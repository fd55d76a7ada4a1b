/* Parity of a whole model: training steps of MiniGPT, a Llama, a Qwen2 and a Qwen3 beside the CPU's, and answers to
 * prompts. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "generate/generate.h"
#include "model/family.h"
#include "rank/optim.h"
#include "support.h"

enum {
    TOKENS = 56, /* of the longest batch; 64 when it is padded */
    STEPS = 3,
    BATCHES = 2, /* of a step; the second one's gradients are used */
    GRAPHS = 4,
};

#define BFLOAT16_LOSS 5e-3 /* of losses in bfloat16, relative */

/* MiniGPT's shape, with a few sentences for a batch. Under AddressSanitizer, which takes five times as long, it is half
 * as wide, with heads of the same width. */
static const rank_model_config minigpt = {.vocab_size = 512,
                                          .width = TEST_HAS_ASAN ? 64 : 128,
                                          .layers = 2,
                                          .heads = TEST_HAS_ASAN ? 2 : 4,
                                          .context = 64};

/* A Llama, or a model of another type, whose heads share keys and values, and are together wider than
 * the stream. */
static rank_model_config small_llama(const char *type)
{
    static const char TEXT[] =
        "{\"vocab_size\":512,\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,\"rms_norm_eps\":1e-5,"
        "\"max_position_embeddings\":64,\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}";
    base_error error;
    rank_model_config config;
    json_t *object = json_loads(TEXT, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    assert_int_equal(json_object_set_new(object, "model_type", json_string(type)), 0);
    assert_ok(rank_family_find(type)->configure(object, &config, &error), &error);
    json_decref(object);
    return config;
}

/* Parameters and gradients on a device. */
typedef struct bed {
    rank_device device; /* the twin's */
    rank_model_config config;
    rank_model *model;
    rank_optimizer *optimizer;
    rank_graphs *graphs; /* NULL on the CPU, which captures nothing and pads no batch */
    float *params;
    float *grads;
    rank_bfloat16 *rounded; /* NULL: products read float32 */
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

static void bed_open(bed *b, const rank_device *device, const rank_model_config *config,
                     rank_type type, bool recompute)
{
    base_error error;
    void *host = NULL;
    *b = (bed){.device = *device, .config = *config};
    b->config.family = config->family != NULL ? config->family : rank_family_default();
    b->size_bytes = rank_model_param_count(&b->config) * sizeof(float);
    b->params = make_array(b);
    b->grads = make_array(b);
    assert_ok(
        b->device.backend->map(b->device.queue, b->params, b->size_bytes, true, &host, &error),
        &error);
    rank_model_init(&b->config, 3, host);
    b->device.backend->unmap(b->device.queue, host);
    if (type == RANK_BFLOAT16) {
        b->rounded = (rank_bfloat16 *)make_array(b);
        b->device.backend->cast(b->device.queue,
                                &(rank_cast){b->size_bytes / sizeof(float), b->params, b->rounded});
    }
    if (device->backend->capture != NULL) {
        assert_ok(rank_graphs_create(device->backend, GRAPHS, &b->graphs, &error), &error);
    }
    assert_ok(rank_model_create(&(rank_model_options){.config = &b->config,
                                                      .device = &b->device,
                                                      .token_count_max = TOKENS,
                                                      .training = true,
                                                      .recompute = recompute,
                                                      .graphs = b->graphs,
                                                      .batches_max = BATCHES,
                                                      .type = type},
                                &b->model, &error),
              &error);
    const rank_optimizer_options options = {
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1},
        .norm_max = 1.0,
        .graphs = b->graphs,
        .rounded = b->rounded};
    assert_ok(rank_optimizer_create(&b->device, &b->config, &options, &b->optimizer, &error),
              &error);
}

static void bed_close(bed *b)
{
    rank_graphs_destroy(b->graphs);
    rank_model_destroy(b->model);
    rank_optimizer_destroy(b->optimizer);
    b->device.backend->release(b->device.queue, b->params);
    b->device.backend->release(b->device.queue, b->grads);
    b->device.backend->release(b->device.queue, b->rounded);
}

/* Two batches without a wait between them. The first is short, so that it has another size. The
 * second is shorter by a token at each step, so that what a graph reads varies. Some rows have no
 * target, so on the CPU rows of the last layer move. */
static void enqueue(bed *b, int64_t step)
{
    base_error error;
    int32_t ids[TOKENS];
    int32_t targets[TOKENS];
    rank_hooks hooks = rank_hooks_flat(b->params);
    hooks.rounded = b->rounded;
    for (int i = 0; i < TOKENS; i++) {
        ids[i] = i * 7 % 30 * 17;
        targets[i] = i % 3 == 0 ? -1 : i * 5 % b->config.vocab_size;
    }
    const int32_t tokens = TOKENS - (int32_t)step;
    const int32_t few[] = {0, 5, 5, 9};
    const int32_t segments[] = {0, 20 + (int32_t)step, 22 + (int32_t)step, tokens};
    const rank_batch first = {
        .token_count = 9, .ids = ids, .targets = targets, .segment_count = 3, .segment_start = few};
    const rank_batch second = {.token_count = tokens,
                               .ids = ids,
                               .targets = targets,
                               .segment_count = 3,
                               .segment_start = segments};
    assert_ok(rank_model_enqueue(b->model, &hooks, &first, b->grads, &error), &error);
    assert_ok(rank_model_enqueue(b->model, &hooks, &second, b->grads, &error), &error);
    memset(ids, 0xff, sizeof ids); /* the batch is the caller's again */
    memset(targets, 0xff, sizeof targets);
    assert_status(rank_model_enqueue(b->model, &hooks, &first, b->grads, &error), BASE_ERR_STATE);
}

static void train(bed *b)
{
    base_error error;
    for (int64_t step = 1; step <= STEPS; step++) {
        rank_result results[BATCHES];
        enqueue(b, step);
        assert_ok(rank_model_results(b->model, results, BATCHES, &error), &error);
        assert_int_equal(results[0].target_count, 6);
        assert_true(results[0].loss_sum > 0.0);
        const rank_result result = results[1];
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

/* Both sizes of batches and the update: run, captured, replayed. */
static void check_graphs(const bed *b)
{
    const rank_graphs_info info = rank_graphs_get_info(b->graphs);
    const uint64_t graphs = b->graphs != NULL ? 3 : 0;
    assert_int_equal(info.captures, graphs);
    assert_int_equal(info.replays, graphs * (STEPS - 1));
    assert_string_equal(info.failure, "");
}

/* A rounded parameter is near the parameter, and no nearer value is. */
static void expect_rounded(const bed *b, const float *params)
{
    base_error error;
    void *host = NULL;
    const size_t count = b->size_bytes / sizeof *params;
    assert_ok(b->device.backend->map(b->device.queue, b->rounded, count * sizeof *b->rounded, false,
                                     &host, &error),
              &error);
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)((const rank_bfloat16 *)host)[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        assert_true(fabsf(value - params[i]) <= 0x1p-8f * fabsf(params[i]));
    }
    b->device.backend->unmap(b->device.queue, host);
}

/* The same parameters where the bits are the CPU's; else losses that agree to 1e-4. The CPU keeps all
 * activations. */
static void compare_training(twin *t, const rank_model_config *config, bool recompute)
{
    bed beds[TWIN_SIDES];
    for (int side = 0; side < TWIN_SIDES; side++) {
        bed_open(&beds[side], &t->device[side], config, RANK_FLOAT32,
                 recompute && side == TWIN_OTHER);
        train(&beds[side]);
        check_graphs(&beds[side]);
    }
    compare_losses(&beds[TWIN_CPU], &beds[TWIN_OTHER], t->exact ? 1e-12 : t->tolerance);
    if (t->exact) {
        float *expected = params_of(&beds[TWIN_CPU]);
        float *found = params_of(&beds[TWIN_OTHER]);
        assert_memory_equal(expected, found, beds[TWIN_CPU].size_bytes);
        free(expected);
        free(found);
    }
    for (int side = 0; side < TWIN_SIDES; side++) {
        bed_close(&beds[side]);
    }
}

static void training(twin *t)
{
    compare_training(t, &minigpt, false);
}

static void training_recompute(twin *t)
{
    compare_training(t, &minigpt, true);
}

static void training_llama(twin *t)
{
    const rank_model_config config = small_llama("llama");
    compare_training(t, &config, false);
}

static void training_qwen2(twin *t)
{
    const rank_model_config config = small_llama("qwen2");
    compare_training(t, &config, false);
}

static void training_qwen3(twin *t)
{
    const rank_model_config config = small_llama("qwen3");
    compare_training(t, &config, false);
}

/* Twice in bfloat16, with activations kept and computed again: equal bits, and losses near those of float32 on the CPU. What is rounded in
 * the end is what AdamW wrote. */
static void training_bfloat16(twin *t)
{
    bed cpu;
    bed gpu[2];
    float *params[2];
    bed_open(&cpu, &t->device[TWIN_CPU], &minigpt, RANK_FLOAT32, false);
    train(&cpu);
    for (int i = 0; i < 2; i++) {
        bed_open(&gpu[i], &t->device[TWIN_OTHER], &minigpt, RANK_BFLOAT16, i == 1);
        train(&gpu[i]);
        params[i] = params_of(&gpu[i]);
    }
    compare_losses(&cpu, &gpu[0], BFLOAT16_LOSS);
    assert_memory_equal(params[0], params[1], cpu.size_bytes);
    expect_rounded(&gpu[0], params[0]);
    for (int i = 0; i < 2; i++) {
        free(params[i]);
        bed_close(&gpu[i]);
    }
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

const char *parity_tokenizer = ORACLE_DIRECTORY "/tokenizer.json";

static void generate(const rank_device *device, answers *found)
{
    static const char *const prompts[] = {"he goed", "she dont like apples", "i"};
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    bed b;
    assert_ok(rank_tokenizer_load(parity_tokenizer, &tokenizer, &error), &error);
    const rank_model_config small = {.vocab_size = rank_tokenizer_vocab_size(tokenizer),
                                     .width = 32,
                                     .layers = 2,
                                     .heads = 2,
                                     .context = 64};
    bed_open(&b, device, &small, RANK_FLOAT32, false);
    const rank_generate_options options = {.device = &b.device,
                                           .config = &b.config,
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

static void generating(twin *t)
{
    answers found[TWIN_SIDES] = {{.text = ""}};
    for (int side = 0; side < TWIN_SIDES; side++) {
        generate(&t->device[side], &found[side]);
    }
    assert_true(strlen(found[TWIN_CPU].text) > 6);
    assert_string_equal(found[TWIN_CPU].text, found[TWIN_OTHER].text);
}

const parity_case parity_bfloat16_model_cases[] = {
    {.name = "bfloat16_training",
     .run = training_bfloat16,
     .shapes = 1,
     .one_order = true,
     .replays = true},
    {.name = NULL},
};

const parity_case parity_model_cases[] = {
    {.name = "training", .run = training, .shapes = 1, .one_order = true, .replays = true},
    {.name = "training_recompute",
     .run = training_recompute,
     .shapes = 1,
     .one_order = true,
     .replays = true},
    {.name = "training_llama",
     .run = training_llama,
     .shapes = 1,
     .one_order = true,
     .replays = true},
    {.name = "training_qwen2",
     .run = training_qwen2,
     .shapes = 1,
     .one_order = true,
     .replays = true},
    {.name = "training_qwen3",
     .run = training_qwen3,
     .shapes = 1,
     .one_order = true,
     .replays = true},
    {.name = "generating", .run = generating, .shapes = 1, .one_order = true, .replays = true},
    {.name = NULL},
};
