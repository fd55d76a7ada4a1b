/* --serve: real jobs that answer HTTP requests as OpenAI's clients send them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serving.h"

enum { CLIENTS = 8 };

/* The same texts as from a file, greedy, and drawn with penalties, on one rank and on two. */
static void completions_are_those_of_a_file(void **state)
{
    (void)state;
    static test_program alone;
    for (int i = 0; i < 4; i++) {
        char escaped[4096];
        const bool draws = i % 2 == 1;
        assert_int_equal(
            inference_run(&alone, "tp-cpu", "1", "file",
                          draws ? FLAGS("--prompt", "he goed to school", "--temperature", "0.9",
                                        "--top-p", "0.8", "--sampling-seed", "7", "--min-p", "0.01",
                                        "--presence-penalty", "-0.5", "--frequency-penalty", "0.3",
                                        "--repetition-penalty", "1.1")
                                : FLAGS("--prompt", "he goed to school")),
            0);
        json_t *results = inference_results("file");
        const json_t *entry = json_array_get(json_object_get(results, "prompts"), 0);
        serving_start(&inference_model, i < 2 ? "1" : "2", FLAGS("--speculate", i < 2 ? "0" : "4"));
        free(serving_complete(
            "{\"prompt\":\"i has eat\",\"max_tokens\":3}")); /* another comes before it */
        char *text =
            serving_complete(draws ? "{\"prompt\":\"he goed to school\",\"max_tokens\":12,"
                                     "\"temperature\":0.9,\"top_p\":0.8,\"seed\":7,\"min_p\":0.01,"
                                     "\"presence_penalty\":-0.5,\"frequency_penalty\":0.3,"
                                     "\"repetition_penalty\":1.1}"
                                   : "{\"prompt\":[\"he goed to school\"],\"max_tokens\":12}");
        serving_escape(text, escaped, sizeof escaped);
        assert_string_equal(escaped, json_string_value(json_object_get(entry, "text")));
        assert_int_equal(serving_end(SIGTERM), 0);
        free(text);
        json_decref(results);
    }
}

/* The pieces of a stream are the text, and its last event says that it was the last. */
static void a_stream_has_the_same_text(void **state)
{
    (void)state;
    char text[4096] = "";
    int usages = 0;
    serving_start(&inference_model, "2", FLAGS(NULL));
    char *whole = serving_complete("{\"prompt\":\"he goed\",\"max_tokens\":9,\"ignore_eos\":true}");
    assert_int_equal(serving_ask("/v1/completions",
                                 "-d '{\"prompt\":\"he goed\",\"max_tokens\":9,\"ignore_eos\":true,"
                                 "\"stream\":true,\"stream_options\":{\"include_usage\":true}}'"),
                     200);
    char *rest = NULL;
    char *last = NULL;
    for (char *line = strtok_r(serving_reply, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        assert_int_equal(strncmp(line, "data: ", 6), 0);
        last = line + 6;
        json_t *object = json_loads(last, 0, NULL);
        const json_t *piece =
            json_object_get(json_array_get(json_object_get(object, "choices"), 0), "text");
        const json_t *usage = json_object_get(object, "usage");
        if (piece != NULL) {
            (void)strncat(text, json_string_value(piece), sizeof text - strlen(text) - 1);
        }
        if (usage != NULL) {
            usages++;
            assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), 9);
        }
        json_decref(object);
    }
    assert_string_equal(last, "[DONE]");
    assert_string_equal(text, whole);
    assert_int_equal(usages, 1);
    free(whole);
    assert_int_equal(serving_end(SIGINT), 0);
    json_t *results = inference_results("served");
    assert_int_equal(json_array_size(json_object_get(results, "prompts")), 0); /* nothing is kept */
    json_decref(results);
}

/* Asks for a completion that ends at a text. Returns the pieces' text, which the caller frees, and how
 * it ended; a whole answer is one piece. */
