/* Generating and evaluating to the end, and ended early. The model knows nothing. */
#include "rank/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support.h"

enum { PROMPTS = 5, CONTEXT = 24 };

static const char *const prompts[PROMPTS] = {"the boy", "he goed", "she", "we has", "they"};

static const char pairs_text[] = "{\"text\":\"a b → c\",\"wrong\":\"a b\",\"right\":\"c\"}\n"
                                 "{\"text\":\"d → e\",\"wrong\":\"d\",\"right\":\"e\"}\n"
                                 "{\"text\":\"f → g\",\"wrong\":\"f\",\"right\":\"g\"}\n";

typedef struct fixture {
    rank_model_config config;
    rank_generate_options options;
    float *params;
    int answers;
    int answers_wanted; /* should_stop says so once there are these */
} fixture;

static void fixture_open(fixture *f)
{
    base_error error;
    *f = (fixture){.answers_wanted = PROMPTS + 1};
    rank_tokenizer *tokenizer = NULL;
    assert_ok(rank_tokenizer_load(ORACLE_FOLDER "/tokenizer.json", &tokenizer, &error), &error);
    f->config = (rank_model_config){.vocab_size = rank_tokenizer_vocab_size(tokenizer),
                                    .width = 16,
                                    .layers = 1,
                                    .heads = 2,
                                    .context = CONTEXT};
    f->params = calloc(rank_model_param_count(&f->config), sizeof *f->params);
    assert_non_null(f->params);
    rank_model_init(&f->config, 7, f->params);
    f->options = (rank_generate_options){
        .config = &f->config,
        .params = f->params,
        .tokenizer = tokenizer,
        .token_count_max = CONTEXT, /* one prompt at a time */
        .new_tokens_max = 4,
    };
    assert_ok(rank_model_create(&f->config, CONTEXT, 0, &f->options.model, &error), &error);
}

static void fixture_close(fixture *f)
{
    rank_model_destroy(f->options.model);
    rank_tokenizer_destroy(f->options.tokenizer);
    free(f->params);
}

static void count_answer(void *user, size_t index, const char *prompt, const char *text)
{
    fixture *f = user;
    assert_int_equal(index, f->answers);
    assert_string_equal(prompt, prompts[index]);
    assert_non_null(text);
    f->answers++;
}

static bool enough(void *user)
{
    const fixture *f = user;
    return f->answers >= f->answers_wanted;
}

static void every_prompt_is_answered(void **state)
{
    (void)state;
    base_error error;
    fixture f;
    fixture_open(&f);
    assert_ok(rank_generate(&f.options, prompts, PROMPTS, count_answer, &f, &error), &error);
    assert_int_equal(f.answers, PROMPTS);
    f.answers = 0;
    f.options.should_stop = enough; /* and never says so */
    f.options.stop_user = &f;
    assert_ok(rank_generate(&f.options, prompts, PROMPTS, count_answer, &f, &error), &error);
    assert_int_equal(f.answers, PROMPTS);
    fixture_close(&f);
}

static void generating_ends_where_it_is_asked_to(void **state)
{
    (void)state;
    for (int wanted = 0; wanted < PROMPTS; wanted++) {
        base_error error;
        fixture f;
        fixture_open(&f);
        f.answers_wanted = wanted;
        f.options.should_stop = enough;
        f.options.stop_user = &f;
        assert_ok(rank_generate(&f.options, prompts, PROMPTS, count_answer, &f, &error), &error);
        assert_int_equal(f.answers, wanted);
        fixture_close(&f);
    }
}

static bool after_two_looks(void *user)
{
    int *looks = user;
    return ++*looks > 2;
}

static void a_part_is_no_accuracy(void **state)
{
    (void)state;
    base_error error;
    test_folder folder;
    rank_pairs *pairs = NULL;
    uint64_t total = 99;
    uint64_t correct = 99;
    int looks = 0;
    fixture f;
    test_folder_make(&folder);
    fixture_open(&f);
    const char *path = test_folder_path(&folder, "pairs.jsonl");
    assert_ok(base_file_write(path, pairs_text, sizeof pairs_text - 1, &error), &error);
    assert_ok(rank_pairs_open(path, 0, 1, &pairs, &error), &error);
    assert_ok(rank_evaluate(&f.options, pairs, &total, &correct, &error), &error);
    assert_int_equal(total, 3);
    assert_in_range(correct, 0, 3);
    f.options.should_stop = after_two_looks;
    f.options.stop_user = &looks;
    assert_ok(rank_evaluate(&f.options, pairs, &total, &correct, &error), &error);
    assert_int_equal(looks, 3); /* and not one round more */
    assert_int_equal(total, 0);
    assert_int_equal(correct, 0);
    rank_pairs_close(pairs);
    fixture_close(&f);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prompt_is_answered),
        cmocka_unit_test(generating_ends_where_it_is_asked_to),
        cmocka_unit_test(a_part_is_no_accuracy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
