/* serve/tools.h: which tools there may be, and which answers call them, whole and in pieces. */
#include "serve/tools.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { TEXT_BYTES = 512 };

#define F    "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"
#define TIME "{\"type\":\"function\",\"function\":{\"name\":\"time\",\"parameters\":{}}}"

/* The calls as "name(arguments) ...", or "none". */
static void describe(json_t *calls, char text[TEXT_BYTES])
{
    size_t index = 0;
    const json_t *call = NULL;
    (void)snprintf(text, TEXT_BYTES, "%s", calls == NULL ? "none" : "");
    json_array_foreach(calls, index, call)
    {
        const json_t *function = json_object_get(call, "function");
        char one[TEXT_BYTES];
        char id[16];
        (void)snprintf(id, sizeof id, "%09zu", 7 * 64 + index);
        assert_string_equal(json_string_value(json_object_get(call, "id")), id);
        assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
        (void)snprintf(one, sizeof one, "%s%s(%s)", index > 0 ? " " : "",
                       json_string_value(json_object_get(function, "name")),
                       json_string_value(json_object_get(function, "arguments")));
        (void)strncat(text, one, TEXT_BYTES - strlen(text) - 1);
    }
    json_decref(calls);
}

/* Sends a text that comes in pieces of so many bytes, as a stream does. */
static void in_pieces(const json_t *list, const char *text, size_t piece, char sent[TEXT_BYTES],
                      char calls[TEXT_BYTES])
{
    char held[TEXT_BYTES] = "";
    size_t content_bytes = 0;
    bool worded = false;
    sent[0] = '\0';
    for (size_t at = 0; at < strlen(text); at += piece) {
        (void)strncat(held, text + at, piece);
        const size_t plain = launch_tools_plain(held, strlen(held), worded);
        (void)strncat(sent, held, plain);
        memmove(held, held + plain, strlen(held + plain) + 1);
        worded = worded || plain > 0;
    }
    json_t *made = launch_tools_calls(list, held, strlen(held), worded, 7, &content_bytes);
    (void)strncat(sent, held, made != NULL ? content_bytes : strlen(held));
    describe(made, calls);
}

