/* --save-dtype: the type of the model that a training writes at its end. */
#include <stdlib.h>
#include <string.h>

#include "training.h"

static training_run one, two; /* large: they hold a program's output */

/* Whether each number of the model's file is that of the state, rounded to nearest, ties to even. */
static void check_rounded(const training_run *run)
{
    size_t sizes[2];
    uint64_t headers[2];
    char *state = training_file(run, "state-rank-0.safetensors", &sizes[0]);
    char *model = training_file(run, "model.safetensors", &sizes[1]);
    memcpy(&headers[0], state, sizeof headers[0]);
    memcpy(&headers[1], model, sizeof headers[1]);
    const char *exact = state + sizeof headers[0] + headers[0];
    const char *half = model + sizeof headers[1] + headers[1];
    const size_t count = (size_t)(state + sizes[0] - exact) / sizeof(uint32_t);
    assert_int_equal((size_t)(model + sizes[1] - half) / sizeof(uint16_t), count);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        uint16_t rounded = 0;
        memcpy(&bits, exact + i * sizeof bits, sizeof bits);
        memcpy(&rounded, half + i * sizeof rounded, sizeof rounded);
        assert_int_equal(rounded, (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16));
    }
    free(state);
    free(model);
}

/* --save-dtype: the model takes half the bytes, and checkpoints are what they were. */
static void the_model_may_be_rounded(void **state)
{
    (void)state;
    static const char *const modes[] = {"generate", "tp-cpu"};
    static const char CHECKPOINT[] = "checkpoints/step-000000006/model.safetensors";
    static test_program asked[2];
    size_t bytes = 0;
    training_expect(&one, &test_shared_directory, "exact", 0,
                    FLAGS("--ranks", "2", "--save-every", "6", "--save-dtype", "float32"));
    training_expect(&two, &test_shared_directory, "rounded", 0,
                    FLAGS("--ranks", "2", "--save-every", "6", "--save-dtype", "bfloat16"));
    training_assert_same_file(&one, CHECKPOINT, &one, "model.safetensors");
    training_assert_same_file(&one, CHECKPOINT, &two, CHECKPOINT);
    check_rounded(&two);
    char *config = training_file(&two, "config.json", &bytes);
    config[bytes - 1] = '\0';
    assert_has(config, "\"dtype\": \"bfloat16\"");
    free(config);
    for (int i = 0; i < 2; i++) {
        const char *const words[] = {LAUNCHER_PATH,     "--mode",  modes[i],    "--checkpoint",
                                     two.out,           "--quiet", "--no-bind", "--prompt",
                                     "he go to school", "--out",   NULL,        NULL};
        const char *arguments[12];
        memcpy(arguments, words, sizeof words);
        arguments[10] = test_shared_path("asked");
        test_program_start(&asked[i], arguments, FLAGS());
        assert_int_equal(test_program_wait(&asked[i]), 0);
    }
    assert_string_equal(asked[0].text[TEST_STDOUT], asked[1].text[TEST_STDOUT]);
    training_expect_refused(
        &two, FLAGS("--checkpoint", one.out, "--lora", "2", "--save-dtype", "bfloat16"),
        "--save-dtype bfloat16 is of a model, and adapters are written as float32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_model_may_be_rounded)};
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
