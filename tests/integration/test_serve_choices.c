/* --serve: requests for several texts, of one prompt and of several, and requests whose logits are changed. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "serving.h"

enum { PROMPT_COUNT = 3, EACH = 2, CHOICES = PROMPT_COUNT * EACH, TEXT_BYTES = 1024 };

/* What a request got, whole or as a stream. */
typedef struct texts {
    char of[CHOICES][TEXT_BYTES];
    char ends[CHOICES][16];
    int count; /* of choices that have ended */
    int events;
    json_int_t prompt_tokens;
    json_int_t completion_tokens;
    json_int_t cached_tokens;
} texts;

static void take_object(json_t *object, texts *all)
{
    size_t index = 0;
    const json_t *choice = NULL;
    const json_t *usage = json_object_get(object, "usage");
    json_array_foreach(json_object_get(object, "choices"), index, choice)
    {
        const json_int_t at = json_integer_value(json_object_get(choice, "index"));
        const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
        assert_true(at >= 0 && at < CHOICES);
        const char *piece = json_string_value(json_object_get(choice, "text"));
        const size_t used = strlen(all->of[at]);
        assert_true(used + strlen(piece) < sizeof all->of[at]);
        memcpy(all->of[at] + used, piece, strlen(piece) + 1);
        if (reason != NULL) {
            assert_string_equal(all->ends[at], "");
            (void)snprintf(all->ends[at], sizeof all->ends[at], "%s", reason);
            all->count++;
        }
        all->events++;
    }
    if (usage != NULL) {
        assert_int_equal(all->prompt_tokens, 0);
        all->prompt_tokens = json_integer_value(json_object_get(usage, "prompt_tokens"));
        all->completion_tokens = json_integer_value(json_object_get(usage, "completion_tokens"));
        all->cached_tokens = json_integer_value(
            json_object_get(json_object_get(usage, "prompt_tokens_details"), "cached_tokens"));
        assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")),
                         all->prompt_tokens + all->completion_tokens);
    }
    json_decref(object);
}

/* Asks again as long as the server is full: of what was refused or cancelled rank 0 has yet to let go. */
static int ask_until_there_is_room(const char *arguments)
{
    const time_t deadline = time(NULL) + SERVING_WAIT_S;
    int status = 429;
    while (status == 429 && time(NULL) < deadline) {
        status = serving_ask("/v1/completions", arguments);
    }
    return status;
}

