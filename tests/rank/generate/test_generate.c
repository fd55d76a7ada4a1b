/* Generating and evaluating, to the end and stopped early. The model is not trained. */
#include "generate/generate.h"

#include <string.h>

#include "base/file.h"
#include "generate/baseline.h"
#include "support.h"
#include "untrained.h"

enum { PROMPTS = 5, CONTEXT = 24 };

static const char *const prompts[PROMPTS] = {"the boy", "he goed", "she", "we has", "they"};

static const char pairs_text[] = "{\"text\":\"a b → c\",\"wrong\":\"a b\",\"right\":\"c\"}\n"
                                 "{\"text\":\"d → e\",\"wrong\":\"d\",\"right\":\"e\"}\n"
                                 "{\"text\":\"f → g\",\"wrong\":\"f\",\"right\":\"g\"}\n";

typedef struct fixture {
    untrained model;
    rank_generate_options options;
    int answers;
    int answers_wanted; /* should_stop returns true when there are so many */
} fixture;

static void count_answer(void *user, const rank_answer *answer)
{
    fixture *f = user;
    assert_int_equal(answer->index, f->answers);
    assert_string_equal(answer->prompt, prompts[answer->index]);
    assert_non_null(answer->text);
    f->answers++;
}

static void fixture_open(fixture *f)
{
    *f = (fixture){.answers_wanted = PROMPTS + 1};
    untrained_open(&f->model, CONTEXT);
    f->options = f->model.options;
    f->options.sequences = 1; /* one prompt at a time */
    f->options.new_tokens_max = 4;
    f->options.on_answer = count_answer;
    f->options.answer_user = f;
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
    assert_ok(rank_generate(&f.options, prompts, PROMPTS, NULL, &error), &error);
    assert_int_equal(f.answers, PROMPTS);
    f.answers = 0;
    f.options.should_stop = enough; /* and never says so */
    f.options.stop_user = &f;
    assert_ok(rank_generate(&f.options, prompts, PROMPTS, NULL, &error), &error);
    assert_int_equal(f.answers, PROMPTS);
    untrained_close(&f.model);
}

static void generating_stops_when_asked(void **state)
{
    (void)state;
    for (int wanted = 0; wanted < PROMPTS; wanted++) {
        base_error error;
        fixture f;
        fixture_open(&f);
        f.answers_wanted = wanted;
        f.options.should_stop = enough;
        f.options.stop_user = &f;
        assert_ok(rank_generate(&f.options, prompts, PROMPTS, NULL, &error), &error);
        assert_int_equal(f.answers, wanted);
        untrained_close(&f.model);
    }
}

static bool after_two_looks(void *user)
{
    int *looks = user;
    return ++*looks > 2;
}

static void a_part_of_the_answers_gives_no_accuracy(void **state)
{
    (void)state;
    base_error error;
    rank_pairs *pairs = NULL;
    rank_evaluation result;
    int looks = 0;
    fixture f;
    fixture_open(&f);
    const char *path = test_shared_path("pairs.jsonl");
    assert_ok(base_file_write(path, pairs_text, sizeof pairs_text - 1, &error), &error);
    assert_ok(rank_pairs_open(path, 0, 1, &pairs, &error), &error);
    assert_ok(rank_evaluate(&f.options, pairs, &result, &error), &error);
    assert_int_equal(result.total, 3);
    assert_in_range(result.correct, 0, 3);
    f.options.should_stop = after_two_looks;
    f.options.stop_user = &looks;
    assert_ok(rank_evaluate(&f.options, pairs, &result, &error), &error);
    assert_int_equal(looks, 3); /* and not one round more */
    assert_int_equal(result.total, 0);
    assert_int_equal(result.correct, 0);
    rank_pairs_close(pairs);
    untrained_close(&f.model);
}

/* As in training: a sentence that no model of this context takes is not counted. */
static void sentences_that_do_not_fit_are_left_out(void **state)
{
    (void)state;
    static const char text[] =
        "{\"wrong\":\"the boy who has the old dog and the girl who have the cat goed to the "
        "school where they teaches all of the old dogs and all of the young "
        "cats\",\"right\":\"c\"}\n"
        "{\"wrong\":\"a b\",\"right\":\"c\"}\n";
    base_error error;
    rank_pairs *pairs = NULL;
    rank_evaluation result;
    fixture f;
    fixture_open(&f);
    const char *path = test_shared_path("pairs.jsonl");
    assert_ok(base_file_write(path, text, sizeof text - 1, &error), &error);
    assert_ok(rank_pairs_open(path, 0, 1, &pairs, &error), &error);
    assert_ok(rank_evaluate(&f.options, pairs, &result, &error), &error);
    assert_int_equal(result.total, 1);
    assert_int_equal(result.left_out, 1);
    rank_pairs_close(pairs);
    untrained_close(&f.model);
}

static void a_model_that_does_not_fit_has_a_reason(void **state)
{
    (void)state;
    char reason[BASE_ERROR_MESSAGE_BYTES];
    const uint64_t mb = 1 << 20;
    assert_true(rank_baseline_fits(800 * mb, 2, 1800 * mb, reason));
    assert_string_equal(reason, "");
    assert_false(rank_baseline_fits(800 * mb, 2, 1799 * mb, reason));
    assert_string_equal(reason,
                        "2 whole models of 900 MB do not fit into the 1799 MB of memory that are "
                        "free");
    assert_false(rank_baseline_fits(800 * mb, 1, 899 * mb, reason));
}

static void drop_answer(void *user, const rank_answer *answer)
{
    (void)user;
    (void)answer;
}

/* Warm-up draws two more tokens. No figure includes them. */
static void warm_up_is_in_no_figure(void **state)
{
    (void)state;
    base_error error;
    rank_generate_report cold;
    rank_generate_report warm;
    fixture f;
    fixture_open(&f);
    f.options.ignore_end = true;
    f.options.on_answer = drop_answer;
    assert_ok(rank_generate(&f.options, prompts, PROMPTS, &cold, &error), &error);
    f.options.on_answer = count_answer;
    f.options.warm_up = true;
    assert_ok(rank_generate(&f.options, prompts, PROMPTS, &warm, &error), &error);
    assert_int_equal(f.answers, PROMPTS);
    assert_int_equal(cold.costs.sampled, 4 * PROMPTS);
    assert_int_equal(warm.costs.sampled, cold.costs.sampled);
    assert_int_equal(warm.costs.tokens, cold.costs.tokens);
    untrained_close(&f.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_prompt_is_answered),
        cmocka_unit_test(generating_stops_when_asked),
        TEST_IN_DIRECTORY(a_part_of_the_answers_gives_no_accuracy),
        TEST_IN_DIRECTORY(sentences_that_do_not_fit_are_left_out),
        cmocka_unit_test(a_model_that_does_not_fit_has_a_reason),
        cmocka_unit_test(warm_up_is_in_no_figure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
