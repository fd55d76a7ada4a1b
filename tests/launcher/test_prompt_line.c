/* cli/prompt_line.h: lines of requests. */
#include "cli/prompt_line.h"

#include <string.h>

#include "support.h"

static proto_request request; /* big */

static void reset(void)
{
    memset(&request, 0, sizeof request);
    request.id = 5;
    request.prompt_index = 4;
    request.max_new_tokens = 64;
    request.top_p = 1;
    request.repetition_penalty = 1;
    request.seed = 35200;
}

static launch_line_kind read_line(const char *line)
{
    base_error error;
    launch_line_kind kind = LAUNCH_LINE_EMPTY;
    reset();
    assert_ok(launch_prompt_line(line, strlen(line), &request, &kind, &error), &error);
    return kind;
}

static void a_line_is_a_prompt(void **state)
{
    (void)state;
    assert_int_equal(read_line("he goed to school\r"), LAUNCH_LINE_REQUEST);
    assert_string_equal(request.prompt.text, "he goed to school");
    assert_int_equal(request.text_bytes, strlen("he goed to school"));
    assert_int_equal(request.id, 5);
    assert_int_equal(request.max_new_tokens, 64);
    assert_int_equal(read_line("[\"prompt\"]"), LAUNCH_LINE_REQUEST);
    assert_string_equal(request.prompt.text, "[\"prompt\"]");
    assert_int_equal(read_line(""), LAUNCH_LINE_EMPTY);
    assert_int_equal(read_line("\r"), LAUNCH_LINE_EMPTY);
}

static void an_object_has_options(void **state)
{
    (void)state;
    assert_int_equal(
        read_line("{\"prompt\":\"i has\\u0041\",\"max_new_tokens\":7,\"temperature\":1,"
                  "\"top_k\":40,\"top_p\":0.5,\"seed\":9,\"ignore_eos\":true,"
                  "\"stop_token_ids\":[1,2],\"logprobs\":0}"),
        LAUNCH_LINE_REQUEST);
    assert_string_equal(request.prompt.text, "i hasA");
    assert_int_equal(request.max_new_tokens, 7);
    assert_true(request.temperature == 1.0);
    assert_int_equal(request.top_k, 40);
    assert_true(request.top_p == 0.5);
    assert_int_equal(request.seed, 9);
    assert_true(request.ignore_eos);
    assert_int_equal(request.stop_count, 2);
    assert_int_equal(request.stops[1], 2);
    assert_int_equal(request.logprob_count, 1);
    assert_int_equal(
        read_line(
            "{\"prompt\":\"a\",\"min_p\":0.1,\"presence_penalty\":-2,\"frequency_penalty\":0.5,"
            "\"repetition_penalty\":1.5,\"logit_bias\":{\"7\":-100,\"0\":1.5}}"),
        LAUNCH_LINE_REQUEST);
    assert_true(request.min_p == 0.1);
    assert_true(request.presence_penalty == -2);
    assert_true(request.frequency_penalty == 0.5);
    assert_true(request.repetition_penalty == 1.5);
    assert_int_equal(request.bias_count, 2);
    assert_int_equal(request.bias_tokens[0], 7);
    assert_true(request.biases[0] == -100 && request.biases[1] == 1.5F);
    assert_int_equal(read_line("{\"prompt\":\"a\",\"logprobs\":20}"), LAUNCH_LINE_REQUEST);
    assert_int_equal(request.logprob_count, PROTO_LOGPROBS_MAX);
    assert_int_equal(read_line("{\"prompt_token_ids\":[3,511]}"), LAUNCH_LINE_REQUEST);
    assert_int_equal(request.token_count, 2);
    assert_int_equal(request.prompt.tokens[1], 511);
    assert_int_equal(request.seed, 35200);
    assert_false(request.no_thinking);
    assert_int_equal(
        read_line("{\"prompt\":\"a\",\"chat_template_kwargs\":{\"enable_thinking\":false}}"),
        LAUNCH_LINE_REQUEST);
    assert_true(request.no_thinking);
    assert_int_equal(read_line("{\"cancel\":3}"), LAUNCH_LINE_CANCEL);
    assert_int_equal(request.id, 3);
}

