/* Trainings on texts that are longer than the context: plain ones, and JSONL with --windows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "training.h"

static training_run one, two; /* large: they hold a program's output */

/* A text of several hundred windows, and the same as lines of JSON. */
static int make_texts(void **state)
{
    enum { LINES = 800 };
    static char plain[LINES * 64];
    static char lines[LINES * 80];
    size_t plain_bytes = 0;
    size_t lines_bytes = 0;
    (void)test_shared_directory_make(state);
    for (int i = 0; i < LINES; i++) {
        plain_bytes += (size_t)snprintf(plain + plain_bytes, sizeof plain - plain_bytes,
                                        "line %d: the ring turns %d times.\n", i, i * i % 97);
    }
    for (int i = 0; i < 4; i++) {
        lines_bytes +=
            (size_t)snprintf(lines + lines_bytes, sizeof lines - lines_bytes, "{\"text\":\"");
        for (int word = 0; word < 900; word++) {
            lines_bytes += (size_t)snprintf(lines + lines_bytes, sizeof lines - lines_bytes,
                                            "%d and ", word * (i + 1) * 7919 % 1009);
        }
        lines_bytes += (size_t)snprintf(lines + lines_bytes, sizeof lines - lines_bytes, "\"}\n");
    }
    test_shared_put("text.md", plain); /* by its name no lines of JSON */
    test_shared_put("text.jsonl", lines);
    return 0;
}

/* Ranks and micro-batches can be exchanged, over several epochs, and the text is used to its end. */
static void ranks_share_the_windows(void **state)
{
    (void)state;
    char text[BASE_PATH_BYTES];
    (void)snprintf(text, sizeof text, "%s", test_shared_path("text.md"));
    training_expect(&one, &test_shared_directory, "four", 0,
                    FLAGS("--ranks", "4", "--data", text, "--steps", "90", "--heldout", text,
                          "--eval-every", "40", "--lr", "1e-2"));
    training_expect(&two, &test_shared_directory, "alone", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", "--data", text, "--steps", "90",
                          "--lr", "1e-2"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    json_t *manifest = training_manifest(&one);
    const json_t *curve = json_object_get(manifest, "eval_curve");
    const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), 0);
    const json_t *training = json_object_get(manifest, "training");
    assert_true(json_is_true(json_object_get(training, "windows")));
    assert_string_equal(json_string_value(json_object_get(training, "loss_on")), "all");
    assert_int_equal(json_integer_value(json_object_get(rank, "sentences_long")), 0);
    assert_int_equal(json_array_size(curve), 2);
    const double first =
        json_number_value(json_object_get(json_array_get(curve, 0), "heldout_loss"));
    const double last =
        json_number_value(json_object_get(json_array_get(curve, 1), "heldout_loss"));
    assert_true(last < first);
    assert_true(last > 0.0);
    const json_t *point = json_array_get(curve, 1);
    assert_true(json_is_null(json_object_get(point, "exact_match")));
    assert_true(json_is_null(json_object_get(point, "correct")));
    const json_t *data = json_object_get(manifest, "data");
    assert_int_equal(json_integer_value(json_object_get(point, "sentences")),
                     json_integer_value(json_object_get(data, "sentences")));
    assert_has(one.program.text[TEST_STDERR], "step 40/90  held-out loss ");
    assert_has(one.program.text[TEST_STDERR], "step 80/90  held-out loss ");
    json_decref(manifest);
}

/* Long lines are left out without --windows, and cut with it. A training goes on with the same alone. */
static void lines_are_cut_if_asked(void **state)
{
    (void)state;
    char text[BASE_PATH_BYTES];
    (void)snprintf(text, sizeof text, "%s", test_shared_path("text.jsonl"));
    training_expect(&one, &test_shared_directory, "refused", 2, FLAGS("--data", text));
    assert_has(one.program.text[TEST_STDERR], "none of the 4 sentences");
    training_expect(&one, &test_shared_directory, "at-once", 0,
                    FLAGS("--ranks", "2", "--data", text, "--windows", "--steps", "20"));
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "2", "--data", text, "--windows", "--steps", "9",
                          "--save-every", "5", "--resume", "--loss-on", "all"));
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "2", "--data", text, "--windows",
                          "--steps", "20", "--save-every", "20", "--resume"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

/* Fails unless --eval found a loss and nothing else, also without --eval-every. */
static void assert_loss_alone(const training_run *run, double *loss)
{
    json_t *manifest = training_manifest(run);
    const json_t *eval = json_object_get(manifest, "eval");
    *loss = json_number_value(json_object_get(eval, "loss"));
    assert_true(*loss > 0.0);
    assert_true(json_integer_value(json_object_get(eval, "sentences")) > 0);
    assert_true(json_is_null(json_object_get(eval, "correct")));
    assert_true(json_is_null(json_object_get(eval, "exact_match")));
    assert_int_equal(json_array_size(json_object_get(manifest, "eval_curve")), 0);
    json_decref(manifest);
    assert_has(run->program.text[TEST_STDOUT], "held-out loss: ");
    assert_has(run->program.text[TEST_STDOUT], "(perplexity ");
}

