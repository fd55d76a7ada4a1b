/* Whole jobs with a model that drafts: texts, counts and refusals. The engine's own tests are in
 * tests/rank/generate/test_engine.c. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "serving.h"

#define LONG PROMPTS, "--ignore-eos", "--max-new-tokens", "60"

static training_run other; /* with the same tokenizer, of another shape and a shorter context */

static int make_models(void **state)
{
    serving_setup(state);
    training_expect(&other, &test_shared_directory, "other", 0,
                    FLAGS("--ranks", "1", "--heads", "2", "--width", "32", "--layers", "1",
                          "--steps", "30", "--lr", "0.003", "--context", "64"));
    return 0;
}

/* The results of a run with drafts, whose tokens and log-probabilities must be these. */
static json_t *expect_tokens(const char *ranks, const char *tokens, const char *const *flags)
{
    char *drafted = inference_tokens(ranks, "drafted", flags);
    assert_string_equal(drafted, tokens);
    free(drafted);
    return inference_results("drafted");
}

/* Greedy, drawn, and with all that changes what is drawn. */
static void a_model_changes_no_text(void **state)
{
    (void)state;
    static const char *const ways[][7] = {
        {NULL},
        {"--temperature", "0.8", "--top-p", "0.9", NULL},
        {"--repetition-penalty", "1.2", "--presence-penalty", "0.4", "--logprobs", "2", NULL}};
    static const char *const ranks[] = {"1", "2", "4"};
    const char *const models[] = {inference_model.out, other.out};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const char *const *w = ways[i];
        char *plain =
            inference_tokens("1", "plain", FLAGS(LONG, w[0], w[1], w[2], w[3], w[4], w[5]));
        json_t *of_plain = inference_results("plain");
        for (size_t r = 0; r < 6; r++) {
            const char *model = models[r % 2];
            json_t *results =
                expect_tokens(ranks[r / 2], plain,
                              FLAGS(LONG, "--draft", model, "--speculate", r < 2 ? "3" : "8", w[0],
                                    w[1], w[2], w[3], w[4], w[5]));
            const json_t *rank = json_array_get(json_object_get(results, "ranks"), 0);
            const double drafted = inference_real(rank, "tokens_drafted");
            const double accepted = inference_real(rank, "tokens_accepted");
            assert_true(inference_real(rank, "draft_weight_bytes") > 0);
            assert_string_equal(
                json_string_value(json_object_get(json_object_get(results, "model"), "draft")),
                model);
            for (size_t p = 0; p < 3; p++) {
                assert_int_equal(
                    json_equal(
                        json_object_get(json_array_get(json_object_get(results, "prompts"), p),
                                        "logprobs"),
                        json_object_get(json_array_get(json_object_get(of_plain, "prompts"), p),
                                        "logprobs")),
                    w[4] != NULL);
            }
            if (r % 2 == 0) { /* the model's own drafts are what it draws */
                assert_true(accepted >= 100);
                assert_true(drafted == accepted);
            } else {
                assert_true(drafted >= 10);
            }
            json_decref(results);
        }
        json_decref(of_plain);
        free(plain);
    }
}

/* --draft alone, a record, and replicas that draft each for itself. */
static void a_draft_is_recorded(void **state)
{
    (void)state;
    static test_program program;
    static test_program plain;
    char line[64];
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "recorded",
                                   FLAGS(PROMPTS, "--ignore-eos", "--draft", inference_model.out)),
                     0);
    json_t *manifest = inference_file("recorded", "manifest.json");
    assert_string_equal(json_string_value(json_object_get(manifest, "draft_model")),
                        inference_model.out);
    const double accepted = inference_real(manifest, "tokens_accepted");
    assert_true(accepted >= 15 && accepted == inference_real(manifest, "tokens_drafted"));
    (void)snprintf(line, sizeof line, "drafts: %.0f tokens, %.0f of them accepted", accepted,
                   accepted);
    assert_has(program.text[TEST_STDERR], line);
    assert_has(program.text[TEST_STDERR], ", draft model ");
    json_decref(manifest);
    assert_int_equal(inference_run(&plain, "generate", "2", NULL, FLAGS(DRAWN)), 0);
    assert_int_equal(
        inference_run(&program, "generate", "2", NULL, FLAGS(DRAWN, "--draft", other.out)), 0);
    assert_string_equal(program.text[TEST_STDOUT], plain.text[TEST_STDOUT]);
}

static void int8_drafts_too(void **state)
{
    (void)state;
    char *plain = inference_tokens("1", "int8", FLAGS(LONG, "--weights", "int8"));
    json_t *results =
        expect_tokens("2", plain, FLAGS(LONG, "--weights", "int8", "--draft", inference_model.out));
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 1);
    assert_true(inference_real(rank, "tokens_accepted") >= 100);
    assert_true(inference_real(rank, "tokens_drafted") == inference_real(rank, "tokens_accepted"));
    json_decref(results);
    free(plain);
}

