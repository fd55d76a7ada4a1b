/* Whole inference jobs: the texts of one model on several ranks. Their record is in
 * test_inference_record.c. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "inference.h"

static void draws_do_not_depend_on_the_number_of_ranks(void **state)
{
    (void)state;
    char *one = inference_tokens("1", "drawn-1", FLAGS(DRAWN));
    char *greedy = inference_tokens("1", "greedy-1", FLAGS(PROMPTS));
    char *other = inference_tokens("1", "other-1", FLAGS(DRAWN, "--sampling-seed", "7"));
    const struct {
        const char *ranks;
        const char *transport;
    } runs[] = {{"2", "shm"}, {"4", "shm"}, {"2", "tcp"}, {"4", "tcp"}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        char *more = inference_tokens(runs[i].ranks, "drawn-n",
                                      FLAGS(DRAWN, "--transport", runs[i].transport));
        assert_string_equal(more, one);
        free(more);
    }
    assert_string_not_equal(greedy, one);
    assert_string_not_equal(other, one);
    char *limited =
        inference_tokens("2", "limited-2", FLAGS(PROMPTS, "--temperature", "0.9", "--top-k", "1"));
    assert_string_equal(limited, greedy);
    free(limited);
    free(other);
    free(greedy);
    free(one);
}

/* One model on each of two ranks draws what one model on both draws. */
static void replicas_draw_the_same(void **state)
{
    (void)state;
    static test_program split;
    static test_program dealt;
    char out[BASE_PATH_BYTES];
    (void)snprintf(out, sizeof out, "%s", test_shared_path("dealt"));
    assert_int_equal(inference_run(&split, "tp-cpu", "2", out, FLAGS(DRAWN)), 0);
    assert_int_equal(inference_run(&dealt, "generate", "2", NULL, FLAGS(DRAWN)), 0);
    assert_string_equal(split.text[TEST_STDOUT], dealt.text[TEST_STDOUT]);
    assert_int_equal(inference_run(&dealt, "generate", "2", NULL, FLAGS(DRAWN, "--speculate", "5")),
                     0);
    assert_string_equal(split.text[TEST_STDOUT], dealt.text[TEST_STDOUT]);
}

/* Texts wait for room in a small cache, and are what they are in one of whole contexts. What can never fit is
 * refused before the job. */
static void a_small_cache_changes_no_text(void **state)
{
    (void)state;
    static test_program program;
    const char *const *flags = FLAGS(DRAWN, "--ignore-eos", "--max-new-tokens", "20");
    char *whole = inference_tokens("2", "cache-whole", flags);
    json_t *results = inference_results("cache-whole");
    const double whole_bytes =
        inference_real(json_array_get(json_object_get(results, "ranks"), 0), "cache_bytes");
    json_decref(results);
    char *small = inference_tokens(
        "2", "cache-small",
        FLAGS(DRAWN, "--ignore-eos", "--max-new-tokens", "20", "--cache-tokens", "40"));
    assert_string_equal(small, whole);
    results = inference_results("cache-small");
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 0);
    assert_int_equal((int)inference_real(rank, "cache_tokens"), 48); /* three blocks */
    assert_true(inference_real(rank, "cache_bytes") < whole_bytes / 10);
    json_decref(results);
    free(small);
    free(whole);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            inference_run(&program, i == 0 ? "tp-cpu" : "generate", "2", NULL,
                          FLAGS(PROMPTS, "--max-new-tokens", "20", "--cache-tokens", "16")),
            2);
        assert_has(program.text[TEST_STDERR], "do not fit into the cache, which has room for 16");
    }
}

#define LONG PROMPTS, "--ignore-eos", "--max-new-tokens", "200" /* up to a full context */