/* fields: behind a prompt, as ",\"n\":2". */
static void ask(const char *prompt, const char *fields, bool stream, texts *all)
{
    char arguments[SERVING_COMMAND_BYTES];
    char *rest = NULL;
    memset(all, 0, sizeof *all);
    (void)snprintf(arguments, sizeof arguments, "-d '{\"prompt\":%s%s%s}'", prompt, fields,
                   stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
    assert_int_equal(ask_until_there_is_room(arguments), 200);
    if (!stream) {
        take_object(json_loads(serving_reply, 0, NULL), all);
        return;
    }
    const char *last = NULL;
    for (char *line = strtok_r(serving_reply, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        last = line + strlen("data: ");
        if (strcmp(last, "[DONE]") != 0) {
            take_object(json_loads(last, 0, NULL), all);
        }
    }
    assert_string_equal(last, "[DONE]");
}

#define OPTIONS ",\"max_tokens\":12,\"temperature\":0.9,\"ignore_eos\":true,\"seed\":11"

/* n texts of each of several prompts, in the order of prompts: text i is that of prompt i of a file which has
 * each prompt n times. */
static void choices_are_those_of_a_file(void **state)
{
    (void)state;
    static test_program alone;
    static texts whole;
    static texts streamed;
    static const char *const ranks[] = {"1", "2"};
    assert_int_equal(
        inference_run(&alone, "tp-cpu", "1", "file",
                      FLAGS("--prompt", "he goed to school", "--prompt", "he goed to school",
                            "--prompt", "i has eat", "--prompt", "i has eat", "--prompt", "she",
                            "--prompt", "she", "--temperature", "0.9", "--sampling-seed", "11",
                            "--ignore-eos", "--max-new-tokens", "12")),
        0);
    json_t *results = inference_results("file");
    const json_t *entries = json_object_get(results, "prompts");
    for (int i = 0; i < 2; i++) {
        json_int_t prompt_tokens = 0;
        serving_start(&inference_model, ranks[i], FLAGS("--max-num-seqs", i == 0 ? "4" : "16"));
        ask("[\"he goed to school\",\"i has eat\",\"she\"]", OPTIONS ",\"n\":2,\"best_of\":2",
            false, &whole);
        ask("[\"he goed to school\",\"i has eat\",\"she\"]", OPTIONS ",\"n\":2", true, &streamed);
        for (int k = 0; k < CHOICES; k++) {
            const json_t *entry = json_array_get(entries, (size_t)k);
            char escaped[4 * TEXT_BYTES];
            serving_escape(whole.of[k], escaped, sizeof escaped);
            assert_string_equal(escaped, json_string_value(json_object_get(entry, "text")));
            assert_string_equal(streamed.of[k], whole.of[k]);
            assert_string_equal(whole.ends[k], "length");
            assert_string_equal(streamed.ends[k], "length");
            prompt_tokens +=
                k % EACH == 0
                    ? (json_int_t)json_array_size(json_object_get(entry, "prompt_token_ids"))
                    : 0;
        }
        assert_string_not_equal(whole.of[0], whole.of[1]);
        assert_int_equal(whole.count, CHOICES);
        assert_int_equal(streamed.count, CHOICES);
        assert_true(streamed.events >= 2 * CHOICES); /* a piece and an end, at least */
        assert_int_equal(whole.prompt_tokens, prompt_tokens);
        assert_int_equal(streamed.prompt_tokens, prompt_tokens);
        assert_int_equal(whole.completion_tokens, CHOICES * 12);
        assert_int_equal(streamed.completion_tokens, CHOICES * 12);
        serving_wait_metric("{result=\"length\"} 12\n");
        assert_int_equal(serving_end(SIGTERM), 0);
    }
    json_decref(results);
}

/* The texts of one prompt compute it once, but for what is no whole block. */
static void a_prompt_is_computed_once(void **state)
{
    (void)state;
    static const char long_prompt[] = "\"she do not like apples and he do not like the pears\"";
    static texts all;
    static texts again;
    char cached[80];
    serving_start(&inference_model, "2", FLAGS("--max-num-seqs", "8"));
    ask(long_prompt, OPTIONS ",\"n\":6", false, &all);
    const json_int_t shared = (all.prompt_tokens - 1) / 16 * 16;
    assert_true(shared >= 16);
    (void)snprintf(cached, sizeof cached, "ringfence_cached_prompt_tokens_total %d\n",
                   (int)(5 * shared));
    serving_wait_metric(cached);
    assert_int_equal(serving_end(SIGTERM), 0);
    serving_start(&inference_model, "2", FLAGS("--no-prefix-cache"));
    ask(long_prompt, OPTIONS ",\"n\":6", true, &again);
    for (int i = 0; i < CHOICES; i++) {
        assert_string_equal(again.of[i], all.of[i]);
    }
    serving_wait_metric("ringfence_cached_prompt_tokens_total 0\n");
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* Also where a text that was asked for ends the answer, before rank 0 has said its last. */
static void a_stopped_answer_says_what_was_cached(void **state)
{
    (void)state;
    static const char long_prompt[] = "\"she do not like apples and he do not like the pears\"";
    static const char forced[] =
        ",\"max_tokens\":12,\"ignore_eos\":true,\"logit_bias\":{\"70\":100}";
    static texts all;
    char fields[256];
    serving_start(&inference_model, "2", FLAGS(NULL));
    ask(long_prompt, forced, false, &all);
    const json_int_t shared = (all.prompt_tokens - 1) / 16 * 16;
    assert_true(shared >= 16);
    assert_int_equal(all.cached_tokens, 0);
    json_t *stop = json_stringn(all.of[0], strlen(all.of[0]) / 6);
    char *text = json_dumps(stop, JSON_ENCODE_ANY);
    assert_true(json_string_length(stop) > 0);
    (void)snprintf(fields, sizeof fields, "%s,\"stop\":%s", forced, text);
    for (int i = 0; i < 4; i++) {
        ask(long_prompt, fields, i % 2 == 1, &all);
        assert_string_equal(all.ends[0], "stop");
        assert_int_equal(all.cached_tokens, shared);
    }
    free(text);
    json_decref(stop);
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* Each choice looks for its own stop; without a seed choices differ, too. */
static void choices_end_by_themselves(void **state)
{
    (void)state;
    static texts all;
    static texts stopped;
    serving_start(&inference_model, "2", FLAGS(NULL));
    ask("\"he goed\"", OPTIONS ",\"n\":6", false, &all);
    ask("\"he goed\"", OPTIONS ",\"n\":6,\"stop\":\"e\"", true, &stopped);
    int stops = 0;
    for (int i = 0; i < CHOICES; i++) {
        const size_t before = strcspn(all.of[i], "e");
        stops += all.of[i][before] == 'e' ? 1 : 0;
        assert_string_equal(stopped.ends[i], all.of[i][before] == 'e' ? "stop" : "length");
        all.of[i][before] = '\0';
        assert_string_equal(stopped.of[i], all.of[i]);
    }
    assert_true(stops > 0);
    ask("\"he goed\"", ",\"max_tokens\":24,\"temperature\":1,\"ignore_eos\":true,\"n\":2", false,
        &all);
    assert_string_not_equal(all.of[0], all.of[1]);
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* Each choice takes a place of open requests. A client that goes takes all its choices with it, those that wait,
 * too. */
static void a_client_that_goes_cancels_all(void **state)
{
    (void)state;
    serving_start(&serving_wide, "2", FLAGS("--max-num-seqs", "2"));
    const int fd = serving_send("{\"prompt\":\"he goed\",\"max_tokens\":16000,\"ignore_eos\":true,"
                                "\"temperature\":1,\"n\":64}");
    serving_wait_metric("requests_running 2\n");
    assert_has(serving_reply, "requests_waiting 62\n");
    assert_int_equal(serving_ask("/v1/completions", "-d '{\"prompt\":\"a\",\"n\":3}'"), 429);
    (void)close(fd);
    serving_wait_metric("{result=\"cancelled\"} 64\n");
    serving_wait_metric("requests_running 0\n");
    free(serving_complete("{\"prompt\":\"a\",\"max_tokens\":1}"));
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* An answer that waits for its reader takes no places of open requests. */
static void a_slow_reader_takes_no_places(void **state)
{
    (void)state;
    serving_start(&serving_wide, "2", FLAGS("--max-num-seqs", "4"));
    const int fd =
        serving_send_with("{\"prompt\":\"he goed\",\"max_tokens\":80,\"ignore_eos\":true,"
                          "\"logprobs\":5,\"n\":64}",
                          true);
    serving_wait_metric("{result=\"length\"} 64\n");
    assert_int_equal(
        serving_ask("/v1/completions", "-d '{\"prompt\":\"a\",\"max_tokens\":1,\"n\":64}'"), 200);
    char byte = 0;
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    assert_int_equal(recv(fd, &byte, 1, MSG_PEEK), 1);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
    assert_int_equal(info.tcpi_state, TCP_ESTABLISHED); /* the server has not sent it all */
    serving_read_all(fd);
    assert_has(serving_reply, "\"index\":63");
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* Clients ask again where the server fails, but not where their request is wrong. */
static void an_answer_that_is_too_large_is_the_clients_error(void **state)
{
    (void)state;
    serving_start(&serving_wide, "2", FLAGS("--max-num-seqs", "16", "--max-new-tokens", "1000"));
    assert_int_equal(
        serving_ask(
            "/v1/completions",
            "-d "
            "'{\"prompt\":\"a\",\"n\":16,\"ignore_eos\":true,\"logprobs\":5,\"max_tokens\":1000}'"),
        400);
    assert_has(serving_reply, "max_tokens: 1000 of 16 texts");
    serving_wait_metric("ringfence_requests_total{result=\"refused\"} 1\n");
    assert_has(serving_reply, "requests_total{result=\"cancelled\"} 0\n");
    assert_int_equal(
        serving_ask("/v1/completions",
                    "-d '{\"prompt\":\"a\",\"n\":16,\"ignore_eos\":true,\"logprobs\":5}'"),
        400);
    assert_has(serving_reply, "\"param\":\"max_tokens\"");
    assert_has(serving_reply,
               "65536 log-probabilities: lower n, max_tokens or logprobs, or set stream");
    assert_has(serving_reply, "invalid_request_error");
    serving_wait_metric("requests_running 0\n");
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* One prompt that does not fit is the whole request's end, and there is room for as many texts as before, once rank
 * 0 has let go of the others. */
static void one_prompt_that_is_refused_refuses_all(void **state)
{
    (void)state;
    static texts all;
    serving_start(&inference_model, "2", FLAGS("--max-num-seqs", "1"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            ask_until_there_is_room(
                "-d '{\"prompt\":[\"a\",\"b\",[100000],\"c\"],\"n\":16,\"stream\":true}'"),
            400);
        assert_has(serving_reply, "\"param\":\"prompt\"");
    }
    ask("\"a\"", ",\"max_tokens\":2,\"n\":6", false, &all);
    assert_int_equal(all.count, CHOICES);
    serving_wait_metric("requests_running 0\n");
    assert_int_equal(serving_end(SIGTERM), 0);
}

static char *tokens_of(const char *fields)
{
    char arguments[SERVING_COMMAND_BYTES];
    (void)snprintf(
        arguments, sizeof arguments,
        "-d '{\"prompt\":\"he goed\",\"max_tokens\":6,\"ignore_eos\":true,\"logprobs\":0%s}'",
        fields);
    assert_int_equal(serving_ask("/v1/completions", arguments), 200);
    json_t *object = json_loads(serving_reply, 0, NULL);
    char *text = json_dumps(
        json_object_get(
            json_object_get(json_array_get(json_object_get(object, "choices"), 0), "logprobs"),
            "tokens"),
        JSON_COMPACT);
    json_decref(object);
    assert_non_null(text);
    return text;
}

/* How many of the 6 tokens are as the first one of the other list. */
static int count_same(const char *tokens, const char *others)
{
    int count = 0;
    json_t *list = json_loads(tokens, 0, NULL);
    json_t *other = json_loads(others, 0, NULL);
    assert_int_equal(json_array_size(list), 6);
    for (size_t i = 0; i < 6; i++) {
        count += json_equal(json_array_get(list, i), json_array_get(other, 0)) != 0 ? 1 : 0;
    }
    json_decref(list);
    json_decref(other);
    return count;
}

/* A bias of 100 decides what is drawn, one of -100 that it is not; and a penalty lets another have its turn. */
static void biases_and_penalties_decide(void **state)
{
    (void)state;
    serving_start(&inference_model, "2", FLAGS("--speculate", "8"));
    char *one = tokens_of(",\"logit_bias\":{\"70\":100}");
    char *other = tokens_of(",\"logit_bias\":{\"71\":100,\"70\":-100}");
    char *turns = tokens_of(",\"logit_bias\":{\"71\":100,\"70\":100},\"frequency_penalty\":2");
    assert_int_equal(count_same(one, one), 6);
    assert_int_equal(count_same(other, other), 6);
    assert_int_equal(count_same(other, one), 0);
    assert_int_equal(count_same(turns, one) + count_same(turns, other), 6);
    assert_in_range(count_same(turns, one), 1, 5);
    free(one);
    free(other);
    free(turns);
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* How many sequences were preempted so far. */
static long count_preemptions(void)
{
    assert_int_equal(serving_ask("/metrics", ""), 200);
    const char *preempted = strstr(serving_reply, "\nringfence_preemptions_total ");
    assert_non_null(preempted);
    return strtol(strchr(preempted, ' '), NULL, 10);
}

/* Of a full cache the younger texts lose their places, and are computed anew: they stay the same,
 * and a stream has nothing twice. So do texts in a form, whose grammar goes on where it was. */
static void texts_that_are_preempted_stay_the_same(void **state)
{
    (void)state;
    static const char *const flags[][3] = {
        {NULL}, {"--cache-tokens", "96", NULL}, {"--cache-tokens", "96", "--no-prefix-cache"}};
    static const char *const longer[] = {
        ",\"n\":2,\"max_tokens\":80,\"temperature\":0.9,\"seed\":11,\"ignore_eos\":true",
        ",\"n\":2,\"max_tokens\":80,\"temperature\":0.9,\"seed\":11,\"response_format\":{\"type\":"
        "\"json_schema\",\"json_schema\":{\"name\":\"a\",\"schema\":{\"type\":\"string\","
        "\"pattern\":\"^([A-Z][0-9]){20,40}$\"}}}"};
    static texts expected[2];
    static texts got;
    for (int i = 0; i < 5; i++) { /* the whole cache, then a small one on 1 and 2 ranks */
        const char *const *of = flags[(i + 1) / 2];
        serving_start(&inference_model, i % 2 == 0 ? "1" : "2",
                      FLAGS("--max-num-seqs", "8", "--speculate", "2", of[0], of[1], of[2]));
        long count = 0;
        for (int kind = 0; kind < 4; kind++) {
            const long before = count;
            texts *const same = &expected[kind / 2];
            ask("[\"he goed to school\",\"i has eat\",\"she\"]", longer[kind / 2], kind % 2 == 1,
                &got);
            *same = i == 0 && kind % 2 == 0 ? got : *same;
            for (int k = 0; k < CHOICES; k++) {
                assert_string_equal(got.of[k], same->of[k]);
                assert_string_equal(got.ends[k], same->ends[k]);
                assert_true(kind >= 2 || strcmp(got.ends[k], "length") == 0);
                assert_true(kind < 2 ||
                            strspn(got.of[k], "\" \n\tABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") ==
                                strlen(got.of[k]));
            }
            assert_int_equal(got.completion_tokens, same->completion_tokens);
            assert_true(kind >= 2 || got.completion_tokens == CHOICES * 80);
            assert_int_equal(got.prompt_tokens, same->prompt_tokens);
            count = count_preemptions();
            assert_true(i == 0 ? count == 0 : count > before);
        }
        assert_int_equal(serving_end(SIGTERM), 0);
        json_t *results = inference_results("served");
        const json_t *rank = json_array_get(json_object_get(results, "ranks"), 0);
        assert_int_equal(json_integer_value(json_object_get(rank, "preemptions")), count);
        json_decref(results);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_those_of_a_file),
        cmocka_unit_test(a_prompt_is_computed_once),
        cmocka_unit_test(texts_that_are_preempted_stay_the_same),
        cmocka_unit_test(a_stopped_answer_says_what_was_cached),
        cmocka_unit_test(choices_end_by_themselves),
        cmocka_unit_test(a_client_that_goes_cancels_all),
        cmocka_unit_test(a_slow_reader_takes_no_places),
        cmocka_unit_test(an_answer_that_is_too_large_is_the_clients_error),
        cmocka_unit_test(one_prompt_that_is_refused_refuses_all),
        cmocka_unit_test(biases_and_penalties_decide),
    };
    return cmocka_run_group_tests(tests, serving_setup, test_shared_directory_remove);
}
