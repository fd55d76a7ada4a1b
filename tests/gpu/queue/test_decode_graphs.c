/* Decoding where captures are refused: the same tokens as where all are allowed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "emulate/emulate.h"
#include "generate/engine.h"
#include "queues.h"
#include "rank/model.h"
#include "support.h"

enum { REQUESTS = ANSWERS_MAX, SEQUENCES = 2, ALL = -1 };

/* Answers of different lengths on two sequences, so that steps have two shapes again and again. Each is
 * drawn in another way. */
static void answer(rank_engine *engine, base_error *reterr)
{
    static const int32_t prompts[REQUESTS][4] = {{1}, {4, 9}, {90, 3, 5}, {8, 6, 0, 77}};
    static const rank_sample_params ways[REQUESTS] = {
        {.top_p = 1},
        {.temperature = 1.5, .top_p = 1, .seed = 3},
        {.temperature = 1.5, .top_p = 0.9, .top_k = 9, .seed = 4},
        {.temperature = 1.5, .top_p = 0.7, .seed = 5}};
    bool ended = false;
    for (int i = 0; i < REQUESTS; i++) {
        rank_request request = {
            .prompt_count = 1 + i, .max_new_tokens = 5 + 3 * i, .sample = ways[i]};
        assert_ok(rank_engine_submit(engine, &request, prompts[i], reterr), reterr);
    }
    while (!rank_engine_is_idle(engine)) {
        assert_ok(rank_engine_step(engine, false, &ended, reterr), reterr);
    }
}

/* Returns how many graphs there were; the failure is the first one's, "" where there was none. */
static uint64_t decode(int begun, int ended, answers *found, char failure[BASE_ERROR_MESSAGE_BYTES])
{
    base_error error;
    rank_model_config config = {.vocab_size = 100,
                                .width = 32,
                                .layers = 2,
                                .heads = 2,
                                .context = 24,
                                .family = rank_family_default()};
    float *host = calloc(rank_model_param_count(&config), sizeof *host);
    rank_flat_params flat = {&config, host};
    const rank_tensor_source source = rank_flat_source(&flat);
    rank_device device = queue_open();
    rank_engine *engine = NULL;
    assert_non_null(host);
    rank_model_init(&config, 3, host);
    *found = (answers){.counts = {0}};
    assert_ok(rank_engine_create(&(rank_engine_options){.config = &config,
                                                        .device = &device,
                                                        .source = &source,
                                                        .sequences = SEQUENCES,
                                                        .chunk_tokens = 8,
                                                        .block_tokens = 16,
                                                        .waiting_max = REQUESTS,
                                                        .on_event = keep,
                                                        .user = found},
                                 &engine, &error),
              &error);
    emulate_allow_captures(begun, ended);
    answer(engine, &error);
    emulate_allow_captures(ALL, ALL);
    const rank_graphs_info info = rank_engine_get_graphs(engine);
    (void)snprintf(failure, BASE_ERROR_MESSAGE_BYTES, "%s", info.failure);
    assert_true(info.captures == 0 || info.replays > info.captures);
    rank_engine_destroy(engine);
    queue_close(&device);
    free(host);
    return info.captures;
}

static void a_refused_capture_changes_no_token(void **state)
{
    static const struct {
        int begun;
        int ended;
        const char *failure;
    } refusals[] = {{0, ALL, "beginning a capture"},
                    {1, ALL, "beginning a capture"},
                    {ALL, 0, "ending a capture"},
                    {ALL, 1, "ending a capture"}};
    answers expected;
    char failure[BASE_ERROR_MESSAGE_BYTES];
    (void)state;
    const uint64_t graphs = decode(ALL, ALL, &expected, failure);
    assert_true(graphs >= 2);
    assert_string_equal(failure, "");
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(expected.counts[i], 5 + 3 * i);
    }
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        answers found;
        const bool one = refusals[i].begun == 1 || refusals[i].ended == 1;
        assert_int_equal(decode(refusals[i].begun, refusals[i].ended, &found, failure),
                         one ? 1 : 0);
        assert_non_null(strstr(failure, refusals[i].failure));
        assert_memory_equal(&found, &expected, sizeof found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_refused_capture_changes_no_token)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
