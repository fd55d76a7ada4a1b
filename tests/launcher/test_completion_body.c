/* serve/completion_body.h: what common clients send by themselves is taken, and what cannot be done is refused by
 * name. */
#include "serve/completion_body.h"

#include <stdio.h>
#include <string.h>

#include "proto/job.h"
#include "serve/request_key.h"
#include "support.h"

static launch_completion_body body;
static char field[LAUNCH_FIELD_BYTES];
static base_error error;

static base_status read_body(const char *text, bool chat)
{
    static proto_job job;
    launch_completion_body_fini(&body);
    memset(&body, 0, sizeof body);
    body.chat = chat;
    proto_job_defaults(&job);
    launch_request_defaults(&job, &body.request);
    error.message[0] = '\0';
    return launch_completion_body_read(text, strlen(text), "model", &body, field, &error);
}

/* Bodies as clients make them without being told more than a prompt. */
static void clients_defaults_are_taken(void **state)
{
    (void)state;
    static const char *const chats[] = {
        /* openai-python */
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"model\":\"model\"}",
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}],"
        "\"model\":\"model\",\"store\":true,\"metadata\":{\"a\":\"b\"},\"modalities\":[\"text\"],"
        "\"prediction\":{\"type\":\"content\",\"content\":\"a\"},\"service_tier\":\"priority\","
        "\"verbosity\":\"medium\",\"prompt_cache_retention\":\"24h\",\"seed\":-1}",
        /* LangChain */
        "{\"messages\":[{\"content\":\"a\",\"role\":\"user\"}],\"model\":\"model\",\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true},\"temperature\":0.7,\"n\":1,"
        "\"max_completion_tokens\":9,\"parallel_tool_calls\":true,\"tool_choice\":\"auto\"}",
        "{\"messages\":[{\"content\":\"a\",\"role\":\"user\"}],\"model\":\"model\",\"n\":3,"
        "\"temperature\":1e-8,\"presence_penalty\":0.0,\"frequency_penalty\":0.0}",
        /* llama-index */
        "{\"messages\":[{\"role\":\"system\",\"content\":\"b\"},{\"role\":\"user\",\"content\":"
        "\"a\"}],"
        "\"model\":\"model\",\"stream\":false,\"temperature\":0.1,\"max_tokens\":null}",
        /* Open WebUI */
        "{\"stream\":true,\"model\":\"model\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
        "\"max_tokens\":9,\"reasoning_effort\":\"low\",\"logit_bias\":{\"5\":-100},\"stop\":[\"b\"]"
        ","
        "\"frequency_penalty\":1.1,\"response_format\":{\"type\":\"text\"}}",
        /* vLLM's own */
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"min_tokens\":0,\"use_beam_"
        "search\":false,"
        "\"skip_special_tokens\":true,\"spaces_between_special_tokens\":true,\"length_penalty\":1."
        "0,"
        "\"add_generation_prompt\":true,\"continue_final_message\":false,\"stream\":true,"
        "\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":false},\"tools\":"
        "null}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
        "\"spaces_between_special_tokens\":false}",
        /* answers that come back: of a call that had no text, and of models that think */
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":"
        "null,\"refusal\":null,\"tool_calls\":[]},{\"role\":\"assistant\"},"
        "{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":\"c\",\"reasoning\":\"c\"}"
        "]}",
    };
    static const char *const completions[] = {
        /* LangChain: a list of prompts, always */
        "{\"model\":\"model\",\"prompt\":[\"a\"],\"frequency_penalty\":0,\"logit_bias\":{},"
        "\"logprobs\":null,\"max_tokens\":256,\"n\":1,\"presence_penalty\":0,\"seed\":null,"
        "\"temperature\":0.7,\"top_p\":1}",
        /* openai-python, with all that it documents */
        "{\"model\":\"model\",\"prompt\":\"a\",\"best_of\":2,\"echo\":false,\"n\":2,\"stop\":null,"
        "\"stream\":false,\"suffix\":null,\"user\":\"b\",\"logprobs\":5}",
        /* lm-evaluation-harness, and OpenAI's way to weigh a text alone */
        "{\"model\":\"model\",\"prompt\":[[7,8]],\"temperature\":0,\"max_tokens\":1,\"logprobs\":1,"
        "\"seed\":1234,\"echo\":true}",
        "{\"prompt\":\"a\",\"max_tokens\":0,\"logprobs\":1,\"echo\":true}",
    };
    for (size_t i = 0; i < sizeof chats / sizeof chats[0]; i++) {
        assert_ok(read_body(chats[i], true), &error);
    }
    for (size_t i = 0; i < sizeof completions / sizeof completions[0]; i++) {
        assert_ok(read_body(completions[i], false), &error);
    }
}

