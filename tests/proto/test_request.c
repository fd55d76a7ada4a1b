/* proto/request.h: what a request may be, as a struct and as a message. */
#include "proto/request.h"

#include <control.pb-c.h>
#include <math.h>
#include <string.h>

#include "support.h"

static proto_request request; /* big */
static proto_request again;
static char *texts[PROTO_CHAT_TEXTS_MAX];

static void make(const char *text)
{
    memset(&request, 0, sizeof request);
    request.id = 7;
    request.seed = 35200;
    request.prompt_index = 6;
    request.temperature = 0.9;
    request.top_p = 0.8;
    request.top_k = 40;
    request.min_p = 0.05;
    request.presence_penalty = -2;
    request.frequency_penalty = 0.5;
    request.repetition_penalty = 1.1;
    request.bias_count = PROTO_LOGIT_BIASES_MAX;
    for (int32_t i = 0; i < PROTO_LOGIT_BIASES_MAX; i++) {
        request.bias_tokens[i] = PROTO_VOCAB_MAX - 1 - i;
        request.biases[i] = 100 - (float)i / 7;
    }
    request.max_new_tokens = 12;
    request.ignore_eos = true;
    request.logprob_count = PROTO_LOGPROBS_MAX;
    request.stop_count = 2;
    request.stops[0] = 3;
    request.stops[1] = 511;
    request.text_bytes = (uint32_t)strlen(text);
    memcpy(request.prompt.text, text, strlen(text) + 1);
}

static void make_tokens(uint32_t count)
{
    make("");
    request.token_count = count;
    for (uint32_t i = 0; i < count; i++) {
        request.prompt.tokens[i] = PROTO_VOCAB_MAX - 1 - (int32_t)i;
    }
}

/* The largest, behind the prompt. */
static void give_grammar(void)
{
    static proto_grammar_step steps[PROTO_GRAMMAR_STEPS_MAX];
    for (int i = 0; i < PROTO_GRAMMAR_STEPS_MAX; i++) {
        steps[i] = (proto_grammar_step){.kind = PROTO_GRAMMAR_RETURN};
    }
    proto_request_set_grammar(&request, steps, PROTO_GRAMMAR_STEPS_MAX);
}

/* Packs and unpacks it, in the size that a rank takes. */
static void pack_and_unpack(void)
{
    static uint8_t packed[PROTO_LAUNCHER_MESSAGE_BYTES_MAX];
    base_error error;
    Ringfence__Control__Request message;
    proto_request_to_message(&request, &message, texts);
    const size_t size_bytes = ringfence__control__request__get_packed_size(&message);
    assert_true(size_bytes <= sizeof packed - 64); /* and the envelope */
    assert_int_equal(ringfence__control__request__pack(&message, packed), size_bytes);
    Ringfence__Control__Request *got =
        ringfence__control__request__unpack(NULL, size_bytes, packed);
    assert_non_null(got);
    assert_ok(proto_request_from_message(got, &again, &error), &error);
    ringfence__control__request__free_unpacked(got, NULL);
    assert_int_equal(proto_request_bytes(&again), proto_request_bytes(&request));
    assert_memory_equal(&again, &request, proto_request_bytes(&request));
}

static void check_round_trip(void)
{
    pack_and_unpack();
    give_grammar();
    pack_and_unpack();
    request.grammar_count = 0;
}

static void a_request_survives_its_message(void **state)
{
    (void)state;
    static char longest[PROTO_PROMPT_BYTES_MAX + 1];
    make("he goed → school\n\x1b[1m");
    check_round_trip();
    make("");
    check_round_trip();
    memset(longest, 'a', PROTO_PROMPT_BYTES_MAX);
    make(longest);
    check_round_trip();
    make_tokens(1);
    check_round_trip();
    make_tokens(PROTO_PROMPT_TOKENS_MAX);
    check_round_trip();
}

static base_status add(const char *role, const char *content, base_error *error)
{
    return proto_request_add_message(&request, role, content, strlen(content), error);
}

