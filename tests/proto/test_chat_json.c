/* proto/chat_json.h: tools, calls and results as chat templates read them. */
#include "proto/chat_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "proto/request.h"
#include "support.h"

/* What templates get: arguments as an object, whoever sends them as a text. */
static void messages_have_calls_and_results(void **state)
{
    (void)state;
    static const struct {
        const char *message;
        const char *made; /* NULL: refused */
    } cases[] = {
        {"{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":"
         "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}}]}",
         "{\"role\":\"assistant\",\"content\":\"c\",\"tool_calls\":[{\"id\":\"1\",\"type\":"
         "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]}"},
        {"{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":"
         "\"f\",\"arguments\":\"\"}}]}",
         "{\"role\":\"assistant\",\"content\":\"c\",\"tool_calls\":[{\"type\":\"function\","
         "\"function\":{\"name\":\"f\",\"arguments\":{}}}]}"},
        {"{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"\",\"name\":\"f\"}",
         "{\"role\":\"tool\",\"content\":\"c\",\"name\":\"f\",\"tool_call_id\":\"1\"}"},
        {"{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":"
         "\"f\",\"arguments\":\"a\"}}]}",
         NULL},
        {"{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":"
         "1,\"arguments\":{}}}]}",
         NULL},
        {"{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"custom\"}]}", NULL},
        {"{\"role\":\"assistant\",\"tool_calls\":{\"type\":\"function\"}}", NULL},
        {"{\"role\":\"assistant\",\"tool_calls\":\"[{}]\"}", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error;
        char *text = NULL;
        json_t *message = json_loads(cases[i].message, 0, NULL);
        const char *role = json_string_value(json_object_get(message, "role"));
        assert_true(proto_chat_needs_json(message));
        assert_int_equal(proto_chat_write(message, role, "c", &text, &error),
                         cases[i].made != NULL ? BASE_OK : BASE_ERR_INVALID);
        if (cases[i].made != NULL) {
            assert_string_equal(text, cases[i].made);
            assert_int_equal(proto_chat_is_answer(PROTO_CHAT_MESSAGE, text),
                             strcmp(role, "assistant") == 0);
        }
        free(text);
        json_decref(message);
    }
    assert_true(proto_chat_is_answer("assistant", ""));
    assert_false(proto_chat_is_answer("user", "{\"role\":\"assistant\""));
}

static void a_message_of_words_needs_none(void **state)
{
    (void)state;
    static const char *const plain[] = {"{\"role\":\"user\",\"content\":\"a\"}",
                                        "{\"role\":\"assistant\",\"tool_calls\":[]}",
                                        "{\"role\":\"assistant\",\"tool_calls\":null}",
                                        "{\"tool_calls\":\"\"}",
                                        "{\"tool_calls\":\"[]\"}",
                                        "{}"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        json_t *message = json_loads(plain[i], 0, NULL);
        assert_false(proto_chat_needs_json(message));
        json_decref(message);
    }
}

/* Tables have a null for what a tool lacks. */
static void a_tool_may_have_no_parameters(void **state)
{
    (void)state;
    static const struct {
        const char *parameters;
        base_status status;
    } cases[] = {{"{}", BASE_OK}, {"null", BASE_OK}, {"[]", BASE_ERR_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error;
        json_error_t flaw;
        json_t *parameters = json_loads(cases[i].parameters, JSON_DECODE_ANY, &flaw);
        json_t *list = json_pack("[{s:s, s:{s:s, s:o}}]", "type", "function", "function", "name",
                                 "f", "parameters", parameters);
        assert_int_equal(proto_chat_check_tools(list, &error), cases[i].status);
        json_decref(list);
    }
}

static size_t blocks_taken;
static size_t lost_block;

static void *take_block(size_t bytes)
{
    return blocks_taken++ != lost_block ? malloc(bytes) : NULL;
}

/* Whichever block there is no memory for, the message is whole, or there is an error. */
static void no_call_is_lost_without_memory(void **state)
{
    (void)state;
    static const char text[] =
        "{\"role\":\"assistant\",\"content\":\"c\",\"tool_calls\":[{\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}}]}";
    json_t *message = json_loads(text, 0, NULL);
    lost_block = 0;
    do {
        base_error error;
        char *made = NULL;
        blocks_taken = 0;
        json_set_alloc_funcs(take_block, free);
        const base_status status = proto_chat_write(message, "assistant", "c", &made, &error);
        json_set_alloc_funcs(malloc, free);
        if (status == BASE_OK) {
            assert_string_equal(made, text);
        }
        free(made);
    } while (lost_block++ < blocks_taken);
    json_decref(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages_have_calls_and_results),
                                       cmocka_unit_test(a_message_of_words_needs_none),
                                       cmocka_unit_test(a_tool_may_have_no_parameters),
                                       cmocka_unit_test(no_call_is_lost_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