#define TOOLS(parameters)                                                                          \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{" parameters   \
    "}}}]"

static void what_cannot_be_done_is_named(void **state)
{
    (void)state;
    static const struct {
        bool chat;
        const char *member;
        const char *says;
    } wrong[] = {
        {true, "\"tools\":[{}]", "tools: entry 0 must be"},
        {true, "\"tool_choice\":\"required\"", "tool_choice: must be none, auto, required or"},
        {true,
         "\"tool_choice\":\"required\",\"response_format\":{\"type\":\"json_object\"}," TOOLS(
             "\"type\":\"object\""),
         "tool_choice: an answer that must be a call has no"},
        {true, "\"tool_choice\":\"required\"," TOOLS("\"uniqueItems\":true"),
         "tools: \"uniqueItems\" of \"arguments\": not supported in a schema"},
        {false, "\"tools\":[{}]", "tools: a chat may have them"},
        {false, "\"tool_choice\":\"required\"", "tool_choice: must be none or auto"},
        {true, "\"functions\":[{}]", "functions: the older form of tools"},
        {true, "\"response_format\":{\"type\":\"json\"}", "response_format: must be"},
        {true, "\"modalities\":[\"text\",\"audio\"]", "modalities: must be"},
        {true, "\"audio\":{\"voice\":\"a\"}", "audio: answers are texts"},
        {true, "\"verbosity\":\"high\"", "verbosity: must be medium"},
        {true, "\"reasoning_effort\":\"much\"", "reasoning_effort: must be none"},
        {true, "\"reasoning_effort\":1", "reasoning_effort: must be none"},
        {true, "\"web_search_options\":{\"a\":1}", "web_search_options: nothing"},
        {true, "\"best_of\":1", "best_of: a chat has no such field"},
        {true, "\"suffix\":\"\"", "suffix: a chat has no such field"},
        {true, "\"continue_final_message\":true", "continue_final_message: must be false"},
        {true, "\"top_logprobs\":2", "top_logprobs: goes with logprobs: true"},
        {true, "\"n\":0", "n: must be an integer from 1 to 64"},
        {false, "\"n\":65", "n: must be an integer from 1 to 64"},
        {false, "\"n\":2,\"best_of\":3", "best_of: must be n, which is 2"},
        {true, "\"echo\":true", "echo: a chat has no such field"},
        {false, "\"echo\":1", "echo: must be true or false"},
        {false, "\"max_tokens\":0",
         "max_tokens: must be an integer from 1 to 65536, or 0 with echo"},
        {true, "\"max_tokens\":0", "max_tokens: must be an integer from 1 to 65536"},
        {false, "\"suffix\":\"b\"", "suffix: texts have no given end"},
        {false, "\"reasoning_effort\":\"low\"", "reasoning_effort: a completion has no such"},
        {false, "\"min_tokens\":3", "min_tokens: must be 0"},
        {false, "\"skip_special_tokens\":false", "skip_special_tokens: must be true"},
        {false, "\"spaces_between_special_tokens\":1",
         "spaces_between_special_tokens: must be true"},
        {false, "\"use_beam_search\":true", "use_beam_search: must be false"},
        {false, "\"stream_options\":{\"continuous_usage_stats\":true}", "stream_options: has"},
        {false, "\"top_logprobs\":2", "top_logprobs: goes with chats"},
        {false, "\"seed\":1.5", "seed: must be an integer"},
        {false, "\"warmth\":1", "warmth: a completion has no such field"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[512];
        (void)snprintf(text, sizeof text, "{%s,%s}", wrong[i].member,
                       wrong[i].chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
                                     : "\"prompt\":\"a\"");
        assert_status(read_body(text, wrong[i].chat), BASE_ERR_INVALID);
        if (strstr(error.message, wrong[i].says) == NULL ||
            strncmp(error.message, field, strlen(field)) != 0) {
            fail_msg("%s: %s (%s)", text, error.message, field);
        }
    }
}

/* Of an assistant only: no content is an empty one, and thoughts are ignored. */
static void an_assistant_may_have_said_nothing(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"{\"role\":\"user\",\"content\":null}", "its content must be a text"},
        {"{\"role\":\"system\"}", "its content must be a text"},
        {"{\"role\":\"assistant\",\"content\":1}", "its content must be a text"},
        {"{\"role\":\"user\",\"content\":\"a\",\"reasoning\":\"b\"}", "reasoning: this is not"},
    };
    static const char chat[] = "user\0a\0assistant\0\0assistant\0b";
    assert_ok(
        read_body(
            "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
            "\"content\":null},{\"role\":\"assistant\",\"content\":\"b\",\"reasoning_content\":"
            "\"c\"}]}",
            true),
        &error);
    assert_int_equal(body.requests[0]->message_count, 3);
    assert_memory_equal(body.requests[0]->prompt.text, chat, sizeof chat);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "{\"messages\":[%s]}", wrong[i][0]);
        assert_status(read_body(text, true), BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, wrong[i][1]));
    }
}

