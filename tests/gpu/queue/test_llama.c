/* Engines of Llamas, a Qwen2 and a Qwen3 on the emulated device: their tokens are the CPU's, and a cache in bfloat16 takes the
 * heads that it can, however wide the model is. */
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "backend/cuda/cuda.h"
#include "generate/engine.h"
#include "model/llama/parts.h"
#include "support.h"

enum { REQUESTS = 3, TOKENS = 4 };

typedef enum kind { LLAMA, QWEN2, QWEN3 } kind;

/* 6 heads of that many elements, 3 of keys and values. */
static rank_model_config shape(kind of, int width, int head_width)
{
    rank_model_config config = {.family = &rank_llama,
                                .vocab_size = 101,
                                .width = width,
                                .layers = 2,
                                .heads = 6,
                                .context = 40};
    config.settings[LLAMA_KV_HEADS] = 3;
    config.settings[LLAMA_HEAD_WIDTH] = head_width;
    config.settings[LLAMA_HIDDEN] = 56;
    config.settings[LLAMA_EPSILON] = 1e-5;
    config.settings[LLAMA_THETA] = 100;
    config.settings[LLAMA_BIASED] = of == QWEN2;
    config.settings[LLAMA_HEAD_NORMS] = of == QWEN3;
    return config;
}

static void answer(rank_engine *engine)
{
    static const int32_t prompt[] = {1, 7, 30, 4, 9, 2, 90, 3, 5, 100, 44, 45, 46, 47, 11};
    base_error error;
    bool ended = false;
    for (int i = 0; i < REQUESTS; i++) {
        rank_request request = {
            .prompt_count = 1 + 6 * i, .max_new_tokens = TOKENS, .sample = {.top_p = 1}};
        assert_ok(rank_engine_submit(engine, &request, prompt + i, &error), &error);
    }
    while (!rank_engine_is_idle(engine)) {
        assert_ok(rank_engine_step(engine, false, &ended, &error), &error);
    }
}

/* backend NULL: the CPU's. */
static base_status decode(const rank_backend *backend, const rank_model_config *config,
                          rank_type type, answers *found, base_error *reterr)
{
    base_error error;
    rank_device device = {.backend = backend};
    float *host = calloc(rank_model_param_count(config), sizeof *host);
    rank_flat_params flat = {config, host};
    const rank_tensor_source source = rank_flat_source(&flat);
    rank_engine *engine = NULL;
    assert_non_null(host);
    rank_model_init(config, 5, host);
    for (size_t i = 0; i < rank_model_param_count(config); i++) {
        host[i] *= 8; /* so that attention says something */
        host[i] += host[i] == 0.0f ? 0.1f * (float)(i % 9) : 0.0f; /* biases */
    }
    if (backend != NULL) {
        assert_ok(backend->open(&device.queue, &error), &error);
    } else {
        assert_ok(rank_device_open("cpu", &device, &error), &error);
    }
    *found = (answers){.counts = {0}};
    const base_status status = rank_engine_create(&(rank_engine_options){.config = config,
                                                                         .device = &device,
                                                                         .source = &source,
                                                                         .type = type,
                                                                         .cache_type = type,
                                                                         .sequences = 2,
                                                                         .chunk_tokens = 8,
                                                                         .block_tokens = 16,
                                                                         .waiting_max = REQUESTS,
                                                                         .on_event = keep,
                                                                         .user = found},
                                                  &engine, reterr);
    if (status == BASE_OK) {
        answer(engine);
    }
    rank_engine_destroy(engine);
    rank_device_close(&device);
    free(host);
    return status;
}

static void tokens_are_the_cpus(void **state)
{
    static const struct {
        kind of;
        int width;
        int head_width;
    } shapes[] = {{LLAMA, 36, 8}, {LLAMA, 41, 6}, {QWEN2, 36, 8}, {QWEN3, 36, 10}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        base_error error;
        answers expected;
        answers found;
        const rank_model_config config = shape(shapes[i].of, shapes[i].width, shapes[i].head_width);
        assert_ok(decode(NULL, &config, RANK_FLOAT32, &expected, &error), &error);
        assert_ok(decode(&rank_cuda_exact_backend, &config, RANK_FLOAT32, &found, &error), &error);
        assert_memory_equal(&found, &expected, sizeof found);
        assert_ok(decode(&rank_cuda_backend, &config, RANK_FLOAT32, &found, &error), &error);
        assert_memory_equal(&found, &expected, sizeof found);
    }
}

/* It is the width of heads that counts, and not the model's. */
static void a_cache_in_bfloat16_takes_heads_of_eights(void **state)
{
    base_error error;
    answers found;
    (void)state;
    const rank_model_config fits = shape(QWEN2, 36, 8);
    assert_ok(decode(&rank_cuda_backend, &fits, RANK_BFLOAT16, &found, &error), &error);
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(found.counts[i], TOKENS);
    }
    const rank_model_config odd = shape(LLAMA, 48, 12);
    assert_status(decode(&rank_cuda_backend, &odd, RANK_BFLOAT16, &found, &error),
                  BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "not 12"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_the_cpus),
        cmocka_unit_test(a_cache_in_bfloat16_takes_heads_of_eights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
