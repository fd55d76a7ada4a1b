/* Which chat templates are known: those of each form, and none that looks alike. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat_case.h"
#include "support.h"

static void expect_refused(const char *text, const char *begin, const char *why)
{
    base_error error = {.message = ""};
    rank_tokenizer *tokenizer = chat_case_load("gpt2");
    rank_ids ids = {.capacity = 0};
    const rank_chat chat = chat_case_read(text, begin, tokenizer);
    assert_int_equal(rank_chat_encode(&chat, tokenizer,
                                      &(rank_chat_messages){.texts = "user\0a", .count = 1}, &ids,
                                      &error),
                     BASE_ERR_UNSUPPORTED);
    if (strstr(error.message, why) == NULL) {
        fail_msg("'%s' is not in: %s", why, error.message);
    }
    rank_tokenizer_destroy(tokenizer);
}

static void what_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    static char long_date[4 * RANK_CHAT_SYSTEM_BYTES];
    static const char known[] = "{{ 'Cutting Knowledge Date: December 2023\\n' }}";
    expect_refused(NULL, "", "no chat template");
    expect_refused("", "", "not of a form");
    expect_refused("[INST] {{ messages[0].content }} [/INST]", "", "not of a form");
    expect_refused(CHATML "{{ '<|im_start|>assistant\\n<think>\\n' }}", "", "not of a form");
    expect_refused(SYSTEM_HEADER "{% set date_string = \"x\" %}"
                                 "{{ 'Cutting Knowledge Date: May 2031' }}" LLAMA3,
                   "", "not of a form");
    expect_refused(SYSTEM_HEADER "{{ 'Cutting Knowledge Date: December 2023' }}" LLAMA3, "",
                   "not of a form");
    expect_refused("{{ bos_token }}" CHATML CHATML_ANSWER, "<s>", "<s>, which is no token");
    (void)snprintf(long_date, sizeof long_date, "%s%s{%% set date_string = \"%0*d\" %%}%s",
                   SYSTEM_HEADER, known, RANK_CHAT_SYSTEM_BYTES - 20, 7, LLAMA3);
    expect_refused(long_date, "", "not of a form");
}

/* Templates that have the marks, and write something else with them. */
static void those_that_look_alike_are_refused(void **state)
{
    (void)state;
    static const char *const other[] = {
        /* another mark behind the role, and no line end behind the message */
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + "
        "'<|im_end|>' }}"
        "{% endfor %}{{ '<|im_start|>assistant<|im_sep|>' }}",
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' }}"
        "{% endfor %}" CHATML_ANSWER,
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + "
        "'\\n\\n' }}"
        "{% endfor %}" CHATML_ANSWER,
        /* other names of roles */
        "{% for m in messages %}{{ '<|start_header_id|>The ' + m.role.title() + "
        "'<|end_header_id|>\\n\\n'"
        " + m.content | trim + '<|eot_id|>' }}{% endfor %}"
        "{{ '<|start_header_id|>The Assistant<|end_header_id|>\\n\\n' }}",
        "{% for m in messages %}{{ '<|im_start|>' + ('human' if m.role == 'user' else 'bot') + "
        "'\\n' + "
        "m.content + '<|im_end|>\\n' }}{% endfor %}{{ '<|im_start|>bot\\n' }}",
        "{% for m in messages %}{{ '<|im_start|>' + m.role | upper + '\\n' + m.content + "
        "'<|im_end|>\\n' }}"
        "{% endfor %}" CHATML_ANSWER,
        /* a system message that is no message, or not the user's own */
        "{% for m in messages %}{% if m.role == 'user' %}{{ '<|im_start|>user\\n' + m.content + "
        "'<|im_end|>\\n' }}"
        "{% elif m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' + m.content + "
        "'<|im_end|>\\n' }}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}" CHATML_ANSWER,
        "{% set s = 'You help.' %}{{ '<|im_start|>system\\n' + s + '<|im_end|>\\n' }}" CHATML
            CHATML_ANSWER,
        "{% set s = 'You help.' %}" CHATML CHATML_ANSWER,
        "{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}" CHATML CHATML_ANSWER,
        SYSTEM_HEADER "{{ s }}" LLAMA3,
        /* words beside the messages */
        "{{ 'A chat.\\n' }}" CHATML CHATML_ANSWER,
        "A chat." CHATML CHATML_ANSWER,
        CHATML "{{ eos_token }}" CHATML_ANSWER,
        CHATML "{{ '\\n' }}" CHATML_ANSWER,
        "{{ messages[0]['content'] }}" CHATML CHATML_ANSWER,
        CHATML "{{ '<|im_start|>assistant\\nSure! ' }}",
        CHATML "\n\n" CHATML_ANSWER,
        "{{ bos_token }}\n" CHATML CHATML_ANSWER,
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content | upper + "
        "'<|im_end|>\\n' }}"
        "{% endfor %}" CHATML_ANSWER,
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + 'Q: ' + m.content + "
        "'<|im_end|>\\n' }}"
        "{% endfor %}" CHATML_ANSWER,
        /* a variable that is not, or not always, the content */
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>\\n' }}"
        "{% endfor %}" CHATML_ANSWER,
        "{% for message in messages %}{% set content = message.content %}"
        "{% if message.role == 'user' %}{% set content = message.content | upper %}{% endif %}"
        "{{ '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}"
        "{% endfor %}" CHATML_ANSWER,
        "{% for message in messages %}{% set content = message.content %}"
        "{{ '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}{{ content }}"
        "{% endfor %}" CHATML_ANSWER,
        /* no answer is begun */
        CHATML,
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        expect_refused(other[i], "", "not of a form");
    }
}