/* A plain text has nothing to correct: a model is not evaluated on one, and a training only by its loss. */
static void there_is_nothing_to_correct(void **state)
{
    (void)state;
    char text[BASE_PATH_BYTES];
    (void)snprintf(text, sizeof text, "%s", test_shared_path("text.md"));
    training_expect(&one, &test_shared_directory, "evaluated", 0,
                    FLAGS("--ranks", "2", "--data", text, "--heldout", text, "--eval"));
    if (strstr(one.program.text[TEST_STDOUT], "exact match") != NULL) {
        fail_msg("an accuracy: %s", one.program.text[TEST_STDOUT]);
    }
    double loss = 0.0;
    double shared = 0.0;
    assert_loss_alone(&one, &loss);
    training_expect(&two, &test_shared_directory, "evaluated-together", 0,
                    FLAGS("--ranks", "2", "--context-ranks", "2", "--micro-batches", "2", "--data",
                          text, "--heldout", text, "--eval", "--eval-every", "100"));
    assert_loss_alone(&two, &shared);
    assert_true(fabs(loss - shared) < 1e-6);
    training_expect(&two, &test_shared_directory, "evaluated-in-stages", 0,
                    FLAGS("--mode", "pp-cpu", "--ranks", "2", "--layers", "2", "--data", text,
                          "--heldout", text, "--eval", "--eval-every", "100"));
    assert_loss_alone(&two, &shared);
    assert_null(strstr(two.program.text[TEST_STDERR], "warning")); /* it finds all there is */
    test_program_start(&two.program,
                       FLAGS(LAUNCHER_PATH, "--mode", "generate", "--checkpoint", one.out,
                             "--heldout", text, "--eval"),
                       NULL);
    assert_int_equal(test_program_wait(&two.program), 2);
    assert_has(two.program.text[TEST_STDERR], "a plain text has no sentences to correct");
}

/* A record that goes on keeps what was found before, also where there is no accuracy. */
static void what_was_measured_is_kept(void **state)
{
    (void)state;
    char text[BASE_PATH_BYTES];
    (void)snprintf(text, sizeof text, "%s", test_shared_path("text.md"));
    for (int i = 0; i < 2; i++) {
        training_expect(&one, &test_shared_directory, "kept", 0,
                        FLAGS("--data", text, "--heldout", text, "--eval-every", "2", "--steps",
                              i == 0 ? "2" : "4", "--save-every", "2", "--resume"));
    }
    json_t *manifest = training_manifest(&one);
    const json_t *curve = json_object_get(manifest, "eval_curve");
    assert_int_equal(json_array_size(curve), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *point = json_array_get(curve, i);
        assert_true(json_number_value(json_object_get(point, "heldout_loss")) > 0.0);
        assert_true(json_integer_value(json_object_get(point, "sentences")) > 0);
        assert_true(json_is_null(json_object_get(point, "correct")));
    }
    json_decref(manifest);
}

/* The suffix of prompts is what most of the data say, on all ranks, not the first sentence of one. */
static void prompts_end_as_the_data_do(void **state)
{
    (void)state;
    static const char pair[] = "{\"wrong\":\"he go\",\"right\":\"he goes\"}\n";
    static const char plain[] = "{\"text\":\"he goes there\"}\n";
    static const struct {
        const char *name;
        const char *lines[5];
        const char *suffix;
    } data[] = {
        {"arrow.txt", {"open File \xe2\x86\x92 New, and he goes there", "", "", "", ""}, ""},
        {"most.jsonl", {plain, pair, pair, plain, pair}, " \xe2\x86\x92"},
        {"few.jsonl", {pair, plain, plain, pair, plain}, ""},
    };
    for (size_t i = 0; i < sizeof data / sizeof data[0]; i++) {
        char text[512];
        char path[BASE_PATH_BYTES];
        (void)snprintf(text, sizeof text, "%s%s%s%s%s", data[i].lines[0], data[i].lines[1],
                       data[i].lines[2], data[i].lines[3], data[i].lines[4]);
        test_shared_put(data[i].name, text);
        (void)snprintf(path, sizeof path, "%s", test_shared_path(data[i].name));
        training_expect(&one, &test_shared_directory, "suffix", 0,
                        FLAGS("--ranks", "2", "--data", path, "--steps", "1"));
        json_t *written = training_json(&one, "generation_config.json");
        assert_string_equal(json_string_value(json_object_get(written, "prompt_suffix")),
                            data[i].suffix);
        json_decref(written);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_share_the_windows),     cmocka_unit_test(lines_are_cut_if_asked),
        cmocka_unit_test(there_is_nothing_to_correct), cmocka_unit_test(what_was_measured_is_kept),
        cmocka_unit_test(prompts_end_as_the_data_do),
    };
    return cmocka_run_group_tests(tests, make_texts, test_shared_directory_remove);
}
