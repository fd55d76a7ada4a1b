/* --serve with --adapter: which models are listed, which may be asked for, and which one answers. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "serving.h"

static training_run adapter;

static int setup(void **state)
{
    (void)inference_make_model(state);
    training_expect(&adapter, &test_shared_directory, "tuned", 0,
                    FLAGS("--ranks", "1", "--heads", "4", "--width", "64", "--context", "128",
                          "--steps", "1", "--lora", "2", "--checkpoint", inference_model.out));
    return 0;
}

static json_t *listed(void)
{
    assert_int_equal(serving_ask("/v1/models", ""), 200);
    json_t *object = json_loads(serving_reply, JSON_REJECT_DUPLICATES, NULL);
    json_t *data = json_incref(json_object_get(object, "data"));
    json_decref(object);
    return data;
}

static void check_model(const json_t *data, size_t i, const char *id, const char *parent)
{
    const json_t *one = json_array_get(data, i);
    const json_t *of = json_object_get(one, "parent");
    assert_string_equal(json_string_value(json_object_get(one, "id")), id);
    assert_string_equal(json_string_value(json_object_get(one, "root")),
                        parent != NULL ? parent : id);
    if (parent != NULL) {
        assert_string_equal(json_string_value(of), parent);
    } else {
        assert_true(json_is_null(of));
    }
}

/* Asks for the model; its name is in the answer. */
static void check_answer(const char *name)
{
    char arguments[256];
    char says[64];
    (void)snprintf(arguments, sizeof arguments,
                   "-d '{\"prompt\":\"he goed\",\"max_tokens\":2,\"model\":\"%s\"}'", name);
    assert_int_equal(serving_ask("/v1/completions", arguments), 200);
    (void)snprintf(says, sizeof says, "\"model\":\"%s\"", name);
    assert_has(serving_reply, says);
}

static void the_adapter_answers(void **state)
{
    (void)state;
    serving_start(&inference_model, "2", FLAGS("--adapter", adapter.out));
    json_t *data = listed();
    assert_int_equal(json_array_size(data), 1);
    check_model(data, 0, "tuned", "model");
    json_decref(data);
    assert_int_equal(serving_ask("/v1/models/tuned", ""), 200);
    assert_has(serving_reply, "\"parent\":\"model\"");
    assert_int_equal(serving_ask("/v1/models/model", ""), 404);
    check_answer("tuned");
    assert_int_equal(serving_ask("/v1/completions", "-d '{\"prompt\":\"a\",\"model\":\"model\"}'"),
                     404);
    assert_has(serving_reply, "there is only \\\"tuned\\\" here");
    assert_int_equal(serving_end(SIGTERM), 0);
}

static void a_model_without_one_is_listed_alone(void **state)
{
    (void)state;
    serving_start(&inference_model, "1", FLAGS(NULL));
    json_t *data = listed();
    assert_int_equal(json_array_size(data), 1);
    check_model(data, 0, "model", NULL);
    json_decref(data);
    check_answer("model");
    assert_int_equal(serving_ask("/v1/models/", ""), 404);
    assert_int_equal(serving_end(SIGTERM), 0);
}

static void a_model_has_the_name_that_it_is_given(void **state)
{
    (void)state;
    static const char name[] = "of/some-\xc3\xa9";
    serving_start(&inference_model, "1", FLAGS("--served-model-name", name));
    json_t *data = listed();
    check_model(data, 0, name, NULL);
    json_decref(data);
    check_answer(name);
    assert_int_equal(serving_ask("/v1/models/of/some-%C3%A9", ""), 200);
    assert_int_equal(serving_ask("/v1/models/model", ""), 404);
    assert_int_equal(serving_end(SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_adapter_answers),
        cmocka_unit_test(a_model_without_one_is_listed_alone),
        cmocka_unit_test(a_model_has_the_name_that_it_is_given),
    };
    return cmocka_run_group_tests(tests, setup, test_shared_directory_remove);
}
