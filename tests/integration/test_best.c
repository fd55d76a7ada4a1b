/* Trainings with --keep-best and --patience: they end with the model of the lowest held-out loss. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

enum { MANY = 400 };
static const char STATE[] = "state-rank-0.safetensors";
static const char MODEL[] = "model.safetensors";

/* Few sentences, which are soon known by heart: the loss of the others grows then. */
#define STEPS "40"
#define DATA  "--data", data_path, "--heldout", heldout_path, "--lr", "1e-2", "--eval-every", "4"
static char data_path[BASE_PATH_BYTES];
static char heldout_path[BASE_PATH_BYTES];

static void write_file(const char *name, const char *text, char path[BASE_PATH_BYTES])
{
    (void)snprintf(path, BASE_PATH_BYTES, "%s", test_shared_path(name));
    test_shared_put(name, text);
}

static int make_files(void **state)
{
    const int made = test_shared_directory_make(state);
    write_file("few.jsonl",
               "{\"text\":\"the old cat saw a dog\"}\n{\"text\":\"a dog has seen the cat\"}\n"
               "{\"text\":\"she went to school\"}\n{\"text\":\"they were at home\"}\n"
               "{\"text\":\"we like apples\"}\n{\"text\":\"he ran to the house\"}\n"
               "{\"text\":\"it was a good day\"}\n{\"text\":\"you are in the garden\"}\n",
               data_path);
    write_file("others.jsonl",
               "{\"text\":\"the old dog saw a cat\"}\n{\"text\":\"she has seen the school\"}\n"
               "{\"text\":\"they went to the garden\"}\n{\"text\":\"he likes a good apple\"}\n"
               "{\"text\":\"we ran home\"}\n",
               heldout_path);
    return made;
}

static double real_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

/* The step of the lowest loss in the curve, the first one if there are several; and how many evaluations follow. */
static int64_t find_lowest(const json_t *manifest, size_t *later)
{
    const json_t *curve = json_object_get(manifest, "eval_curve");
    size_t index = 0;
    size_t best = 0;
    const json_t *point = NULL;
    assert_true(json_array_size(curve) > 0);
    json_array_foreach(curve, index, point)
    {
        if (real_of(point, "heldout_loss") < real_of(json_array_get(curve, best), "heldout_loss")) {
            best = index;
        }
    }
    *later = json_array_size(curve) - 1 - best;
    return json_integer_value(json_object_get(json_array_get(curve, best), "step"));
}

/* Fails unless the manifest names the evaluation of the lowest loss, which the model at the end has. *later: how many
 * follow. The step, as the lines on the terminal count. */
static int64_t check_best(const training_run *run, bool stopped, size_t *later)
{
    json_t *manifest = training_manifest(run);
    const json_t *best = json_object_get(manifest, "best");
    const int64_t step = json_integer_value(json_object_get(best, "step"));
    assert_int_equal(step, find_lowest(manifest, later));
    assert_true(real_of(best, "heldout_loss") ==
                real_of(json_object_get(manifest, "eval"), "loss"));
    assert_int_equal(json_is_true(json_object_get(best, "stopped_early")), stopped);
    assert_false(json_is_false(json_object_get(manifest, "byte_equivalent")));
    assert_int_equal(json_integer_value(json_object_get(manifest, "exit_status")), 0);
    json_decref(manifest);
    return step + 1;
}

static void the_model_is_that_of_the_lowest_loss(void **state)
{
    (void)state;
    char name[96];
    size_t later = 0;
    training_expect(
        &one, &test_shared_directory, "last", 0,
        FLAGS("--ranks", "2", DATA, "--steps", STEPS, "--save-every", "4", "--keep", "10"));
    json_t *manifest = training_manifest(&one);
    assert_true(json_is_null(json_object_get(manifest, "best")));
    json_decref(manifest);
    training_expect(&two, &test_shared_directory, "best", 0,
                    FLAGS("--ranks", "2", DATA, "--steps", STEPS, "--keep-best"));
    const int64_t step = check_best(&two, false, &later);
    assert_true(later >= 3); /* so that the tests below try something */
    (void)snprintf(name, sizeof name, "the model is that after step %d, with the lowest held-out",
                   (int)step);
    assert_has(two.program.text[TEST_STDOUT], name);
    (void)snprintf(name, sizeof name, "checkpoints/step-%09d/%s", (int)step, MODEL);
    training_assert_same_file(&one, name, &two, MODEL);
    training_assert_same_file(&two, STATE, &two, "state-rank-1.safetensors");
}