static void answers_call_tools(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *content; /* NULL: all of the text */
        const char *calls;
    } cases[] = {
        {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", "",
         "f({\"a\":1})"},
        {"I look.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n", "I look.", "f({})"},
        {"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"time\"}",
         "", "f({}) time({})"},
        {"<think>\n\n</think>\n\n<tool_call>{\"name\":\"time\"}</tool_call>", "<think>\n\n</think>",
         "time({})"},
        {"<think>A <tool_call>, then.</think><tool_call>{\"name\":\"f\"}</tool_call>",
         "<think>A <tool_call>, then.</think>", "f({})"},
        /* without marks */
        {" {\"name\": \"f\", \"parameters\": {\"a\": [0.1, 1e300, 1.5]}}", "",
         "f({\"a\":[0.1,1e300,1.5]})"},
        {"[{\"name\":\"f\",\"arguments\":{}},{\"name\":\"time\",\"arguments\":null}]", "",
         "f({}) time({})"},
        {"{\"name\":\"f\",\"parameters\":{}}; {\"name\":\"time\"}", "", "f({}) time({})"},
        {"{\"name\":\"f\",\"arguments\":\"{\\\"b\\\": \\\"\\u00e9<tool_call>\\\"}\"}", "",
         "f({\"b\":\"\xc3\xa9<tool_call>\"})"},
        {"{\"name\":\"f\",\"arguments\":{\"x\":0.30000000000000004}}", "",
         "f({\"x\":0.30000000000000004})"},
        {"{\"name\":\"time\",\"arguments\":\"\"}", "", "time({})"},
        /* no calls */
        {"", NULL, "none"},
        {" \n", NULL, "none"},
        {"a < b, and <tool", NULL, "none"},
        {"a <tool_calls> b", NULL, "none"},
        {"[]", NULL, "none"},
        {"{\"name\":\"g\",\"arguments\":{}}", NULL, "none"},
        {"{\"name\":\"f\",\"arguments\":[]}", NULL, "none"},
        {"{\"name\":\"f\",\"arguments\":\"now\"}", NULL, "none"},
        {"{\"name\":\"f\",\"arguments\":{}} is a call", NULL, "none"},
        {"So: {\"name\":\"f\",\"arguments\":{}}", NULL, "none"},
        {"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> Done.", NULL, "none"},
        {"<tool_call>{\"name\":\"f\",\"argum", NULL, "none"},
        {"<tool_call>", NULL, "none"},
        {"{\"name\":\"f\",\"arguments\":{}}{\"name\":\"g\"}", NULL, "none"},
        {"{\"name\":\"f\",\"name\":\"f\",\"arguments\":{}}", NULL, "none"},
        {"[[{\"name\":\"f\"}]]", NULL, "none"},
    };
    json_t *list = json_loads("[" F "," TIME "]", 0, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].text;
        char got[TEXT_BYTES];
        char sent[TEXT_BYTES];
        size_t content_bytes = 0;
        describe(launch_tools_calls(list, text, strlen(text), false, 7, &content_bytes), got);
        assert_string_equal(got, cases[i].calls);
        if (cases[i].content != NULL) {
            assert_int_equal(content_bytes, strlen(cases[i].content));
            assert_memory_equal(text, cases[i].content, content_bytes);
        }
        for (size_t piece = 1; piece <= strlen(text); piece++) {
            in_pieces(list, text, piece, sent, got);
            assert_string_equal(got, cases[i].calls);
            if (cases[i].content != NULL) { /* blanks before a call may have been sent */
                sent[strlen(cases[i].content)] = '\0';
                assert_string_equal(sent, cases[i].content);
            } else {
                assert_string_equal(sent, text);
            }
        }
    }
    json_decref(list);
}

/* Words are sent as soon as they can be no call. */
static void words_are_not_held(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool worded;
        size_t plain;
    } cases[] = {
        {"word", false, 4},
        {" ", false, 0},
        {"{", false, 0},
        {" [", false, 0},
        {"{", true, 1},
        {" ", true, 1},
        {"a <", false, 2},
        {"a <tool_cal", false, 2},
        {"a <b", false, 4},
        {"<", true, 0},
        {"a <tool_call>", true, 2},
        {"<tool_call>{", true, 0},
        {"a <tool_call>, b", true, 16},
        {"<tool_call>\n", true, 0},
        {"<tool_call>\n<function=f>", false, 24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(launch_tools_plain(cases[i].text, strlen(cases[i].text), cases[i].worded),
                         cases[i].plain);
    }
}

static void at_most_so_many_calls(void **state)
{
    (void)state;
    enum { MOST = 64 };
    static const char call[] = "{\"name\":\"f\"}";
    const size_t call_bytes = sizeof call - 1;
    char text[(MOST + 1) * sizeof call];
    json_t *list = json_loads("[" F "]", 0, NULL);
    size_t content_bytes = 0;
    for (size_t i = 0; i <= MOST; i++) {
        memcpy(text + i * call_bytes, call, call_bytes);
    }
    json_t *calls = launch_tools_calls(list, text, MOST * call_bytes, false, 1, &content_bytes);
    assert_int_equal(json_array_size(calls), MOST);
    json_decref(calls);
    assert_null(launch_tools_calls(list, text, (MOST + 1) * call_bytes, false, 1, &content_bytes));
    json_decref(list);
}

