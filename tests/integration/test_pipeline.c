/* Whole jobs of --mode pp-cpu: a model whose layers are on several ranks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

/* Runs pp-cpu, and compares the model with that of `one`. */
static void expect_same(const char *ranks, const char *schedule, const char *const *more)
{
    static int number;
    const char *flags[TRAINING_FLAGS_MAX] = {"--mode", "pp-cpu",     "--ranks",
                                             ranks,    "--pipeline", schedule};
    char name[64];
    for (size_t i = 0; more[i] != NULL; i++) {
        flags[6 + i] = more[i];
    }
    (void)snprintf(name, sizeof name, "stages-%s-%s-%d", ranks, schedule, number++);
    training_expect(&two, &test_shared_directory, name, 0, flags);
    training_assert_same_model(&one, &two);
    training_assert_equivalent(&two);
}

/* One leaf of the tree is one micro-batch, wherever its layers are. --clip is far below the norm, so
 * that the norm's bits matter. */
static void stages_train_the_bits_of_one_rank(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2", "4"};
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1"};
    const char *const *shape = FLAGS("--layers", "4", "--micro-batches", "4", "--clip", "0.05");
    training_expect(
        &two, &test_shared_directory, "replicas", 0,
        FLAGS("--ranks", "2", "--layers", "4", "--micro-batches", "2", "--clip", "0.05"));
    training_expect(
        &one, &test_shared_directory, "whole", 0,
        FLAGS("--ranks", "1", "--layers", "4", "--micro-batches", "4", "--clip", "0.05"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    for (size_t r = 0; r < 3; r++) {
        for (size_t s = 0; s < 3; s++) {
            expect_same(ranks[r], schedules[s], shape);
        }
    }
}

/* A number of micro-batches that is no power of two, and layers that are smaller than a block of the
 * norm, so that a block lies on several stages. */
static void odd_numbers_too(void **state)
{
    (void)state;
    static const char *const transports[] = {"shm", "tcp", "zmq"};
    training_expect(&one, &test_shared_directory, "odd", 0,
                    FLAGS("--ranks", "1", "--layers", "5", "--width", "8", "--micro-batches", "5",
                          "--clip", "0.05"));
    for (size_t t = 0; t < 3; t++) {
        expect_same(t == 1 ? "3" : "5", t == 2 ? "gpipe" : "1f1b",
                    FLAGS("--layers", "5", "--width", "8", "--micro-batches", "5", "--clip", "0.05",
                          "--transport", transports[t]));
    }
}

/* Pipelines beside each other share the slots as ranks do, and their equal stages add up what they have. */
static void several_pipelines_train_the_bits_of_one_rank(void **state)
{
    (void)state;
    static const struct {
        const char *ranks;
        const char *stages;
        const char *micro_batches;
        const char *more[2];
    } cases[] = {
        {"4", "2", "2", {"--transport", "shm"}},
        {"4", "2", "2", {"--transport", "tcp"}},
        {"4", "1", "1", {"--transport", "shm"}},
        {"6", "3", "2", {"--transport", "zmq"}},
        {"8", "2", "1", {"--algorithm", "recursive_doubling"}},
        {"4", "2", "2", {"--transport", "shm"}},
        {"6", "3", "2", {"--bucket-bytes", "1024"}},
    };
    training_expect(&one, &test_shared_directory, "slots", 0,
                    FLAGS("--ranks", "1", "--layers", "3", "--width", "8", "--micro-batches", "4",
                          "--clip", "0.05"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_same(cases[i].ranks,
                    i >= 5       ? "zb-h1"
                    : i % 2 == 0 ? "1f1b"
                                 : "gpipe",
                    FLAGS("--stages", cases[i].stages, "--layers", "3", "--width", "8",
                          "--micro-batches", cases[i].micro_batches, "--clip", "0.05",
                          cases[i].more[0], cases[i].more[1]));
        json_t *manifest = training_manifest(&two);
        const json_t *pipeline = json_object_get(manifest, "pipeline");
        const double replicas = json_number_value(json_object_get(pipeline, "replicas"));
        assert_true(replicas == strtod(cases[i].ranks, NULL) / strtod(cases[i].stages, NULL));
        assert_true((double)json_array_size(json_object_get(pipeline, "stages")) ==
                    strtod(cases[i].stages, NULL));
        json_decref(manifest);
    }
}

/* Slots without sentences have empty batches: nothing is sent, and gradients are zero. */
static void empty_batches_pass_through(void **state)
{
    (void)state;
    static const char text[] = "{\"text\":\"one two three\"}\n{\"text\":\"four five six\"}\n";
    base_error error;
    const char *data = test_shared_path("two.jsonl");
    assert_ok(base_file_write(data, text, sizeof text - 1, &error), &error);
    training_expect(&one, &test_shared_directory, "few", 0,
                    FLAGS("--ranks", "1", "--layers", "2", "--micro-batches", "4", "--data", data));
    expect_same("2", "1f1b", FLAGS("--layers", "2", "--micro-batches", "4", "--data", data));
    expect_same("2", "zb-h1", FLAGS("--layers", "2", "--micro-batches", "4", "--data", data));
}

/* The number under that key, of a stage. */
static double stage_number(const json_t *manifest, size_t stage, const char *key)
{
    const json_t *stages = json_object_get(json_object_get(manifest, "pipeline"), "stages");
    const json_t *number = json_object_get(json_array_get(stages, stage), key);
    assert_true(json_is_number(number));
    return json_number_value(number);
}

/* 1f1b keeps the activations of as many micro-batches as there are stages from this one on, zb-h1 of as many as there
 * are stages, and gpipe those of all. */
static void the_record_has_the_stages(void **state)
{
    (void)state;
    enum { STAGES = 3, MICRO_BATCHES = 6 };
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1"};
    for (int s = 0; s < 3; s++) {
        double sent = 0;
        training_expect(&one, &test_shared_directory, schedules[s], 0,
                        FLAGS("--mode", "pp-cpu", "--ranks", "3", "--layers", "3",
                              "--micro-batches", "6", "--pipeline", schedules[s]));
        json_t *manifest = training_manifest(&one);
        const json_t *pipeline = json_object_get(manifest, "pipeline");
        assert_string_equal(json_string_value(json_object_get(pipeline, "schedule")), schedules[s]);
        assert_int_equal(json_array_size(json_object_get(pipeline, "stages")), STAGES);
        const double bubble = json_number_value(json_object_get(pipeline, "bubble_formula"));
        assert_true(bubble == (STAGES - 1.0) / ((s < 2 ? 1 : 3) * MICRO_BATCHES + STAGES - 1.0));
        const double measured = json_number_value(json_object_get(pipeline, "bubble_measured"));
        assert_true(measured > 0);
        assert_true(measured < 1);
        assert_true(json_is_real(json_object_get(pipeline, "bubble_played")));
        for (size_t stage = 0; stage < STAGES; stage++) {
            assert_true(stage_number(manifest, stage, "held") == (s == 0   ? MICRO_BATCHES
                                                                  : s == 1 ? STAGES - (double)stage
                                                                           : STAGES));
            assert_true(stage_number(manifest, stage, "first_layer") == (double)stage);
            assert_true(stage_number(manifest, stage, "layers") == 1);
            assert_true(stage_number(manifest, stage, "forward_ms") > 0);
            assert_true(stage_number(manifest, stage, "backward_ms") > 0);
            if (s == 2) {
                const double weights_ms = stage_number(manifest, stage, "weights_ms");
                assert_true(weights_ms > 0);
                assert_true(weights_ms < stage_number(manifest, stage, "backward_ms"));
            }
            assert_true(stage_number(manifest, stage, "neighbour_ms") > 0);
            sent += stage_number(manifest, stage, "bytes_sent");
        }
        assert_true(sent > 0);
        json_decref(manifest);
    }
    training_expect(&one, &test_shared_directory, "none", 0, FLAGS("--ranks", "1"));
    json_t *manifest = training_manifest(&one);
    assert_true(json_is_null(json_object_get(manifest, "pipeline")));
    json_decref(manifest);
}

/* Of two stages with two chunks each: activations of five chunks on the first stage, and of three on the last. */
static void the_record_has_the_chunks(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "chunks", 0,
                    FLAGS("--mode", "pp-cpu", "--ranks", "2", "--layers", "6", "--micro-batches",
                          "4", "--pipeline", "interleaved"));
    json_t *manifest = training_manifest(&one);
    const json_t *pipeline = json_object_get(manifest, "pipeline");
    assert_string_equal(json_string_value(json_object_get(pipeline, "schedule")), "interleaved");
    assert_int_equal(json_integer_value(json_object_get(pipeline, "chunks")), 2);
    const double formula = json_number_value(json_object_get(pipeline, "bubble_formula"));
    assert_true(fabs(formula - 1.0 / (2 * 4 + 1)) < 1e-8);
    const double measured = json_number_value(json_object_get(pipeline, "bubble_measured"));
    assert_true(measured > 0);
    assert_true(measured < 1);
    static const int held[] = {5, 3};
    static const int layers[][2][2] = {{{0, 2}, {4, 1}}, {{2, 2}, {5, 1}}};
    for (size_t s = 0; s < 2; s++) {
        const json_t *stage = json_array_get(json_object_get(pipeline, "stages"), s);
        assert_true(stage_number(manifest, s, "held") == held[s]);
        assert_true(stage_number(manifest, s, "layers") == 3);
        assert_true(stage_number(manifest, s, "neighbour_ms") > 0);
        for (size_t c = 0; c < 2; c++) {
            const json_t *chunk = json_array_get(json_object_get(stage, "chunks"), c);
            assert_int_equal(json_integer_value(json_object_get(chunk, "first_layer")),
                             layers[s][c][0]);
            assert_int_equal(json_integer_value(json_object_get(chunk, "layers")), layers[s][c][1]);
        }
    }
    json_decref(manifest);
}

/* The model can be used as any other: it generates, and training goes on from it on any number of
 * ranks. */
static void the_model_is_an_ordinary_one(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "model", 0,
                    FLAGS("--mode", "pp-cpu", "--ranks", "2", "--layers", "2", "--eval"));
    assert_null(strstr(one.program.text[TEST_STDERR], "warning"));
    json_t *manifest = training_manifest(&one);
    const json_t *eval = json_object_get(manifest, "eval");
    assert_true(json_number_value(json_object_get(eval, "loss")) > 0.0);
    assert_int_equal(json_integer_value(json_object_get(eval, "sentences")), 32);
    json_decref(manifest);
    const char *const generate[] = {
        LAUNCHER_PATH, "--mode",   "generate",          "--checkpoint",
        one.out,       "--prompt", "he goed to school", "--max-new-tokens",
        "8",           NULL};
    test_program_start(&two.program, generate, FLAGS());
    assert_int_equal(test_program_wait(&two.program), 0);
    assert_non_null(strchr(two.program.text[TEST_STDOUT], '\n'));
    char model[BASE_PATH_BYTES];
    (void)snprintf(model, sizeof model, "%s", one.out);
    training_expect(
        &one, &test_shared_directory, "on-ddp", 0,
        FLAGS("--ranks", "1", "--layers", "2", "--micro-batches", "2", "--checkpoint", model));
    expect_same("2", "gpipe",
                FLAGS("--layers", "2", "--micro-batches", "2", "--checkpoint", model));
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *flags[6];
        const char *says;
    } cases[] = {
        {{"--layers", "1"},
         "each stage has a layer at least, and the model has 1: take fewer, or a larger --layers, "
         "or several pipelines, by --stages"},
        {{"--layers", "2", "--bucket-bytes", "5000"}, "--bucket-bytes goes with data parallel"},
        {{"--layers", "2", "--timing", "bracketed"}, "--timing goes with data parallel"},
        {{"--layers", "2", "--algorithm", "ring"},
         "--algorithm: all ranks together have one copy of the model, and only several copies "
         "add "},
        {{"--stages=1", "--tensor", "2", "--algorithm", "ring"},
         "--algorithm: all ranks together have one copy of the model"},
        {{"--layers", "4", "--stages", "3"}, "--stages 3 does not divide --ranks 2"},
        {{"--layers", "1", "--stages", "2"},
         "--stages 2: each stage has a layer at least, and the model has 1: take fewer, or a "
         "larger "
         "--layers\n"},
        {{"--mode", "ddp-cpu", "--stages", "2"}, "--stages 2 goes with mode pp-cpu"},
        {{"--layers", "3", "--pipeline", "interleaved"},
         "--chunks 2: each chunk of the 2 stages has a layer at least, and the model has 3"},
        {{"--layers", "4", "--pipeline", "interleaved", "--micro-batches", "3"},
         "--pipeline interleaved: --micro-batches 3 must be a multiple of the 2 stages"},
        {{"--layers", "4", "--chunks", "17"}, "--chunks: 17: must be a whole number from 0 to 16"},
        {{"--pipeline", "1f1b", "--chunks", "2"},
         "--chunks 2 goes with --pipeline interleaved, not with 1f1b"},
        {{"--layers", "2", "--pipeline", "zb-h1", "--recompute"},
         "--pipeline zb-h1 does not go with --recompute: its backward is in two passes, and both "
         "would compute activations again"},
        {{"--mode", "ddp-cpu", "--chunks", "2"}, "--chunks 2 goes with mode pp-cpu"},
        {{"--mode", "ddp-cpu", "--pipeline", "1f1b"}, "--pipeline 1f1b goes with"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *more = cases[i].flags;
        training_expect_refused(&one,
                                FLAGS("--mode", "pp-cpu", "--ranks", "2", more[0], more[1], more[2],
                                      more[2] != NULL ? more[3] : NULL, more[4],
                                      more[4] != NULL ? more[5] : NULL),
                                cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_train_the_bits_of_one_rank),
        cmocka_unit_test(odd_numbers_too),
        cmocka_unit_test(several_pipelines_train_the_bits_of_one_rank),
        cmocka_unit_test(empty_batches_pass_through),
        cmocka_unit_test(the_record_has_the_stages),
        cmocka_unit_test(the_record_has_the_chunks),
        cmocka_unit_test(the_model_is_an_ordinary_one),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