/* Whatever the ranks, and where each has only a shard of the parameters. */
static void all_ranks_stop_at_the_same_step(void **state)
{
    (void)state;
    static const struct {
        const char *ranks, *micro_batches, *zero;
    } layouts[] = {{"4", "1", "0"}, {"2", "2", "0"}, {"1", "4", "0"},
                   {"4", "1", "1"}, {"2", "2", "2"}, {"4", "1", "3"}};
    double losses[2] = {0.0, 0.0};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        size_t later = 0;
        training_run *run = i == 0 ? &one : &two;
        training_expect(run, &test_shared_directory, i == 0 ? "first" : "other", 0,
                        FLAGS("--ranks", layouts[i].ranks, "--micro-batches",
                              layouts[i].micro_batches, "--zero", layouts[i].zero, DATA, "--steps",
                              STEPS, "--patience", "2"));
        const int64_t step = check_best(run, true, &later);
        assert_int_equal(later, 2);
        char says[96];
        (void)snprintf(says, sizeof says,
                       "stopped early after step %d of " STEPS ": 2 evaluations in a row",
                       (int)step + 2 * 4);
        assert_has(run->program.text[TEST_STDOUT], says);
        training_assert_same_file(&one, MODEL, run, MODEL);
        json_t *manifest = training_manifest(run);
        losses[i == 0 ? 0 : 1] = real_of(json_object_get(manifest, "best"), "heldout_loss");
        json_decref(manifest);
        assert_true(i == 0 || losses[0] == losses[1]);
    }
}

/* So many sentences that the last bits of their sum depend on its order. */
static void write_many(char path[BASE_PATH_BYTES])
{
    static char text[MANY * 96];
    size_t used = 0;
    for (int i = 0; i < MANY; i++) {
        used += (size_t)snprintf(
            text + used, sizeof text - used, "{\"text\":\"the old cat saw a dog%s%s number %d\"}\n",
            i % 3 == 0 ? " and she went to school" : "", i % 7 == 0 ? " we like apples" : "", i);
    }
    write_file("many.jsonl", text, path);
}

/* The same parameters have the same loss in each evaluation, to the last bit: none is lower than the first. */
static void the_same_parameters_are_not_better(void **state)
{
    (void)state;
    size_t later = 0;
    char path[BASE_PATH_BYTES];
    write_many(path);
    training_expect(&two, &test_shared_directory, "known", 0,
                    FLAGS("--ranks", "2", DATA, "--steps", "200"));
    training_expect(&one, &test_shared_directory, "still", 0,
                    FLAGS("--ranks", "1", "--data", data_path, "--heldout", path, "--checkpoint",
                          two.out, "--lr", "0", "--eval-every", "1", "--steps", "9", "--patience",
                          "5"));
    assert_int_equal(check_best(&one, true, &later), 1);
    assert_int_equal(later, 5);
}

/* A training in parts decides as one that never stopped: parts end before the best step, after it, and when the
 * patience is over. The ranks and what they shard change between them. */