static void a_chat_survives_its_message(void **state)
{
    (void)state;
    base_error error;
    make("");
    assert_ok(add("system", "", &error), &error);
    assert_ok(add("user", "he goed → school\n", &error), &error);
    assert_ok(add("assistant", "<|im_end|>", &error), &error);
    request.no_thinking = true;
    assert_int_equal(request.message_count, 3);
    assert_memory_equal(request.prompt.text,
                        "system\0\0user\0he goed → school\n\0assistant\0<|im_end|>",
                        request.text_bytes + 1);
    check_round_trip();
    make("");
    assert_ok(proto_request_add_json(&request, PROTO_CHAT_TOOLS, "[]", &error), &error);
    assert_ok(add("user", "a", &error), &error);
    assert_ok(proto_request_add_json(&request, PROTO_CHAT_MESSAGE, "{}", &error), &error);
    assert_memory_equal(request.prompt.text, "tools\0[]\0user\0a\0message\0{}",
                        request.text_bytes + 1);
    check_round_trip();
    make("");
    for (int i = 0; i < PROTO_CHAT_MESSAGES_MAX; i++) {
        assert_ok(add("user", "", &error), &error);
    }
    check_round_trip();
    assert_int_equal(add("user", "", &error), BASE_ERR_LIMIT);
}

static void a_chat_of_the_longest_text_is_taken_and_none_longer(void **state)
{
    (void)state;
    base_error error;
    static char content[PROTO_PROMPT_BYTES_MAX];
    memset(content, 'a', sizeof content);
    const size_t most = PROTO_PROMPT_BYTES_MAX - strlen("user") - 1;
    make("");
    assert_int_equal(proto_request_add_message(&request, "user", content, most + 1, &error),
                     BASE_ERR_LIMIT);
    assert_int_equal(request.message_count, 0);
    assert_ok(proto_request_add_message(&request, "user", content, most, &error), &error);
    check_round_trip();
    assert_int_equal(add("user", "", &error), BASE_ERR_LIMIT);
}

static void assert_refused(const char *why)
{
    base_error error = {.message = ""};
    assert_int_not_equal(proto_request_check(&request, &error), BASE_OK);
    if (strstr(error.message, why) == NULL) {
        fail_msg("'%s' is not in: %s", why, error.message);
    }
}

static void penalties_and_biases_out_of_range_are_refused_by_name(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const double beyond[] = {2.1, (double)NAN};
        make("a");
        request.presence_penalty = beyond[i];
        assert_refused("presence_penalty");
        make("a");
        request.frequency_penalty = -beyond[i];
        assert_refused("frequency_penalty");
        make("a");
        request.repetition_penalty = i == 0 ? 0 : 10.5;
        assert_refused("repetition_penalty");
        make("a");
        request.min_p = beyond[i];
        assert_refused("min_p");
        make("a");
        request.biases[299] = i == 0 ? -100.5F : (float)NAN;
        assert_refused("logit_bias");
        make("a");
        request.bias_count = i == 0 ? -1 : PROTO_LOGIT_BIASES_MAX + 1;
        assert_refused("logit_bias");
    }
}