/* What begins an answer is not run: a condition beside it is known, or is named. */
static void a_condition_beside_the_answer_is_known_or_named(void **state)
{
    (void)state;
    static const char *const known[] = {
        "add_generation_prompt",
        "loop.last and add_generation_prompt",
        "(loop.last and add_generation_prompt) or not loop.last",
        "add_generation_prompt and messages[-1][\"role\"] != 'assistant'",
        "add_generation_prompt  and messages[-1].role!='assistant'",
        "messages[-1]['role'] != 'assistant' and add_generation_prompt",
        "(add_generation_prompt)",
        "add_generation_prompt == true",
        "add_generation_prompt is defined and add_generation_prompt",
        "add_generation_prompt and loop.last",
    };
    static const char *const other[] = {
        "add_generation_prompt and messages[-1].role=='user'",
        "tools and add_generation_prompt",
        "not add_generation_prompt",
        "loop.first and add_generation_prompt",
    };
    char text[1024];
    rank_tokenizer *tokenizer = chat_case_load("qwen2");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        (void)snprintf(text, sizeof text, "%s{%%- if %s -%%}%s{%% endif %%}", CHATML, known[i],
                       CHATML_ANSWER);
        const rank_chat chat = chat_case_read(text, "", tokenizer);
        assert_string_equal(chat.why.message, "");
    }
    static const char *const defaults[] = {"false", "true", "False", "True"};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        (void)snprintf(text, sizeof text,
                       "{%% if not add_generation_prompt is defined %%}"
                       "{%% set add_generation_prompt = %s %%}{%% endif %%}%s"
                       "{%% if add_generation_prompt %%}%s{%% endif %%}",
                       defaults[i], CHATML, CHATML_ANSWER);
        assert_string_equal(chat_case_read(text, "", tokenizer).why.message, "");
    }
    rank_tokenizer_destroy(tokenizer);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char why[256];
        (void)snprintf(text, sizeof text, "%s{%% if %s %%}%s{%% endif %%}", CHATML, other[i],
                       CHATML_ANSWER);
        (void)snprintf(why, sizeof why, "not known here, if %s:", other[i]);
        expect_refused(text, "", why);
    }
    expect_refused("{% set add_generation_prompt = false %}" CHATML CHATML_ANSWER, "",
                   "not known here, set add_generation_prompt=false:");
}