static char *complete_until(const char *stop, bool stream, char finish[32])
{
    char path[BASE_PATH_BYTES];
    char arguments[SERVING_COMMAND_BYTES];
    char *text = calloc(1, SERVING_REPLY_BYTES);
    json_t *body = json_pack("{s:s, s:i, s:b, s:[s,s], s:b}", "prompt", "he goed", "max_tokens", 24,
                             "ignore_eos", 1, "stop", "no such text", stop, "stream", stream);
    (void)snprintf(path, sizeof path, "%s", test_shared_path("body"));
    assert_non_null(text);
    assert_int_equal(json_dump_file(body, path, 0), 0);
    (void)snprintf(arguments, sizeof arguments, "--data-binary @%s", path);
    assert_int_equal(serving_ask("/v1/completions", arguments), 200);
    char *rest = NULL;
    for (char *line = strtok_r(serving_reply, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *object = json_loads(stream ? line + 6 : line, 0, NULL);
        const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
        const char *reason = json_string_value(json_object_get(choice, "finish_reason"));
        if (choice != NULL) {
            (void)strcat(text, json_string_value(json_object_get(choice, "text")));
        }
        if (reason != NULL) {
            (void)snprintf(finish, 32, "%s", reason);
        }
        json_decref(object);
    }
    json_decref(body);
    return text;
}

/* Asks for texts that end at a stop, in which several tokens lie. Returns the whole text, which the
 * caller frees. */
static char *ask_for_stops(const char *drafts)
{
    serving_start(&inference_model, "2", FLAGS("--max-num-seqs", "1", "--speculate", drafts));
    char *whole =
        serving_complete("{\"prompt\":\"he goed\",\"max_tokens\":24,\"ignore_eos\":true}");
    for (int i = 0; i < 4; i++) {
        char finish[32];
        size_t at = i < 2 ? strlen(whole) / 2 : 0;
        while ((whole[at] & 0xc0) == 0x80) {
            at++;
        }
        char *text = complete_until(whole + at, i % 2 == 1, finish);
        const size_t before = (size_t)(strstr(whole, whole + at) - whole);
        assert_int_equal(strlen(text), before);
        assert_memory_equal(text, whole, before);
        assert_string_equal(finish, "stop");
        free(text);
        text = complete_until("another one", i % 2 == 1, finish);
        assert_string_equal(text, whole);
        assert_string_equal(finish, "length");
        free(text);
    }
    serving_wait_metric("{result=\"stop\"} 4\n");
    serving_wait_metric("{result=\"length\"} 5\n");
    const char *accepted = strstr(serving_reply, "\nringfence_accepted_draft_tokens_total ");
    assert_non_null(accepted);
    assert_int_equal(strtol(strchr(accepted, ' '), NULL, 10) > 0, drafts[0] != '0');
    assert_int_equal(serving_end(SIGTERM), 0);
    return whole;
}

/* A text ends before the stop, and its sequence is free for others; with drafts, too. */
static void a_text_ends_before_its_stop(void **state)
{
    (void)state;
    char *whole = ask_for_stops("0");
    char *drafted = ask_for_stops("16");
    assert_string_equal(drafted, whole);
    free(drafted);
    free(whole);
}

/* The rest of a long text is not drawn. */
static void a_stop_ends_the_work(void **state)
{
    (void)state;
    serving_start(&serving_wide, "2", FLAGS("--max-num-seqs", "1"));
    char *text =
        serving_complete("{\"prompt\":\"he goed\",\"max_tokens\":16000,\"ignore_eos\":true,"
                         "\"temperature\":1,\"stop\":\"e\"}");
    assert_null(strchr(text, 'e'));
    free(text);
    serving_wait_metric("{result=\"stop\"} 1\n");
    const char *drawn = strstr(serving_reply, "ringfence_completion_tokens_total ");
    assert_non_null(drawn);
    assert_true(strtol(strchr(drawn, ' '), NULL, 10) < 8000);
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* A request that the cache could never hold is the client's error, and the next one is answered. */
static void a_request_beyond_the_cache_is_refused(void **state)
{
    (void)state;
    serving_start(&inference_model, "2", FLAGS("--cache-tokens", "40"));
    assert_int_equal(
        serving_ask("/v1/completions", "-d '{\"prompt\":\"he goed\",\"max_tokens\":48}'"), 400);
    assert_has(serving_reply, "do not fit into the cache, which has room for 40");
    char *text = serving_complete("{\"prompt\":\"he goed\",\"max_tokens\":8}");
    free(text);
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* A prompt sent back has its tokens' log-probabilities, but the first's, and the same bits on 1, 2 and 4 ranks; it is
 * computed again though it is cached. Its letters are no stop, and max_tokens may be 0. */
static void a_prompt_is_sent_back_and_weighed(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2", "4"};
    static const char body[] =
        "-d '{\"prompt\":[[7,8,9,7,8,9,7,8,9,7,8,9,7,8,9,7,8,9]],\"max_tokens\":1,\"logprobs\":1,"
        "\"echo\":true,\"ignore_eos\":true,\"temperature\":0}'";
    char *first = NULL;
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        serving_start(&inference_model, ranks[i], FLAGS("--max-num-seqs", "4"));
        for (int time = 0; time < 2; time++) {
            assert_int_equal(serving_ask("/v1/completions", body), 200);
            const char *choices = strstr(serving_reply, "\"choices\"");
            assert_non_null(choices);
            assert_has(choices, "\"token_logprobs\":[null,-");
            assert_has(choices, "\"top_logprobs\":[null,{");
            assert_has(choices, "\"prompt_tokens\":18,\"completion_tokens\":1,\"total_tokens\":19,"
                                "\"prompt_tokens_details\":{\"cached_tokens\":0}");
            first = first != NULL ? first : strdup(choices);
            assert_non_null(first);
            assert_string_equal(choices, first);
        }
        if (i == 0) {
            char *text = serving_complete("{\"prompt\":\"he goed\",\"max_tokens\":0,\"echo\":true,"
                                          "\"stop\":\"he\"}");
            assert_int_equal(strncmp(text, "he goed", 7), 0);
            free(text);
            assert_has(serving_reply, "\"completion_tokens\":0");
        }
        assert_int_equal(serving_end(SIGTERM), 0);
    }
    free(first);
}

static void many_clients_get_their_own_texts(void **state)
{
    (void)state;
    char *expected[CLIENTS];
    char body[CLIENTS][128];
    int fds[CLIENTS];
    serving_start(&inference_model, "2", FLAGS("--max-num-seqs", "4"));
    for (int i = 0; i < CLIENTS; i++) {
        (void)snprintf(body[i], sizeof body[i],
                       "{\"prompt\":\"he goed\",\"max_tokens\":%d,\"temperature\":1,\"seed\":%d}",
                       10 + i, i + 1);
        expected[i] = serving_complete(body[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = serving_send(body[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        serving_read_all(fds[i]);
        json_t *object = json_loads(strstr(serving_reply, "\r\n\r\n") + 4, 0, NULL);
        const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
        assert_string_equal(json_string_value(json_object_get(choice, "text")), expected[i]);
        json_decref(object);
        free(expected[i]);
    }
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* Without a seed, two servers draw different tokens; with --sampling-seed, the same. */
static void servers_draw_as_they_are_told(void **state)
{
    (void)state;
    static const char *const flags[][3] = {{"--quiet"}, {"--sampling-seed", "7"}};
    char *texts[4];
    for (int i = 0; i < 4; i++) {
        serving_start(&inference_model, "1", flags[i / 2]);
        texts[i] = serving_complete(
            "{\"prompt\":\"he\",\"temperature\":2,\"max_tokens\":30,\"ignore_eos\":true}");
        assert_int_equal(serving_end(SIGTERM), 0);
    }
    assert_string_not_equal(texts[0], texts[1]);
    assert_string_equal(texts[2], texts[3]);
    for (int i = 0; i < 4; i++) {
        free(texts[i]);
    }
}

/* --write-job writes what --job runs. */
static void a_job_file_can_be_served(void **state)
{
    (void)state;
    char job[BASE_PATH_BYTES];
    const char *arguments[] = {LAUNCHER_PATH,
                               "--mode",
                               "tp-cpu",
                               "--ranks",
                               "1",
                               "--serve",
                               "127.0.0.1:0",
                               "--checkpoint",
                               inference_model.out,
                               "--out",
                               NULL,
                               "--write-job",
                               job,
                               "--no-bind",
                               NULL};
    const char *again[] = {LAUNCHER_PATH, "--job", job, "--no-bind", NULL, NULL, NULL};
    (void)snprintf(job, sizeof job, "%s", test_shared_path("SERVE.json"));
    arguments[10] = test_shared_path("of-a-file");
    test_program_start(&serving_program, arguments, FLAGS(NULL));
    assert_int_equal(test_program_wait(&serving_program), 0);
    test_program_start(&serving_program, again, FLAGS(NULL));
    assert_int_equal(test_program_wait(&serving_program), 2);
    assert_has(serving_program.text[TEST_STDERR], "it is a job of --serve: say HOST:PORT");
    again[4] = "--serve";
    again[5] = "127.0.0.1:0";
    test_program_start(&serving_program, again, FLAGS(NULL));
    test_program_wait_text(&serving_program, TEST_STDOUT, "\n");
    assert_int_equal(sscanf(serving_program.text[TEST_STDOUT], "serving at %255s", serving_url), 1);
    free(serving_complete("{\"prompt\":\"he goed\",\"max_tokens\":1}"));
    assert_int_equal(serving_end(SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_are_those_of_a_file),
        cmocka_unit_test(a_stream_has_the_same_text),
        cmocka_unit_test(a_text_ends_before_its_stop),
        cmocka_unit_test(a_stop_ends_the_work),
        cmocka_unit_test(a_request_beyond_the_cache_is_refused),
        cmocka_unit_test(a_prompt_is_sent_back_and_weighed),
        cmocka_unit_test(many_clients_get_their_own_texts),
        cmocka_unit_test(servers_draw_as_they_are_told),
        cmocka_unit_test(a_job_file_can_be_served),
    };
    return cmocka_run_group_tests(tests, serving_setup, test_shared_directory_remove);
}