static void a_wrong_line_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *why;
    } wrong[] = {
        {"{", "not a JSON object"},
        {"{}", "\"prompt\", or else"},
        {"{\"prompt\":\"a\",\"prompt\":\"b\"}", "not a JSON object"},
        {"{\"prompt\":\"a\",\"prompt_token_ids\":[1]}", "\"prompt\", or else"},
        {"{\"prompt\":\"\"}", "no \"prompt\""},
        {"{\"prompt\":\"a\\u0000b\"}", "not a JSON object"},
        {"{\"prompt_token_ids\":[]}", "empty"},
        {"{\"prompt_token_ids\":[1,-1]}", "entry 1"},
        {"{\"prompt_token_ids\":[1048576]}", "entry 0"},
        {"{\"prompt\":\"a\",\"max_new_tokens\":0}", "max_new_tokens"},
        {"{\"prompt\":\"a\",\"max_new_tokens\":1e3}", "max_new_tokens"},
        {"{\"prompt\":\"a\",\"temperature\":\"hot\"}", "temperature"},
        {"{\"prompt\":\"a\",\"temperature\":0.0001}", "temperature"},
        {"{\"prompt\":\"a\",\"top_p\":0}", "top_p"},
        {"{\"prompt\":\"a\",\"top_k\":1025}", "top_k"},
        {"{\"prompt\":\"a\",\"min_p\":1.5}", "min_p"},
        {"{\"prompt\":\"a\",\"presence_penalty\":2.5}", "presence_penalty"},
        {"{\"prompt\":\"a\",\"frequency_penalty\":\"a\"}", "frequency_penalty"},
        {"{\"prompt\":\"a\",\"repetition_penalty\":0}", "repetition_penalty"},
        {"{\"prompt\":\"a\",\"logit_bias\":[1]}", "logit_bias"},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"a\":1}}", "logit_bias: \"a\""},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"07\":1}}", "logit_bias: \"07\""},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"7\":101}}", "logit_bias: \"7\""},
        {"{\"prompt\":\"a\",\"logit_bias\":{\"1048576\":1}}", "logit_bias: \"1048576\""},
        {"{\"prompt\":\"a\",\"seed\":-1}", "seed"},
        {"{\"prompt\":\"a\",\"ignore_eos\":1}", "ignore_eos"},
        {"{\"prompt\":\"a\",\"logprobs\":21}", "logprobs"},
        {"{\"prompt\":\"a\",\"logprobs\":-1}", "logprobs"},
        {"{\"prompt\":\"a\",\"logprobs\":true}", "logprobs"},
        {"{\"prompt\":\"a\",\"stop_token_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}",
         "stop_token_ids"},
        {"{\"prompt\":\"a\",\"chat_template_kwargs\":[]}", "enable_thinking"},
        {"{\"prompt\":\"a\",\"chat_template_kwargs\":{\"enable_thinking\":0}}", "enable_thinking"},
        {"{\"prompt\":\"a\",\"chat_template_kwargs\":{\"date_string\":\"a\"}}", "enable_thinking"},
        {"{\"prompt\":\"a\",\"n\":2}", "no \"n\""},
        {"{\"prompt\":\"a\",\"max_tokens\":2}", "max_new_tokens"},
        {"{\"cancel\":0}", "cancel"},
        {"{\"cancel\":1,\"prompt\":\"a\"}", "stands alone"},
        {"a\xff", "UTF-8"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        base_error error = {.message = ""};
        launch_line_kind kind = LAUNCH_LINE_EMPTY;
        reset();
        const base_status status =
            launch_prompt_line(wrong[i].line, strlen(wrong[i].line), &request, &kind, &error);
        if (status == BASE_OK || strstr(error.message, wrong[i].why) == NULL) {
            fail_msg("%s: %d, %s", wrong[i].line, status, error.message);
        }
        assert_int_equal(kind, strstr(wrong[i].line, "cancel") != NULL ? LAUNCH_LINE_CANCEL
                                                                       : LAUNCH_LINE_REQUEST);
    }
}

static void a_long_prompt_is_refused(void **state)
{
    (void)state;
    static char line[PROTO_PROMPT_BYTES_MAX + 1];
    base_error error;
    launch_line_kind kind = LAUNCH_LINE_EMPTY;
    reset();
    memset(line, 'a', sizeof line);
    assert_int_equal(launch_prompt_line(line, sizeof line, &request, &kind, &error),
                     BASE_ERR_LIMIT);
    assert_ok(launch_prompt_line(line, sizeof line - 1, &request, &kind, &error), &error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_a_prompt),
        cmocka_unit_test(an_object_has_options),
        cmocka_unit_test(a_wrong_line_says_why),
        cmocka_unit_test(a_long_prompt_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