/* The template of that name in chats.json. */
static char *template_named(const char *name)
{
    json_t *fixtures = json_load_file(ORACLE_DIRECTORY "/chats.json", 0, NULL);
    size_t index = 0;
    const json_t *made = NULL;
    char *found = NULL;
    json_array_foreach(fixtures, index, made)
    {
        if (found == NULL && strcmp(json_string_value(json_object_get(made, "name")), name) == 0) {
            found = strdup(json_string_value(json_object_get(made, "template")));
        }
    }
    json_decref(fixtures);
    assert_non_null(found);
    return found;
}

/* The first `from` in the text becomes `to`. */
static void exchange(const char *text, const char *from, const char *to, char *made, size_t bytes)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    assert_true(snprintf(made, bytes, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) <
                (int)bytes);
}

/* Each statement that decides what becomes of thoughts counts, and its place. */
static void those_that_think_otherwise_are_refused(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        {"{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}",
         "{%- set ns = namespace(multi_step_tool=true, last_query_index=0) %}"},
        {"[::-1]", ""},
        {"{%- set index = (messages|length - 1) - loop.index0 %}", ""},
        {"message.role == 'user' and", "message.role == 'assistant' and"},
        {"startswith('<tool_response>') and", "startswith('<tool_response>') or"},
        {"{%- set ns.multi_step_tool = false %}", ""},
        {"last_query_index = index", "last_query_index = 0"},
        {"{%- set content = message.content %}", "{%- set content = message.content | trim %}"},
        {"{%- set content = message.content %}", "{%- set content = message.content + '!' %}"},
        {"{%- set reasoning_content = '' %}", "{%- set reasoning_content = 'Well.' %}"},
        {"{%- if '</think>' in content %}", "{%- if '<think>' in content %}"},
        {"{%- if '</think>' in content %}",
         "{%- if '</think>' in content %}"
         "{%- set content = content.split('</think>')[-1].lstrip('\\n') %}"},
        {"split('<think>')[-1]", "split('<think>')[0]"},
        {"[-1].lstrip('\\n') %}\n{%- endif", "[-1] %}\n{%- endif"},
        {"loop.index0 > ns", "loop.index0 >= ns"},
        {"{%- if loop.last or (not loop.last and reasoning_content) %}", "{%- if loop.last %}"},
        {"+ '\\n<think>\\n' +", "+ '\\n<think>' +"},
        {"+ content.lstrip('\\n') }}", "+ content }}"},
        {"'<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content",
         "\"<|im_start|>' + message.role + '\\n<think>\\n\" + reasoning_content"},
        {"enable_thinking is false %}", "not enable_thinking %}"},
        {"{%- if enable_thinking is defined and enable_thinking is false %}", ""},
        {"'<think>\\n\\n</think>\\n\\n' }}", "'<think>\\n\\n</think>\\n\\n' }}{{- '\\n' }}"},
        {"    {{- '<|im_start|>assistant\\n' }}\n    {%- if enable_thinking is defined and "
         "enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- endif "
         "%}",
         "    {%- if enable_thinking is defined and enable_thinking is false %}\n        "
         "{{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- endif %}\n    {{- "
         "'<|im_start|>assistant\\n' }}"},
        {"'<|im_start|>assistant\\n' }}", "'<|im_start|>assistant\\n<think>\\n' }}"},
        {"{%- endfor %}\n{%- if add", "{%- endfor %}{{- content }}{%- if add"},
    };
    static char made[8192];
    char *thinking = template_named("thinking");
    rank_tokenizer *tokenizer = chat_case_load("qwen2");
    const rank_chat chat = chat_case_read(thinking, "", tokenizer);
    assert_string_equal(chat.why.message, "");
    assert_true(chat.habits.thinks && chat.habits.has_switch);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        exchange(thinking, changes[i][0], changes[i][1], made, sizeof made);
        expect_refused(made, "", "not of a form");
    }
    rank_tokenizer_destroy(tokenizer);
    free(thinking);
}