static void a_request_says_which_there_are(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        const char *choice;
        const char *wrong; /* the field; NULL: none */
        bool may;
        bool must;
    } cases[] = {
        {"null", "null", NULL, false, false},
        {"[]", "\"auto\"", NULL, false, false},
        {"[]", "\"none\"", NULL, false, false},
        {"[" F "]", "null", NULL, true, false},
        {"[" F "," TIME "]", "\"auto\"", NULL, true, false},
        {"[" F "]", "\"none\"", NULL, false, false},
        {"[" F "," TIME "]", "\"required\"", NULL, true, true},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":null}}]",
         "\"required\"", NULL, true, true},
        {"[" F "," TIME "]", F, NULL, true, true},
        {"[" F "]", TIME, "tool_choice", false, false},
        {"[]", "\"required\"", "tool_choice", false, false},
        {"[" F "]", "\"f\"", "tool_choice", false, false},
        {"[" F "]", "{\"type\":\"function\"}", "tool_choice", false, false},
        {"{}", "null", "tools", false, false},
        {"[{}]", "null", "tools", false, false},
        {"[{\"type\":\"custom\",\"function\":{\"name\":\"f\"}}]", "null", "tools", false, false},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"\"}}]", "null", "tools", false, false},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]", "null", "tools", false,
         false},
        {"[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":[]}}]", "null",
         "tools", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {.message = ""};
        const char *field = "";
        launch_tools tools = {.list = NULL};
        json_t *list = json_loads(cases[i].list, JSON_DECODE_ANY, NULL);
        json_t *choice = json_loads(cases[i].choice, JSON_DECODE_ANY, NULL);
        const base_status status =
            launch_tools_read(json_is_null(list) ? NULL : list,
                              json_is_null(choice) ? NULL : choice, &tools, &field, &error);
        assert_int_equal(status, cases[i].wrong != NULL ? BASE_ERR_INVALID : BASE_OK);
        if (cases[i].wrong != NULL) {
            assert_string_equal(field, cases[i].wrong);
            assert_has(error.message, cases[i].wrong);
        }
        assert_int_equal(tools.list != NULL, cases[i].may);
        assert_int_equal(tools.schema != NULL, cases[i].must);
        launch_tools_fini(&tools);
        json_decref(list);
        json_decref(choice);
    }
}

/* The parameters' own references lead into them, wherever they stand in the schema of a call. */
static void a_call_has_a_schema(void **state)
{
    (void)state;
    base_error error;
    const char *field = "";
    launch_tools tools = {.list = NULL};
    json_t *list = json_loads(
        "[" F ",{\"type\":\"function\",\"function\":{\"name\":\"g\",\"parameters\":{\"type\":"
        "\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/A\"},\"$ref\":{\"anyOf\":[{\"$ref\":"
        "\"#\"},{\"$ref\":\"other\"}]}},\"$defs\":{\"A\":{\"type\":\"null\"}}}}}]",
        0, NULL);
    json_t *choice = json_string("required");
    assert_ok(launch_tools_read(list, choice, &tools, &field, &error), &error);
    char *text = json_dumps(tools.schema, JSON_COMPACT);
    assert_string_equal(
        text,
        "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"f\"},\"arguments\":"
        "{\"$ref\":\"#/$defs/0\"}},\"required\":[\"name\",\"arguments\"],\"additionalProperties\":"
        "false},{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"g\"},\"arguments\":{"
        "\"$ref\":\"#/$defs/1\"}},\"required\":[\"name\",\"arguments\"],\"additionalProperties\":"
        "false}],\"$defs\":{\"0\":{\"type\":\"object\",\"properties\":{},\"additionalProperties\":"
        "false},\"1\":{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/1/$defs/A\"},"
        "\"$ref\":{\"anyOf\":[{\"$ref\":\"#/$defs/1\"},{\"$ref\":\"other\"}]}},\"$defs\":{\"A\":{"
        "\"type\":\"null\"}}}}}");
    free(text);
    launch_tools_fini(&tools);
    json_decref(choice);
    json_decref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_call_tools),    cmocka_unit_test(words_are_not_held),
        cmocka_unit_test(at_most_so_many_calls), cmocka_unit_test(a_request_says_which_there_are),
        cmocka_unit_test(a_call_has_a_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
