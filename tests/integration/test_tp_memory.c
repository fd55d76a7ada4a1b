/* The memory that a rank of a cut model takes: not much more than its part of the weights. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "rank/checkpoint.h"
#include "rank/tokenizer.h"
#include "support.h"

static test_program program; /* its buffers are big */
static double model_bytes;

static const char tokenizer_path[] = ORACLE_DIRECTORY "/tokenizer.json";

/* A model of 102 MB, or 51 in bfloat16: what a rank has beside its weights must not hide a second
 * copy. */
static void write_model(rank_type type, rank_type held)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    assert_ok(rank_tokenizer_load(tokenizer_path, &tokenizer, &error), &error);
    const rank_model_config config = {.family = rank_family_default(),
                                      .vocab_size = rank_tokenizer_vocab_size(tokenizer),
                                      .width = 512,
                                      .layers = 8,
                                      .heads = 4,
                                      .context = 64};
    rank_tokenizer_destroy(tokenizer);
    const size_t count = rank_model_param_count(&config);
    float *params = calloc(count, sizeof *params);
    assert_non_null(params);
    model_bytes = (double)rank_numbers_bytes(held, count);
    assert_ok(rank_checkpoint_write(test_shared_path("."),
                                    &(rank_checkpoint_about){.config = &config,
                                                             .tokenizer_path = tokenizer_path,
                                                             .end_id = config.vocab_size - 1,
                                                             .prompt_suffix = "",
                                                             .type = type},
                                    params, &error),
              &error);
    free(params);
}

static json_t *read_json(const char *name)
{
    json_t *json = json_load_file(test_shared_path(name), 0, NULL);
    assert_non_null(json);
    return json;
}

/* `type` is the checkpoint's, `held` the ranks'. */
static void check_ranks(rank_type type, rank_type held)
{
    static const char *const worlds[] = {"1", "2", "4"};
    char checkpoint[BASE_PATH_BYTES];
    char out[BASE_PATH_BYTES];
    (void)snprintf(checkpoint, sizeof checkpoint, "%s", test_shared_path("."));
    (void)snprintf(out, sizeof out, "%s", test_shared_path("out"));
    write_model(type, held);
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        const int ranks = (int)strtol(worlds[i], NULL, 10);
        test_program_start(&program,
                           FLAGS(LAUNCHER_PATH, "--ranks", worlds[i], "--mode", "tp-cpu",
                                 "--checkpoint", checkpoint, "--tokenizer", tokenizer_path,
                                 "--prompt", "the boy", "--max-new-tokens", "2", "--no-bind",
                                 "--out", out, "--timeout", "60", "--weights",
                                 held == RANK_INT8 ? "int8" : "checkpoint"),
                           FLAGS());
        const int code = test_program_wait(&program);
        if (code != 0) {
            fail_msg("%d ranks: exit code %d: %s", ranks, code, program.text[TEST_STDERR]);
        }
        json_t *manifest = read_json("out/manifest.json");
        json_t *results = read_json("out/results.json");
        const json_t *first = json_array_get(json_object_get(results, "ranks"), 0);
        const double cache = json_number_value(json_object_get(first, "cache_bytes"));
        const double most = model_bytes / ranks * 1.15 + cache + 60e6;
        const json_t *peaks = json_object_get(manifest, "max_rss_bytes");
        assert_true(cache > 0);
        assert_string_equal(json_string_value(json_object_get(first, "weight_type")),
                            rank_type_name(held));
        assert_int_equal(json_array_size(peaks), ranks);
        for (size_t rank = 0; rank < (size_t)ranks; rank++) {
            const double peak = json_number_value(json_array_get(peaks, rank));
            if (peak < model_bytes / ranks || peak > most) {
                fail_msg("rank %zu of %d: %.0f bytes, at most %.0f are allowed", rank, ranks, peak,
                         most);
            }
        }
        json_decref(manifest);
        json_decref(results);
    }
}

static void a_rank_holds_little_beside_its_part(void **state)
{
    (void)state;
    check_ranks(RANK_FLOAT32, RANK_FLOAT32);
}

/* In the type that the file has. */
static void matrices_in_bfloat16_take_half(void **state)
{
    (void)state;
    check_ranks(RANK_BFLOAT16, RANK_BFLOAT16);
}

/* In whatever type the file has them: no copy of them all is made. */
static void matrices_in_int8_take_a_quarter(void **state)
{
    (void)state;
    check_ranks(RANK_FLOAT32, RANK_INT8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_holds_little_beside_its_part),
        cmocka_unit_test(matrices_in_bfloat16_take_half),
        cmocka_unit_test(matrices_in_int8_take_a_quarter),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
