/* Runs inference jobs on a small model. Used by the tests of inference, requests and serving. */
#include "inference.h"

#include <stdio.h>
#include <stdlib.h>

training_run inference_model;

int inference_make_model(void **state)
{
    (void)state;
    test_directory_make(&test_shared_directory);
    training_expect(&inference_model, &test_shared_directory, "model", 0,
                    FLAGS("--ranks", "1", "--heads", "4", "--width", "64", "--context", "128"));
    return 0;
}

int inference_run(test_program *program, const char *mode, const char *ranks, const char *name,
                  const char *const *flags)
{
    const char *arguments[TEST_PROGRAM_ARGS_MAX] = {LAUNCHER_PATH,
                                                    "--mode",
                                                    mode,
                                                    "--ranks",
                                                    ranks,
                                                    "--checkpoint",
                                                    inference_model.out,
                                                    "--no-bind",
                                                    "--max-new-tokens",
                                                    "12"};
    size_t count = 10;
    if (name != NULL) {
        arguments[count++] = "--out";
        arguments[count++] = test_shared_path(name);
    }
    for (size_t i = 0; flags[i] != NULL; i++) {
        arguments[count++] = flags[i];
    }
    arguments[count] = NULL;
    test_program_start(program, arguments, FLAGS(NULL));
    const int code = test_program_wait(program);
    test_program_assert_no_children();
    return code;
}

json_t *inference_file(const char *name, const char *file)
{
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", name, file);
    json_t *json = json_load_file(test_shared_path(path), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    return json;
}

json_t *inference_results(const char *name)
{
    return inference_file(name, "results.json");
}

json_t *inference_timings(const char *name)
{
    return training_timings(test_shared_path(name));
}

json_t *inference_measure(const char *ranks, const char *name, const char *const *flags)
{
    static test_program program;
    const int code = inference_run(&program, "tp-cpu", ranks, name, flags);
    if (code != 0) {
        fail_msg("%s: %d: %s", name, code, program.text[TEST_STDERR]);
    }
    return inference_results(name);
}

double inference_real(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) {
        fail_msg("%s is no number", key);
    }
    return json_number_value(value);
}

char *inference_tokens(const char *ranks, const char *name, const char *const *flags)
{
    json_t *results = inference_measure(ranks, name, flags);
    json_t *all = json_array();
    size_t index = 0;
    json_t *prompt = NULL;
    json_array_foreach(json_object_get(results, "prompts"), index, prompt)
    {
        assert_int_equal(json_array_append(all, json_object_get(prompt, "token_ids")), 0);
    }
    assert_true(json_array_size(all) > 0);
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    json_decref(results);
    return text;
}