static void parts_decide_as_the_whole(void **state)
{
    (void)state;
    static const struct {
        const char *ranks, *micro_batches, *zero, *steps;
    } parts[] = {{"2", "1", "0", "6"},  {"1", "2", "0", "20"},  {"2", "1", "3", "23"},
                 {"2", "1", "1", "26"}, {"2", "1", "0", STEPS}, {"1", "2", "0", STEPS}};
    size_t later = 0;
    training_expect(&one, &test_shared_directory, "at-once", 0,
                    FLAGS("--ranks", "2", DATA, "--steps", STEPS, "--patience", "3"));
    const int64_t step = check_best(&one, true, &later);
    assert_int_equal(step, 20); /* which the parts below are made for */
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        training_expect(&two, &test_shared_directory, "in-parts", 0,
                        FLAGS("--ranks", parts[i].ranks, "--micro-batches", parts[i].micro_batches,
                              "--zero", parts[i].zero, DATA, "--steps", parts[i].steps,
                              "--patience", "3", "--save-every", "50", "--resume"));
    }
    training_assert_same_file(&one, MODEL, &two, MODEL);
    assert_has(two.program.text[TEST_STDOUT], "stopped early after step 32 of " STEPS);
    json_t *manifest = training_manifest(&two);
    const json_t *best = json_object_get(manifest, "best");
    assert_int_equal(json_integer_value(json_object_get(best, "step")), step - 1);
    assert_true(json_is_true(json_object_get(best, "stopped_early")));
    json_decref(manifest);
    training_expect(&two, &test_shared_directory, "in-parts", 0,
                    FLAGS("--ranks", "2", DATA, "--steps", STEPS, "--patience", "6", "--save-every",
                          "50", "--resume"));
    assert_has(two.program.text[TEST_STDOUT], " in 8 steps\n"); /* from 32 on */
    assert_has(two.program.text[TEST_STDOUT], "the model is that after step 20, ");
    training_assert_same_file(&one, MODEL, &two, MODEL);
}

/* Losses on two files do not compare, and who does not ask for the best model loses it: both are said. */
static void a_best_model_is_dropped_aloud(void **state)
{
    (void)state;
    size_t later = 0;
    training_expect(
        &one, &test_shared_directory, "dropped", 0,
        FLAGS("--ranks", "2", DATA, "--steps", "30", "--keep-best", "--save-every", "30"));
    training_expect(&one, &test_shared_directory, "dropped", 0,
                    FLAGS("--ranks", "2", "--data", data_path, "--heldout", data_path, "--lr",
                          "1e-2", "--eval-every", "4", "--steps", "36", "--keep-best",
                          "--save-every", "30", "--resume"));
    assert_has(one.program.text[TEST_STDERR], "--resume with another --heldout: the best model");
    assert_int_equal(check_best(&one, false, &later), 36);
    training_expect(&one, &test_shared_directory, "dropped", 0,
                    FLAGS("--ranks", "2", DATA, "--steps", "40", "--save-every", "30", "--resume"));
    assert_has(one.program.text[TEST_STDERR], "the best model, after step 36, is not kept");
    training_expect(&one, &test_shared_directory, "dropped", 0,
                    FLAGS("--ranks", "2", "--data", data_path, "--heldout", heldout_path, "--steps",
                          "44", "--eval-every", "30", "--keep-best", "--save-every", "30",
                          "--resume"));
    assert_has(one.program.text[TEST_STDOUT], "no evaluation was made (--eval-every 30)");
}

/* A file of the best parameters is looked at as the others are. */
static void a_damaged_best_is_refused(void **state)
{
    (void)state;
    char name[BASE_PATH_BYTES];
    training_expect(
        &one, &test_shared_directory, "damaged", 0,
        FLAGS("--ranks", "2", DATA, "--steps", "30", "--keep-best", "--save-every", "30"));
    (void)snprintf(name, sizeof name, "%s/checkpoints/step-000000030/best.safetensors", one.out);
    assert_int_equal(access(name, F_OK), 0);
    assert_int_equal(truncate(name, 1000), 0);
    training_expect(&one, &test_shared_directory, "damaged", 1,
                    FLAGS("--ranks", "2", DATA, "--steps", "32", "--keep-best", "--save-every",
                          "30", "--resume"));
    assert_has(one.program.text[TEST_STDERR], "best.safetensors is not what was written there");
}