/* What is answered, with usage and log-probabilities, where the character at `at` of the text is a stop. */
static json_t *ask_until(const char *text, size_t at)
{
    char path[BASE_PATH_BYTES];
    char arguments[SERVING_COMMAND_BYTES];
    size_t bytes = 1;
    while (at > 0 && (text[at] & 0xc0) == 0x80) {
        at--;
    }
    while ((text[at + bytes] & 0xc0) == 0x80) {
        bytes++;
    }
    json_t *body = json_pack("{s:s, s:i, s:b, s:i, s:i, s:s#, s:i}", "prompt", "he goed to school",
                             "max_tokens", 60, "ignore_eos", 1, "temperature", 1, "seed", 5, "stop",
                             text + at, bytes, "logprobs", 2);
    (void)snprintf(path, sizeof path, "%s", test_shared_path("body"));
    assert_int_equal(json_dump_file(body, path, 0), 0);
    (void)snprintf(arguments, sizeof arguments, "--data-binary @%s", path);
    assert_int_equal(serving_ask("/v1/completions", arguments), 200);
    json_t *answer = json_loads(serving_reply, 0, NULL);
    assert_non_null(answer);
    json_t *result = json_pack("{s:O, s:O}", "usage", json_object_get(answer, "usage"), "choices",
                               json_object_get(answer, "choices"));
    assert_non_null(result);
    json_decref(answer);
    json_decref(body);
    return result;
}

/* Tokens of a step that stand behind a stop do not count. */
static void a_stop_ends_a_draft(void **state)
{
    (void)state;
    enum { STOPS = 8 };
    json_t *expected[STOPS];
    serving_start(&inference_model, "1", FLAGS("--no-prefix-cache"));
    char *text = serving_complete("{\"prompt\":\"he goed to school\",\"max_tokens\":60,"
                                  "\"ignore_eos\":true,\"temperature\":1,\"seed\":5}");
    const size_t step = strlen(text) / STOPS;
    for (size_t i = 0; i < STOPS; i++) {
        expected[i] = ask_until(text, i * step);
    }
    assert_int_equal(serving_end(SIGTERM), 0);
    serving_start(&inference_model, "1",
                  FLAGS("--no-prefix-cache", "--draft", inference_model.out, "--speculate", "16"));
    for (size_t i = 0; i < STOPS; i++) {
        json_t *drafted = ask_until(text, i * step);
        assert_true(json_equal(drafted, expected[i]));
        json_decref(drafted);
        json_decref(expected[i]);
    }
    assert_int_equal(serving_end(SIGTERM), 0);
    free(text);
}

/* Over HTTP, with cached beginnings, which the second model computes again. */
static void a_server_drafts(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\":\"he goed to school and she dont like apples he goed\","
                               "\"max_tokens\":30,\"ignore_eos\":true}";
    const char *const models[] = {inference_model.out, other.out};
    serving_start(&inference_model, "1", FLAGS(NULL));
    char *expected = serving_complete(body);
    assert_int_equal(serving_end(SIGTERM), 0);
    for (size_t i = 0; i < 2; i++) {
        serving_start(&inference_model, "2", FLAGS("--draft", models[i]));
        for (int again = 0; again < 3; again++) {
            char *text = serving_complete(body);
            assert_string_equal(text, expected);
            free(text);
        }
        serving_wait_metric("{result=\"length\"} 3\n");
        const char *accepted = strstr(serving_reply, "\nringfence_accepted_draft_tokens_total ");
        assert_non_null(accepted);
        assert_true(strtol(strchr(accepted, ' '), NULL, 10) >= (i == 0 ? 60 : 0));
        assert_has(serving_reply, i == 0 ? "\nringfence_draft_model_info{model=\"model\"} 1\n"
                                         : "\nringfence_draft_model_info{model=\"other\"} 1\n");
        assert_int_equal(serving_end(SIGTERM), 0);
    }
    free(expected);
}

static void refused(const char *mode, const char *says, const char *const *flags)
{
    static test_program program;
    assert_int_equal(inference_run(&program, mode, "1", "never", flags), 2);
    assert_has(program.text[TEST_STDERR], says);
}

/* A copy of the other model whose tokenizer, or vocabulary, differs. */
static const char *spoil(const char *file, const char *from, const char *to)
{
    static char path[BASE_PATH_BYTES];
    char command[4 * BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_shared_path("spoilt"));
    (void)snprintf(command, sizeof command,
                   "rm -rf '%s' && cp -r '%s' '%s' && sed -i 's/%s/%s/' '%s/%s'", path, other.out,
                   path, from, to, path, file);
    assert_int_equal(system(command), 0); /* NOLINT(concurrency-mt-unsafe) */
    return path;
}

static void what_cannot_draft_is_refused(void **state)
{
    (void)state;
    refused("tp-nccl", "--draft goes with modes on CPUs", FLAGS(PROMPTS, "--draft", other.out));
    refused("tp-cpu", "--draft drafts tokens: --speculate 0 asks for none",
            FLAGS(PROMPTS, "--draft", other.out, "--speculate", "0"));
    refused("tp-cpu", "--draft does not go with --algorithm ring",
            FLAGS(PROMPTS, "--draft", other.out, "--algorithm", "ring"));
    refused("tp-cpu", "--draft", FLAGS(PROMPTS, "--draft", "/nowhere"));
    refused("tp-cpu", "has other tokens than the model's",
            FLAGS(PROMPTS, "--draft", spoil("tokenizer.json", "\"%\": 37", "\"per cent\": 37")));
    refused("tp-cpu", "has a vocabulary of 511 tokens, and the tokenizer has 512",
            FLAGS(PROMPTS, "--draft",
                  spoil("config.json", "\"vocab_size\": *512", "\"vocab_size\":511")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_changes_no_text), cmocka_unit_test(a_draft_is_recorded),
        cmocka_unit_test(int8_drafts_too),         cmocka_unit_test(a_server_drafts),
        cmocka_unit_test(a_stop_ends_a_draft),     cmocka_unit_test(what_cannot_draft_is_refused),
    };
    return cmocka_run_group_tests(tests, make_models, test_shared_directory_remove);
}