/* Greedy and drawn: with drafts, of which many are accepted and many are not, the tokens are the same. */
static void drafts_change_no_text(void **state)
{
    (void)state;
    static const char *const ways[][4] = {
        {NULL}, {"--temperature", "0.1", NULL}, {"--temperature", "0.2", "--top-p", "0.5"}};
    static const double least[] = {200, 100, 1}; /* accepted */
    static const char *const runs[][2] = {
        {"1", "shm"}, {"2", "shm"}, {"2", "tcp"}, {"4", "shm"}, {"4", "tcp"}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const char *const *w = ways[i];
        char *plain = inference_tokens("1", "plain", FLAGS(LONG, w[0], w[1], w[2], w[3]));
        for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
            char *drafted =
                inference_tokens(runs[r][0], "drafted",
                                 FLAGS(LONG, "--speculate", r % 2 == 0 ? "16" : "3", "--transport",
                                       runs[r][1], w[0], w[1], w[2], w[3]));
            assert_string_equal(drafted, plain);
            free(drafted);
            json_t *results = inference_results("drafted");
            const json_t *rank = json_array_get(json_object_get(results, "ranks"), 0);
            const double drawn = inference_real(rank, "tokens_drawn");
            const double accepted = inference_real(rank, "tokens_accepted");
            assert_true(accepted >= least[i]);
            assert_true(accepted <= inference_real(rank, "tokens_drafted"));
            assert_true(fabs(inference_real(rank, "tokens_per_step") * (drawn - accepted) - drawn) <
                        1e-3 * drawn);
            json_decref(results);
        }
        free(plain);
    }
}

/* What the launcher prints, and what the record has, is what the ranks have counted. */
static void drafts_are_counted(void **state)
{
    (void)state;
    static test_program program;
    char line[128];
    const char *const *flags = FLAGS(PROMPTS, "--ignore-eos", "--speculate", "8");
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "counted", flags), 0);
    json_t *manifest = inference_file("counted", "manifest.json");
    json_t *results = inference_results("counted");
    json_t *lines = inference_timings("counted");
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 1);
    const double drafted = inference_real(rank, "tokens_drafted");
    double computed = 0;
    double drawn = 0;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        computed += inference_real(json_array_get(lines, i), "tokens_computed");
        drawn += inference_real(json_array_get(lines, i), "tokens_drawn");
    }
    assert_true(drafted > 0);
    assert_true(drawn == 36);
    assert_true(computed == inference_real(rank, "tokens_computed"));
    assert_true(inference_real(manifest, "tokens_drafted") == drafted);
    assert_true(inference_real(manifest, "tokens_accepted") ==
                inference_real(rank, "tokens_accepted"));
    (void)snprintf(line, sizeof line, "drafts: %.0f tokens, %.0f of them accepted; %.2f tokens",
                   drafted, inference_real(manifest, "tokens_accepted"),
                   inference_real(manifest, "tokens_per_step"));
    assert_has(program.text[TEST_STDERR], line);
    void *page = test_file_read(test_shared_path("counted/report.html"), NULL);
    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "--mode", "generate", "--ranks", "2", "--checkpoint",
                             inference_model.out, "--no-bind", "--max-new-tokens", "12", PROMPTS,
                             "--ignore-eos", "--speculate", "8"),
                       FLAGS(NULL));
    assert_int_equal(test_program_wait(&program), 0);
    assert_has(program.text[TEST_STDERR], line); /* a draft depends on its text alone */
    (void)snprintf(line, sizeof line, "of %.0f drafted tokens were right", drafted);
    assert_has((const char *)page, line);
    free(page);
    json_decref(lines);
    json_decref(results);
    json_decref(manifest);
}

static void a_dry_run_names_the_files(void **state)
{
    (void)state;
    static test_program program;
    static test_program run;
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "dry", FLAGS(PROMPTS, "--dry-run")), 0);
    assert_int_equal(inference_run(&run, "tp-cpu", "2", "dry", FLAGS(PROMPTS)), 0);
    training_assert_files(&program, test_shared_path("dry"));
}

static void drafts_are_refused_on_gpus(void **state)
{
    (void)state;
    static test_program program;
    assert_int_equal(
        inference_run(&program, "tp-nccl", "1", "never", FLAGS(PROMPTS, "--speculate", "2")), 2);
    assert_has(program.text[TEST_STDERR], "--speculate goes with modes on CPUs");
}

/* One model in blocks has the same texts however it is cut, and with drafts; between `least` and `most` bytes
 * for a number; and no place in other modes. */