static void it_goes_with_other_ways_to_train(void **state)
{
    (void)state;
    char model[BASE_PATH_BYTES];
    size_t later = 0;
    training_expect(&one, &test_shared_directory, "rounds", 0,
                    FLAGS("--ranks", "2", DATA, "--steps", STEPS, "--patience", "2",
                          "--local-steps", "2", "--save-every", "4"));
    (void)check_best(&one, true, &later);
    assert_int_equal(later, 2);
    (void)snprintf(model, sizeof model, "%s", one.out);
    for (int i = 0; i < 2; i++) {
        training_run *run = i == 0 ? &one : &two;
        training_expect(run, &test_shared_directory, i == 0 ? "lora" : "lora-parts", 0,
                        FLAGS("--ranks", "2", DATA, "--steps", i == 0 ? STEPS : "20", "--keep-best",
                              "--checkpoint", model, "--lora", "4", "--lora-targets", "all-linear",
                              "--save-every", "40", "--resume"));
        (void)check_best(run, false, &later);
    }
    training_expect(&two, &test_shared_directory, "lora-parts", 0,
                    FLAGS("--ranks", "2", DATA, "--steps", STEPS, "--keep-best", "--checkpoint",
                          model, "--lora", "4", "--lora-targets", "all-linear", "--save-every",
                          "40", "--resume"));
    training_assert_same_file(&one, "adapter_model.safetensors", &two, "adapter_model.safetensors");
    training_expect(
        &one, &test_shared_directory, "shared", 0,
        FLAGS("--ranks", "2", "--context-ranks", "2", DATA, "--steps", STEPS, "--patience", "2"));
    (void)check_best(&one, true, &later);
    assert_int_equal(later, 2);
}

/* Each rank keeps the best ones of its own experts. */
static void experts_are_kept_where_they_are(void **state)
{
    (void)state;
    size_t later = 0;
    training_expect(&one, &test_shared_directory, "all-experts", 0,
                    FLAGS("--ranks", "2", DATA, "--steps", STEPS, "--experts", "4", "--keep-best"));
    const int64_t step = check_best(&one, false, &later);
    assert_true(later >= 1);
    for (int64_t end = step; end <= step + 1; end++) { /* a checkpoint with it, and one behind it */
        char steps[16];
        (void)snprintf(steps, sizeof steps, "%d", (int)end);
        training_expect(&two, &test_shared_directory, "own-experts", 0,
                        FLAGS("--ranks", "2", DATA, "--steps", steps, "--experts", "4",
                              "--expert-ranks", "2", "--zero", end > step ? "1" : "0",
                              "--keep-best", "--save-every", "40", "--resume"));
    }
    training_expect(&two, &test_shared_directory, "own-experts", 0,
                    FLAGS("--ranks", "2", DATA, "--steps", STEPS, "--experts", "4",
                          "--expert-ranks", "2", "--zero", "1", "--keep-best", "--save-every", "40",
                          "--resume"));
    training_assert_same_file(&one, MODEL, &two, MODEL);
}

/* Stages of a pipeline decide as data-parallel ranks, and each keeps the best parameters that it holds. */
static void stages_decide_as_ranks(void **state)
{
    (void)state;
    static const char *const layouts[][8] = {
        {"--ranks", "2", "--micro-batches", "4"},
        {"--ranks", "4", "--micro-batches", "2", "--stages", "2", "--pipeline", "1f1b"},
        {"--ranks", "2", "--micro-batches", "4", "--tensor", "2"},
        {"--ranks", "2", "--micro-batches", "4", "--pipeline", "interleaved"}};
    size_t later = 0;
    training_expect(
        &one, &test_shared_directory, "ranks", 0,
        FLAGS("--ranks", "4", "--layers", "4", DATA, "--steps", STEPS, "--patience", "2"));
    const int64_t step = check_best(&one, true, &later);
    assert_true(later == 2 && step > 4);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        const char *const *of = layouts[i];
        training_expect(&two, &test_shared_directory, "stages", 0,
                        FLAGS("--mode", "pp-cpu", "--layers", "4", DATA, "--steps", STEPS,
                              "--patience", "2", of[0], of[1], of[2], of[3], of[4], of[5], of[6],
                              of[7]));
        assert_int_equal(check_best(&two, true, &later), step);
        assert_int_equal(later, 2);
        training_assert_same_file(&one, MODEL, &two, MODEL);
        training_assert_same_file(&one, STATE, &two, STATE);
    }
}

