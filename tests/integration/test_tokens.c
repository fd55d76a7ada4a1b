/* Trainings on files of tokens, which tokenizer-encode has made: with the bits of those on the text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */
static char text[BASE_PATH_BYTES];
static char tokens[BASE_PATH_BYTES];
static char other[BASE_PATH_BYTES]; /* tokenizer: the same tokens in another file */

static void encode(const char *from, const char *to)
{
    static test_program program;
    test_program_start(&program,
                       FLAGS(ENCODE_PATH, "--tokenizer", TOKENIZER_PATH, "--out", to, from), NULL);
    if (test_program_wait(&program) != 0) {
        fail_msg("tokenizer-encode: %s", program.text[TEST_STDERR]);
    }
}

/* A text of several hundred windows, and its tokens. */
static int make_files(void **state)
{
    enum { LINES = 400, TOKENIZER_BYTES_MAX = 1 << 20 };
    static char plain[LINES * 64];
    size_t bytes = 0;
    base_error error;
    (void)test_shared_directory_make(state);
    for (int i = 0; i < LINES; i++) {
        bytes += (size_t)snprintf(plain + bytes, sizeof plain - bytes,
                                  "line %d: the ring turns %d times.\n", i, i * i % 97);
    }
    test_shared_put("text.md", plain);
    (void)snprintf(text, sizeof text, "%s", test_shared_path("text.md"));
    (void)snprintf(tokens, sizeof tokens, "%s", test_shared_path("text.safetensors"));
    (void)snprintf(other, sizeof other, "%s", test_shared_path("other.json"));
    encode(text, tokens);
    void *tokenizer = test_file_read(TOKENIZER_PATH, &bytes);
    ((char *)tokenizer)[bytes] = '\n'; /* in place of its NUL */
    assert_ok(base_file_write(other, tokenizer, bytes + 1, &error), &error);
    free(tokenizer);
    return 0;
}

/* A number of the manifest, of data or eval. */
static double number_of(const training_run *run, const char *part, const char *name)
{
    json_t *manifest = training_manifest(run);
    const double number = json_number_value(json_object_get(json_object_get(manifest, part), name));
    assert_true(json_is_true(json_object_get(json_object_get(manifest, "training"), "windows")));
    json_decref(manifest);
    return number;
}

/* Over several epochs, whatever the ranks; and the held-out loss, too. */
static void tokens_give_the_bits_of_their_text(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "text", 0,
                    FLAGS("--ranks", "4", "--data", text, "--steps", "30", "--lr", "1e-2",
                          "--heldout", text, "--eval"));
    training_expect(&two, &test_shared_directory, "tokens", 0,
                    FLAGS("--ranks", "2", "--micro-batches", "2", "--data", tokens, "--steps", "30",
                          "--lr", "1e-2", "--heldout", tokens, "--eval"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    assert_true(number_of(&one, "eval", "loss") == number_of(&two, "eval", "loss"));
    assert_true(number_of(&one, "data", "sentences") > 4 * 30);
    assert_true(number_of(&one, "data", "sentences") == number_of(&two, "data", "sentences"));
    const char *shown = strstr(two.program.text[TEST_STDOUT], "held-out loss: ");
    assert_non_null(shown);
    assert_null(strstr(two.program.text[TEST_STDOUT], "exact match"));
}

/* Stages of a pipeline, ranks that share a window, and shards read the same windows. */
static void layouts_read_the_same(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "alone", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "2", "--layers", "2", "--data", text));
    training_expect(&two, &test_shared_directory, "stages", 0,
                    FLAGS("--mode", "pp-cpu", "--ranks", "2", "--micro-batches", "2", "--layers",
                          "2", "--data", tokens));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    training_expect(&two, &test_shared_directory, "shards", 0,
                    FLAGS("--ranks", "2", "--zero", "3", "--layers", "2", "--data", tokens));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    training_expect(&one, &test_shared_directory, "context-text", 0,
                    FLAGS("--ranks", "2", "--context-ranks", "2", "--data", text));
    training_expect(&two, &test_shared_directory, "context-tokens", 0,
                    FLAGS("--ranks", "2", "--context-ranks", "2", "--data", tokens));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