static void check_blocks(const char *type, double least, double most)
{
    static test_program program;
    static const char *const ranks[] = {"2", "4"};
    char *alone = inference_tokens("1", type, FLAGS(LONG, "--weights", type));
    json_t *results = inference_results(type);
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 0);
    const double bytes = inference_real(rank, "weight_bytes");
    const double elements = inference_real(rank, "weight_elements");
    assert_string_equal(json_string_value(json_object_get(rank, "weight_type")), type);
    assert_true(bytes > least * elements && bytes < most * elements);
    json_decref(results);
    for (size_t i = 0; i < 2; i++) {
        char *cut =
            inference_tokens(ranks[i], type, FLAGS(LONG, "--weights", type, "--speculate", "3"));
        assert_string_equal(cut, alone);
        free(cut);
    }
    free(alone);
    assert_int_equal(
        inference_run(&program, "tp-nccl", "1", "never", FLAGS(PROMPTS, "--weights", type)), 2);
    assert_has(program.text[TEST_STDERR], "goes with generate and tp-cpu, not with tp-nccl");
}

static void blocks_have_one_text(void **state)
{
    (void)state;
    check_blocks("int8", 34.0 / 32, 1.4);
    check_blocks("int4", 18.0 / 32, 1.15);
}

static void sampling_out_of_range_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const wrong[][4] = {
        {"--temperature", "-1", "--temperature"},
        {"--temperature", "0.0001", "--temperature 0.0001"},
        {"--temperature", "warm", "--temperature"},
        {"--top-p", "0", "--top-p"},
        {"--top-p", "0.5", "--top-p without --temperature"},
        {"--top-k", "-1", "--top-k"},
        {"--sampling-seed", "-3", "--sampling-seed"},
    };
    static test_program program;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const int code = inference_run(&program, "tp-cpu", "2", "never",
                                       FLAGS(PROMPTS, wrong[i][0], wrong[i][1]));
        assert_int_equal(code, 2);
        assert_has(program.text[TEST_STDERR], wrong[i][2]);
    }
}

/* The streamed text is the one in the results, with one newline. */
static void one_text_streams(void **state)
{
    (void)state;
    static test_program program;
    const char *const *flags = FLAGS("--prompt", "he goed to school");
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "streamed", flags), 0);
    json_t *results = inference_results("streamed");
    const char *text = json_string_value(
        json_object_get(json_array_get(json_object_get(results, "prompts"), 0), "text"));
    const size_t length = strlen(text);
    assert_true(length > 0);
    assert_int_equal(strncmp(program.text[TEST_STDOUT], text, length), 0);
    assert_int_equal(program.text[TEST_STDOUT][length], '\n');
    json_decref(results);
}

/* A text is interrupted when a part of it is there. The line ends, and the record has that part. */
static void an_interrupted_text_ends_with_its_line(void **state)
{
    (void)state;
    static training_run wide;
    static test_program program;
    char out[BASE_PATH_BYTES];
    training_expect(&wide, &test_shared_directory, "wide", 0,
                    FLAGS("--ranks", "1", "--heads", "4", "--width", "64", "--context", "16384",
                          "--batch", "1", "--steps", "1"));
    (void)snprintf(out, sizeof out, "%s", test_shared_path("interrupted"));
    const char *const arguments[] = {LAUNCHER_PATH,
                                     "--mode",
                                     "tp-cpu",
                                     "--ranks",
                                     "2",
                                     "--checkpoint",
                                     wide.out,
                                     "--out",
                                     out,
                                     "--prompt",
                                     "he goed to school",
                                     "--no-bind",
                                     "--ignore-eos",
                                     "--temperature",
                                     "1",
                                     "--max-new-tokens",
                                     "16000",
                                     NULL};
    test_program_start(&program, arguments, FLAGS(NULL));
    test_program_wait_text(&program, TEST_STDOUT, "e");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&program), 128 + SIGINT);
    test_program_assert_no_children();
    const char *text = program.text[TEST_STDOUT];
    assert_int_equal(text[program.text_bytes[TEST_STDOUT] - 1], '\n');
    json_t *results = inference_results("interrupted");
    const json_t *prompt = json_array_get(json_object_get(results, "prompts"), 0);
    assert_string_equal(json_string_value(json_object_get(prompt, "finish_reason")), "cancelled");
    const char *kept = json_string_value(json_object_get(prompt, "text"));
    assert_int_equal(strlen(kept), program.text_bytes[TEST_STDOUT] - 1);
    assert_memory_equal(kept, text, strlen(kept));
    json_decref(results);
}