/* The same in parts, each in another layout: before the best step, behind it, and when the patience is over. */
static void parts_of_a_pipeline_decide_as_the_whole(void **state)
{
    (void)state;
    static const char *const parts[][10] = {
        {"--steps", "6", "--mode", "pp-cpu", "--ranks", "2", "--micro-batches", "4"},
        {"--steps", "21", "--mode", "pp-cpu", "--ranks", "4", "--micro-batches", "2", "--stages",
         "2"},
        {"--steps", "26", "--mode", "ddp-cpu", "--ranks", "4", "--micro-batches", "1"},
        {"--steps", "29", "--mode", "pp-cpu", "--ranks", "2", "--micro-batches", "4", "--tensor",
         "2"},
        {"--steps", STEPS, "--mode", "pp-cpu", "--ranks", "3", "--micro-batches", "4"},
        {"--steps", STEPS, "--mode", "pp-cpu", "--ranks", "2", "--micro-batches", "4"}};
    size_t later = 0;
    training_expect(
        &one, &test_shared_directory, "ranks-at-once", 0,
        FLAGS("--ranks", "4", "--layers", "4", DATA, "--steps", STEPS, "--patience", "3"));
    const int64_t step = check_best(&one, true, &later);
    assert_int_equal(step, 24); /* which the parts below are made for */
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *const *of = parts[i];
        training_expect(&two, &test_shared_directory, "stages-in-parts", 0,
                        FLAGS("--layers", "4", DATA, "--patience", "3", "--save-every", "50",
                              "--resume", of[0], of[1], of[2], of[3], of[4], of[5], of[6], of[7],
                              of[8], of[9]));
    }
    training_assert_same_file(&one, MODEL, &two, MODEL);
    json_t *manifest = training_manifest(&two);
    const json_t *best = json_object_get(manifest, "best");
    assert_int_equal(json_integer_value(json_object_get(best, "step")), step - 1);
    assert_true(json_is_true(json_object_get(best, "stopped_early")));
    json_decref(manifest);
}

/* Each in one line. */
static void what_does_not_go_with_it_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *flags[8];
        const char *says;
    } cases[] = {
        {{"--keep-best"}, "--keep-best needs --eval-every: it compares the evaluations"},
        {{"--patience", "2"}, "--patience needs --eval-every: it compares the evaluations"},
        {{"--keep-best", "--eval-every", "7"},
         "--keep-best finds no evaluation: --eval-every 7 is above --steps 6"},
        {{"--patience", "-1", "--eval-every", "2"}, "--patience"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *flags = cases[i].flags;
        training_expect_refused(&one, flags, cases[i].says);
    }
    char path[BASE_PATH_BYTES];
    write_file("long.jsonl", "{\"text\":\"the old cat saw a dog and the old dog saw a cat\"}\n",
               path);
    training_expect(&one, &test_shared_directory, "none", 1,
                    FLAGS("--context", "10", "--heldout", path, "--data", data_path, "--eval-every",
                          "2", "--keep-best"));
    assert_has(one.program.text[TEST_STDERR],
               "long.jsonl has no sentence that fits into a context");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_is_that_of_the_lowest_loss),
        cmocka_unit_test(all_ranks_stop_at_the_same_step),
        cmocka_unit_test(the_same_parameters_are_not_better),
        cmocka_unit_test(parts_decide_as_the_whole),
        cmocka_unit_test(a_best_model_is_dropped_aloud),
        cmocka_unit_test(a_damaged_best_is_refused),
        cmocka_unit_test(it_goes_with_other_ways_to_train),
        cmocka_unit_test(experts_are_kept_where_they_are),
        cmocka_unit_test(stages_decide_as_ranks),
        cmocka_unit_test(parts_of_a_pipeline_decide_as_the_whole),
        cmocka_unit_test(what_does_not_go_with_it_is_refused),
    };
    return cmocka_run_group_tests(tests, make_files, test_shared_directory_remove);
}