/* Stages evaluate windows of tokens, and drop nothing then: as ranks that train on the text, and decide the same. */
static void stages_evaluate_as_ranks_do(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "ranks-drop", 0,
                    FLAGS("--ranks", "2", "--micro-batches", "2", "--layers", "4", "--data", text,
                          "--heldout", text, "--eval-every", "2", "--keep-best", "--dropout", "0.2",
                          "--lr", "1e-2"));
    training_expect(&two, &test_shared_directory, "stages-drop", 0,
                    FLAGS("--mode", "pp-cpu", "--ranks", "2", "--micro-batches", "4", "--layers",
                          "4", "--pipeline", "interleaved", "--recompute", "--data", tokens,
                          "--heldout", tokens, "--eval-every", "2", "--keep-best", "--dropout",
                          "0.2", "--lr", "1e-2"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    json_t *wanted = training_manifest(&one);
    json_t *found = training_manifest(&two);
    static const char *const parts[] = {"eval_curve", "eval", "best"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        assert_non_null(json_object_get(wanted, parts[i]));
        assert_true(
            json_equal(json_object_get(wanted, parts[i]), json_object_get(found, parts[i])));
    }
    assert_int_equal(json_array_size(json_object_get(found, "eval_curve")), 3);
    json_decref(wanted);
    json_decref(found);
}

static void a_training_goes_on(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "at-once", 0,
                    FLAGS("--ranks", "2", "--data", text, "--steps", "20"));
    training_expect(
        &two, &test_shared_directory, "parts", 0,
        FLAGS("--ranks", "2", "--data", tokens, "--steps", "9", "--save-every", "5", "--resume"));
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "2", "--data", tokens, "--steps", "20",
                          "--save-every", "20", "--resume"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    training_expect(&two, &test_shared_directory, "parts", 1,
                    FLAGS("--ranks", "2", "--data", text, "--steps", "25", "--resume"));
    assert_has(two.program.text[TEST_STDERR], "it was written with other data (--data)");
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    training_expect_refused(&one, FLAGS("--data", tokens, "--tokenizer", other),
                            "text.safetensors: it was made with another tokenizer (SHA-256 ");
    training_expect_refused(
        &one, FLAGS("--data", text, "--heldout", tokens, "--eval", "--tokenizer", other),
        "--heldout: ");
    assert_has(one.program.text[TEST_STDERR], "made with another tokenizer");
    training_expect_refused(&one, FLAGS("--data", tokens, "--loss-on", "correction"),
                            "does not go with a file of tokens");
    training_expect(&one, &test_shared_directory, "model", 0, FLAGS("--steps", "1"));
    char weights[BASE_PATH_BYTES + 32];
    (void)snprintf(weights, sizeof weights, "%s/model.safetensors", one.out);
    training_expect_refused(&two, FLAGS("--data", weights), "it is no file of tokens");
    test_program_start(&two.program,
                       FLAGS(LAUNCHER_PATH, "--mode", "generate", "--checkpoint", one.out,
                             "--heldout", tokens, "--eval"),
                       NULL);
    assert_int_equal(test_program_wait(&two.program), 2);
    assert_has(two.program.text[TEST_STDERR], "a file of tokens has no sentences to correct");
}

/* A file that is cut off is refused before ranks start, and a token of no vocabulary when it is read. */
static void damage_is_named(void **state)
{
    enum { FILE_BYTES_MAX = 16 << 20 };
    (void)state;
    size_t bytes = 0;
    char damaged[BASE_PATH_BYTES];
    base_error error;
    (void)snprintf(damaged, sizeof damaged, "%s", test_shared_path("damaged.safetensors"));
    void *data = test_file_read(tokens, &bytes);
    assert_ok(base_file_write(damaged, data, bytes - 1, &error), &error);
    training_expect_refused(&one, FLAGS("--data", damaged), "damaged.safetensors: ");
    memset((char *)data + bytes - 2000, 0xff, 2000);
    assert_ok(base_file_write(damaged, data, bytes, &error), &error);
    training_expect(&one, &test_shared_directory, "damaged", 1,
                    FLAGS("--ranks", "2", "--data", damaged, "--steps", "400"));
    assert_has(one.program.text[TEST_STDERR], "damaged.safetensors: token ");
    assert_has(one.program.text[TEST_STDERR], " is 65535, and the tokenizer has ");
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_give_the_bits_of_their_text),
        cmocka_unit_test(layouts_read_the_same),
        cmocka_unit_test(stages_evaluate_as_ranks_do),
        cmocka_unit_test(a_training_goes_on),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(damage_is_named),
    };
    return cmocka_run_group_tests(tests, make_files, test_shared_directory_remove);
}