static void what_is_out_of_range_is_refused_by_name(void **state)
{
    (void)state;
    base_error error;
    const double temperatures[] = {-1, 1e-4, 1e4, (double)NAN, (double)INFINITY};
    const double shares[] = {0, -0.5, 1.5, (double)NAN};
    for (size_t i = 0; i < sizeof temperatures / sizeof temperatures[0]; i++) {
        make("a");
        request.temperature = temperatures[i];
        assert_refused("temperature");
    }
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        make("a");
        request.top_p = shares[i];
        assert_refused("top_p");
    }
    make("a");
    request.id = 0;
    assert_refused("id");
    make("a");
    request.max_new_tokens = 0;
    assert_refused("max_new_tokens");
    make("a");
    request.top_k = PROTO_TOP_K_MAX + 1;
    assert_refused("top_k");
    make("a");
    request.stop_count = PROTO_STOP_TOKENS_MAX + 1;
    assert_refused("stop tokens");
    make("a");
    request.logprob_count = PROTO_LOGPROBS_MAX + 1;
    assert_refused("log-probabilities");
    make("a");
    request.logprob_count = -1;
    assert_refused("log-probabilities");
    make("\xff");
    assert_refused("UTF-8");
    make("ab");
    request.prompt.text[0] = '\0';
    assert_refused("NUL");
    make("");
    assert_int_equal(add("tool", "a", &error), BASE_ERR_INVALID);
    assert_int_equal(proto_request_add_message(&request, "user", "a\0b", 3, &error),
                     BASE_ERR_INVALID);
    assert_ok(add("user", "\xff", &error), &error);
    assert_refused("UTF-8");
    make("tool");
    request.message_count = 1;
    assert_refused("no such role");
    make("");
    assert_ok(add("user", "a", &error), &error);
    request.message_count = 2;
    assert_refused("NUL");
    request.message_count = PROTO_CHAT_MESSAGES_MAX + 1;
    assert_refused("messages");
    make_tokens(2);
    request.prompt.tokens[1] = PROTO_VOCAB_MAX;
    assert_refused("token 1 of the prompt");
    make_tokens(2);
    request.text_bytes = 1;
    assert_refused("as text and as tokens");
    make("a");
    request.text_bytes = PROTO_PROMPT_BYTES_MAX + 1;
    assert_refused("more than");
    make("a");
    assert_ok(proto_request_check(&request, &error), &error);
}

/* A message may have anything in it. */
static void a_message_is_not_believed(void **state)
{
    (void)state;
    static int32_t ids[PROTO_PROMPT_TOKENS_MAX + 1];
    char role[] = "user";
    char content[] = "a";
    Ringfence__Control__Request message;
    make("a");
    proto_request_to_message(&request, &message, texts);
    message.max_new_tokens = UINT32_MAX;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    proto_request_to_message(&request, &message, texts);
    message.top_k = UINT32_MAX;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    proto_request_to_message(&request, &message, texts);
    message.n_logit_biases--;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    proto_request_to_message(&request, &message, texts);
    message.n_logit_biases++;
    message.n_logit_bias_ids++;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    proto_request_to_message(&request, &message, texts);
    give_grammar();
    proto_request_to_message(&request, &message, texts);
    message.grammar.len--;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    message.grammar.len += 9;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    proto_request_set_grammar(&request,
                              &(proto_grammar_step){.kind = PROTO_GRAMMAR_RETURN, .next = 1}, 1);
    proto_request_to_message(&request, &message, texts);
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    make("a");
    proto_request_to_message(&request, &message, texts);
    message.n_stop_token_ids = PROTO_STOP_TOKENS_MAX + 1;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    proto_request_to_message(&request, &message, texts);
    message.n_prompt_token_ids = 1; /* and the text */
    message.prompt_token_ids = ids;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    message.n_chat = 2; /* and the tokens */
    message.chat = texts;
    texts[0] = role;
    texts[1] = content;
    message.prompt = content + 1;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    message.n_prompt_token_ids = 0;
    assert_int_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    message.n_chat = 1;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
    make_tokens(1);
    proto_request_to_message(&request, &message, texts);
    message.n_prompt_token_ids = PROTO_PROMPT_TOKENS_MAX + 1;
    message.prompt_token_ids = ids;
    assert_int_not_equal(proto_request_from_message(&message, &again, NULL), BASE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_survives_its_message),
        cmocka_unit_test(a_chat_survives_its_message),
        cmocka_unit_test(a_chat_of_the_longest_text_is_taken_and_none_longer),
        cmocka_unit_test(penalties_and_biases_out_of_range_are_refused_by_name),
        cmocka_unit_test(what_is_out_of_range_is_refused_by_name),
        cmocka_unit_test(a_message_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