/* The list comes before the messages, wherever it stands, and an answer that must be a call has a grammar. */
static void a_chat_may_have_tools(void **state)
{
    (void)state;
    static const char list[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]";
    static const char messages[] = "user\0a\0message\0{\"role\":\"tool\"";
    static const char *const others[] = {"\"n\":1", "\"tool_choice\":\"required\"",
                                         "\"tool_choice\":\"none\""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char text[512];
        const bool has = i < 2;
        (void)snprintf(text, sizeof text,
                       "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"tool\","
                       "\"content\":\"b\"}],%s,\"tools\":%s}",
                       others[i], list);
        assert_ok(read_body(text, true), &error);
        const proto_request *request = body.requests[0];
        const char *at = request->prompt.text;
        assert_int_equal(request->message_count, has ? 3 : 2);
        assert_int_equal(request->grammar_count > 0, i == 1);
        if (has) {
            assert_string_equal(at, PROTO_CHAT_TOOLS);
            assert_string_equal(at + sizeof PROTO_CHAT_TOOLS, list);
            at += sizeof PROTO_CHAT_TOOLS + sizeof list;
        }
        assert_memory_equal(at, messages, sizeof messages - 1);
    }
    launch_completion_body_fini(&body);
    /* nobody but the launcher writes these roles */
    assert_status(read_body("{\"messages\":[{\"role\":\"message\",\"content\":\"{}\"}]}", true),
                  BASE_ERR_INVALID);
    assert_status(read_body("{\"messages\":[{\"role\":\"tools\",\"content\":\"[]\"}]}", true),
                  BASE_ERR_INVALID);
}

/* Each request has all options, wherever these stand, and its own prompt. */
static void prompts_have_the_same_options(void **state)
{
    (void)state;
    assert_ok(read_body("{\"prompt\":[\"he goed\",[7,8,9],\"she\"],\"n\":21,\"max_tokens\":5,"
                        "\"temperature\":0.5,\"logit_bias\":{\"9\":1.5},\"seed\":-9}",
                        false),
              &error);
    assert_int_equal(body.prompt_count, 3);
    assert_int_equal(body.choices_each, 21);
    assert_true(body.seeded);
    assert_string_equal(body.requests[0]->prompt.text, "he goed");
    assert_int_equal(body.requests[1]->token_count, 3);
    assert_int_equal(body.requests[1]->prompt.tokens[2], 9);
    assert_string_equal(body.requests[2]->prompt.text, "she");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(body.requests[i]->max_new_tokens, 5);
        assert_int_equal(body.requests[i]->bias_count, 1);
        assert_int_equal(body.requests[i]->bias_tokens[0], 9);
        assert_true(body.requests[i]->temperature == 0.5);
        assert_true(body.requests[i]->seed == (uint64_t)-9);
        assert_int_equal(body.requests[i]->token_count > 0, i == 1);
        assert_int_equal(body.requests[i]->text_bytes > 0, i != 1);
    }
    assert_status(read_body("{\"prompt\":[\"a\",\"b\",\"c\"],\"n\":22}", false), BASE_ERR_LIMIT);
    assert_string_equal(field, "prompt");
    assert_status(read_body("{\"prompt\":[\"a\",1]}", false), BASE_ERR_INVALID);
    assert_status(read_body("{\"prompt\":[]}", false), BASE_ERR_INVALID);
    assert_status(read_body("{\"prompt\":null}", false), BASE_ERR_INVALID);
    assert_status(read_body("{\"n\":2}", true), BASE_ERR_INVALID);
    assert_string_equal(field, "messages");
}