/* What is said of tools is left out, and spaces that Jinja drops are no text. */
static void other_ways_to_write_a_form_are_known(void **state)
{
    (void)state;
    static const char *const same[] = {
        "{{ bos_token }}" CHATML "{% if add_generation_prompt %}" CHATML_ANSWER
        "{%- else %}{{ eos_token }}{% endif %}",
        CHATML "\n    {%- if add_generation_prompt -%}\n  " CHATML_ANSWER "{% endif %}\n",
        "{% if tools %}\n    {{- '<|im_start|>system\\n' }}\n    {{- 'Tools: {}}}' }}{{- "
        "'<|im_end|>\\n' }}\n"
        "{%- endif %}{# it's a comment #}\n" CHATML
        "{%- if m.role == 'tool' %}\n    {{- '<|im_start|>user' }}{{- '\\n' + m.content }}\n"
        "    {{- '<|im_start|>' + m.role }}{%- endif %}" CHATML_ANSWER,
        "{% for m in messages %}{{'<|im_start|>' + m[\"role\"] + '\\n' + m['content']}}{{ "
        "'<|im_end|>' + '\\n'}}"
        "{% endfor %}" CHATML_ANSWER,
        "{% for m in messages %}{% if m.role == 'user' %}{{ '<|im_start|>user\\n' + m.content + "
        "'<|im_end|>\\n' }}"
        "{% elif m.role == 'assistant' %}{{ '<|im_start|>assistant\\n' + m.content + "
        "'<|im_end|>\\n' }}"
        "{% else %}{{ '<|im_start|>system\\n' + m.content + '<|im_end|>\\n' }}{% endif %}{% endfor "
        "%}" CHATML_ANSWER,
        "{% for message in messages %}{% if message.content is string %}"
        "{% set content = message.content %}{% else %}{% set content = '' %}{% endif %}"
        "{{ '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}"
        "{% endfor %}" CHATML_ANSWER,
    };
    rank_tokenizer *tokenizer = chat_case_load("qwen2");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const rank_chat chat = chat_case_read(same[i], "", tokenizer);
        assert_string_equal(chat.why.message, "");
        assert_false(chat.habits.adds_system);
    }
    rank_tokenizer_destroy(tokenizer);
}

/* Templates are other people's: where a system message is not whole, the template is not known. */
static void a_system_message_is_whole_or_refused(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{{ '<|im_start|>system\\n' + system + '<|im_end|>\\n' }}",
        "{{ '<|im_start|>system\\nYou' }}",
        "{{ '<|im_start|>system\\nYou\\",
        "{{ '<|im_start|>system\\nYou\\x20<|im_end|>\\n' }}",
        "{{ '<|im_start|>system\\nYou' + '<|im_end|>\\n' }}",
        "<|im_start|>system\\nYou<|im_end|>",
        "{{ '<|im_start|>system",
        "{{ '<|im_start|>systemic\\nYou<|im_end|>\\n' }}",
    };
    char text[1024];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        (void)snprintf(text, sizeof text, "%s%s", parts[i], CHATML CHATML_ANSWER);
        expect_refused(text, "", "not of a form");
    }
    rank_tokenizer *tokenizer = chat_case_load("smollm2");
    const rank_chat chat =
        chat_case_read("{% if messages[0].role != 'system' %}{{ "
                       "'<|im_start|>system\\nYou<|im_end|>\\n' }}{% endif %}" CHATML CHATML_ANSWER,
                       "", tokenizer);
    assert_string_equal(chat.why.message, "");
    assert_true(chat.habits.adds_system);
    assert_string_equal(chat.habits.system, "You");
    rank_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(those_that_look_alike_are_refused),
        cmocka_unit_test(a_condition_beside_the_answer_is_known_or_named),
        cmocka_unit_test(those_that_think_otherwise_are_refused),
        cmocka_unit_test(other_ways_to_write_a_form_are_known),
        cmocka_unit_test(a_system_message_is_whole_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