static void write_generation_config(const char *text)
{
    base_error error;
    char path[BASE_PATH_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/generation_config.json", inference_model.out);
    assert_ok(base_file_write(path, text, strlen(text), &error), &error);
}

static size_t first_count(const char *name, const char *key, const char *const *flags)
{
    json_t *results = inference_measure("2", name, flags);
    const size_t count = json_array_size(
        json_object_get(json_array_get(json_object_get(results, "prompts"), 0), key));
    json_decref(results);
    return count;
}

/* Makes the third token that is drawn a stop token. */
static void the_checkpoint_has_the_stop_tokens(void **state)
{
    (void)state;
    char text[128];
    assert_int_equal(first_count("whole", "token_ids", FLAGS(PROMPTS)), 12);
    json_t *results = inference_results("whole");
    const json_t *ids =
        json_object_get(json_array_get(json_object_get(results, "prompts"), 0), "token_ids");
    size_t before = 0; /* where that token comes first */
    const json_int_t third = json_integer_value(json_array_get(ids, 2));
    while (json_integer_value(json_array_get(ids, before)) != third) {
        before++;
    }
    (void)snprintf(text, sizeof text, "{\"eos_token_id\":[511,%d],\"prompt_suffix\":\" →\"}",
                   (int)third);
    json_decref(results);
    write_generation_config(text);
    assert_int_equal(first_count("ended", "token_ids", FLAGS(PROMPTS)), before);
    assert_int_equal(first_count("ignored", "token_ids", FLAGS(PROMPTS, "--ignore-eos")), 12);
}

static void the_checkpoint_has_the_suffix_of_prompts(void **state)
{
    (void)state;
    write_generation_config("{\"eos_token_id\":511,\"prompt_suffix\":\"\"}");
    const size_t bare = first_count("bare", "prompt_token_ids", FLAGS(PROMPTS));
    write_generation_config("{\"eos_token_id\":511,\"prompt_suffix\":\" →\"}");
    const size_t arrow = first_count("arrow", "prompt_token_ids", FLAGS(PROMPTS));
    assert_true(arrow > bare);
    write_generation_config("{\"bos_token_id\":511,\"eos_token_id\":511,\"do_sample\":false}");
    assert_int_equal(first_count("older", "prompt_token_ids", FLAGS(PROMPTS)), arrow);
    assert_int_equal(
        first_count("older-all", "prompt_token_ids", FLAGS(PROMPTS, "--loss-on", "all")), bare);
    write_generation_config("{\"eos_token_id\":512}");
    static test_program program;
    assert_int_not_equal(inference_run(&program, "tp-cpu", "2", "never", FLAGS(PROMPTS)), 0);
    assert_has(program.text[TEST_STDERR], "eos_token_id");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_do_not_depend_on_the_number_of_ranks),
        cmocka_unit_test(replicas_draw_the_same),
        cmocka_unit_test(a_small_cache_changes_no_text),
        cmocka_unit_test(drafts_change_no_text),
        cmocka_unit_test(drafts_are_counted),
        cmocka_unit_test(a_dry_run_names_the_files),
        cmocka_unit_test(drafts_are_refused_on_gpus),
        cmocka_unit_test(blocks_have_one_text),
        cmocka_unit_test(sampling_out_of_range_is_refused_by_name),
        cmocka_unit_test(one_text_streams),
        cmocka_unit_test(an_interrupted_text_ends_with_its_line),
        cmocka_unit_test(the_checkpoint_has_the_stop_tokens),
        cmocka_unit_test(the_checkpoint_has_the_suffix_of_prompts),
    };
    return cmocka_run_group_tests(tests, inference_make_model, test_shared_directory_remove);
}