/* A whole answer has room for so many log-probabilities. Where the request's fields exceed them, it is refused before any work. */
static void what_would_be_too_large_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        bool fits;
    } cases[] = {
        {"\"n\":64,\"max_tokens\":170,\"logprobs\":5", true},
        {"\"n\":64,\"max_tokens\":171,\"logprobs\":5", false},
        {"\"n\":64,\"max_tokens\":171,\"logprobs\":5,\"stream\":true", true},
        {"\"n\":64,\"max_tokens\":171,\"logprobs\":4", true},
        {"\"n\":64,\"max_tokens\":65536", true}, /* how long its text is, is not known */
        {"\"max_tokens\":65536,\"logprobs\":0", true},
        {"\"max_tokens\":65536,\"logprobs\":1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "{%s,\"prompt\":\"a\"}", cases[i].members);
        const base_status status = read_body(text, false);
        if (status != (cases[i].fits ? BASE_OK : BASE_ERR_LIMIT)) {
            fail_msg("%s: %s", text, error.message);
        }
        if (!cases[i].fits) {
            assert_string_equal(field, "max_tokens");
            assert_has(error.message, "lower n, max_tokens or logprobs, or set stream");
        }
    }
    assert_status(
        read_body("{\"prompt\":[\"a\",\"b\"],\"n\":32,\"max_tokens\":171,\"logprobs\":5}", false),
        BASE_ERR_LIMIT);
    /* a chat that does not say how long has what room there is: its answer may be short */
    assert_ok(read_body("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"logprobs\":true,"
                        "\"top_logprobs\":20}",
                        true),
              &error);
    assert_status(read_body("{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"logprobs\":"
                            "true,\"top_logprobs\":20,\"max_completion_tokens\":3121}",
                            true),
                  BASE_ERR_LIMIT);
}

#define MESSAGES "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"

/* An effort of none is the switch of a template that has one, and others are the model's thoughts; the switch
 * itself counts first. */
static void an_effort_is_the_switch(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool no_thinking;
    } cases[] = {
        {MESSAGES "}", false},
        {MESSAGES ",\"reasoning_effort\":\"none\"}", true},
        {MESSAGES ",\"reasoning_effort\":\"high\"}", false},
        {MESSAGES ",\"reasoning_effort\":null}", false},
        {MESSAGES
         ",\"chat_template_kwargs\":{\"enable_thinking\":true},\"reasoning_effort\":\"none\"}",
         false},
        {MESSAGES
         ",\"reasoning_effort\":\"high\",\"chat_template_kwargs\":{\"enable_thinking\":false}}",
         true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(read_body(cases[i].text, true), &error);
        assert_int_equal(body.requests[0]->no_thinking, cases[i].no_thinking);
    }
    assert_ok(read_body("{\"prompt\":\"a\",\"temperature\":1e-8}", false), &error);
    assert_true(body.requests[0]->temperature == 0);
    launch_completion_body_fini(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_defaults_are_taken),
        cmocka_unit_test(what_cannot_be_done_is_named),
        cmocka_unit_test(an_assistant_may_have_said_nothing),
        cmocka_unit_test(a_chat_may_have_tools),
        cmocka_unit_test(prompts_have_the_same_options),
        cmocka_unit_test(what_would_be_too_large_is_refused),
        cmocka_unit_test(an_effort_is_the_switch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
