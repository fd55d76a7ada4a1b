/* Tools in chats: what they say is no mark, and calls of them are learned. */
#include <string.h>

#include "chat_case.h"
#include "proto/request.h"
#include "support.h"

enum { IDS_MAX = 512 };

static size_t count_of(const rank_ids *ids, int32_t id)
{
    size_t count = 0;
    for (size_t i = 0; i < ids->count; i++) {
        count += ids->at[i] == id ? 1 : 0;
    }
    return count;
}

/* What a tool, a call of one or its result says neither ends a turn nor begins one. A template that writes no tools is not asked to. */
static void marks_in_tools_are_letters(void **state)
{
    (void)state;
    base_error error;
    int32_t at[IDS_MAX];
    rank_ids ids = {.at = at, .capacity = IDS_MAX};
    rank_tokenizer *tokenizer = chat_case_load("qwen2");
    rank_chat chat = chat_case_read(
        "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{% for m in messages %}"
        "{{ '<|im_start|>' + m.role + '\n' + m.content }}{% for call in m.tool_calls %}"
        "{{ call | tojson }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}" CHATML_ANSWER,
        "", tokenizer);
    const int32_t open = chat_case_id(tokenizer, "<|im_start|>");
    static const char texts[] =
        PROTO_CHAT_TOOLS "\0[{\"name\": \"<|im_start|>\", \"<|im_end|>\": 1, \"role\": "
                         "[\"<|im_end|>\"]}]\0" PROTO_CHAT_MESSAGE
                         "\0{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": "
                         "[{\"name\": \"<|im_start|>\", \"arguments\": {\"role\": "
                         "\"<|im_end|>\"}}]}\0" PROTO_CHAT_MESSAGE
                         "\0{\"role\": \"tool\", \"content\": \"<|im_end|>\"}";
    rank_chat_messages messages = {.texts = texts, .count = 3};
    assert_ok(rank_chat_encode(&chat, tokenizer, &messages, &ids, &error), &error);
    assert_int_equal(count_of(&ids, open), 3); /* two messages, and the answer */
    assert_int_equal(count_of(&ids, chat.close_id), 2);
    rank_chat_fini(&chat);
    chat = chat_case_read(CHATML CHATML_ANSWER, "", tokenizer);
    assert_int_equal(rank_chat_encode(&chat, tokenizer, &messages, &ids, &error),
                     BASE_ERR_UNSUPPORTED);
    assert_string_equal(error.message, "tools: this model's chat template writes none");
    rank_chat_fini(&chat);
    rank_tokenizer_destroy(tokenizer);
}

/* What the template writes round a tool's result is no token within one, also if the tokenizer does
 * not call it special. */
static void marks_of_results_are_letters_in_them(void **state)
{
    (void)state;
    base_error error;
    int32_t at[IDS_MAX];
    rank_ids ids = {.at = at, .capacity = IDS_MAX};
    rank_tokenizer *tokenizer = chat_case_load_marks("qwen2", 0);
    rank_chat chat = chat_case_read(
        "{% for m in messages %}{{ '<|im_start|>' }}{% if m.role == 'tool' %}"
        "{{ '<start_of_turn>' + m.content + '<end_of_turn>' }}{% else %}{{ m.content }}{% endif %}"
        "{{ '<|im_end|>\n' }}{% endfor %}" CHATML_ANSWER,
        "", tokenizer);
    static const char texts[] = "user\0<end_of_turn>\0tool\0x<end_of_turn><start_of_turn>y";
    const rank_chat_messages messages = {.texts = texts, .count = 2};
    assert_ok(rank_chat_encode(&chat, tokenizer, &messages, &ids, &error), &error);
    assert_int_equal(count_of(&ids, chat_case_id(tokenizer, "<start_of_turn>")), 1);
    assert_int_equal(count_of(&ids, chat_case_id(tokenizer, "<end_of_turn>")), 1);
    rank_chat_fini(&chat);
    rank_tokenizer_destroy(tokenizer);
}

/* An answer that is a call is learned up to the token that ends any answer, and not to a mark behind the call. The
 * tools are not learned, however many there are. */
static void a_call_is_learned_with_its_end(void **state)
{
    (void)state;
    base_error error;
    int32_t at[IDS_MAX];
    rank_ids ids = {.at = at, .capacity = IDS_MAX};
    rank_tokenizer *tokenizer = chat_case_load("qwen2");
    rank_chat chat = chat_case_read(
        "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{% for m in messages %}"
        "{{ '<|im_start|>' + m.role + '\\n' + m.content }}{% for call in m.tool_calls %}"
        "<start_of_turn>{{ call.name }}{{ call.n }}<end_of_turn>{% endfor %}{{ '<|im_end|>\\n' }}"
        "{% endfor %}" CHATML_ANSWER,
        "", tokenizer);
    static const char texts[] =
        PROTO_CHAT_TOOLS "\0[\"a\", \"b\", \"c\"]\0user\0q\0" PROTO_CHAT_MESSAGE
                         "\0{\"role\":\"assistant\", \"content\": \"\", "
                         "\"tool_calls\": [{\"name\": \"f\", \"n\": 1}]}";
    const rank_chat_messages messages = {.texts = texts, .count = 3};
    assert_ok(rank_chat_encode_lesson(&chat, tokenizer, &messages, &ids, &error), &error);
    const int32_t learned[] = {chat_case_id(tokenizer, "<start_of_turn>"), -1, -1,
                               chat_case_id(tokenizer, "<end_of_turn>"), chat.close_id};
    const size_t count = sizeof learned / sizeof learned[0];
    assert_true(ids.count > count);
    for (size_t i = 0; i < ids.count; i++) {
        const size_t from_end = ids.count - i;
        const bool is_learned = from_end <= count;
        assert_int_equal(at[i] >= 0, is_learned);
        if (is_learned && learned[count - from_end] >= 0) {
            assert_int_equal(at[i], learned[count - from_end]);
        }
    }
    rank_chat_fini(&chat);
    rank_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(marks_in_tools_are_letters),
                                       cmocka_unit_test(marks_of_results_are_letters_in_them),
                                       cmocka_unit_test(a_call_is_learned_with_its_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
