/* --serve: real jobs that answer HTTP requests as OpenAI's clients send them. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/limits.h"
#include "serving.h"

enum { CLIENTS = 8, SLOW_CLIENTS = 600, LONG_TEXT_BYTES = PROTO_PROMPT_BYTES_MAX };

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
    (void)snprintf(path, sizeof path, "%s", test_directory_path(&test_shared_directory, "body"));
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

static const struct {
    const char *path;
    const char *arguments;
    int status;
    const char *says;
} wrong_and_right[] = {
    {"/health", "", 200, "\"ok\""},
    {"/v1/models", "", 200, "\"data\":[{\"id\":\"model\""},
    {"/v1/models/model", "", 200, "{\"id\":\"model\""},
    {"/v1/models/mode", "", 404, "there is only \\\"model\\\" here"},
    {"/health", "-I", 200, "HTTP/1.1 200"},
    {"/v1/completions", "-I", 405, "Allow: POST"},
    {"/v1/models", "-d x -i", 405, "Allow: GET, HEAD"},
    {"/v1/completions", "-d '{'", 400, "not a JSON object"},
    {"/v1/completions", "-d '[1]'", 400, "not a JSON object"},
    {"/v1/completions", "-d '{}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions", "-d '{\"prompt\":1}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions", "-d '{\"prompt\":\"\"}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"prompt\":\"b\"}'", 400, "duplicate"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"n\":65}'", 400, "\"param\":\"n\""},
    {"/v1/completions", "-d '{\"prompt\":[\"a\",\"b\"],\"n\":33}'", 400, "of more than 64 texts"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"best_of\":2}'", 400, "\"param\":\"best_of\""},
    {"/v1/completions", "-d '{\"prompt\":[\"a\",[100000],\"b\"],\"stream\":true}'", 400,
     "\"param\":\"prompt\""},
    {"/v1/completions", "-d '{\"prompt\":[\"a\",\"\"]}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"min_p\":1.1}'", 400, "\"param\":\"min_p\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"presence_penalty\":-2.1}'", 400,
     "\"param\":\"presence_penalty\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"frequency_penalty\":3}'", 400,
     "frequency_penalty 3: must be -2 to 2"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"logit_bias\":{\"99999\":1}}'", 400,
     "\"param\":\"logit_bias\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"logit_bias\":{}}'", 200, "text"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"min_p\":0,\"repetition_penalty\":1.0}'", 200,
     "text"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"stop\":[1]}'", 400, "\"param\":\"stop\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"logprobs\":6}'", 400, "\"param\":\"logprobs\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"logprobs\":true}'", 400, "\"param\":\"logprobs\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"logprobs\":1,\"top_logprobs\":1}'", 400,
     "\"param\":\"top_logprobs\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"warmth\":1}'", 400, "no such field"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"top_p\":3}'", 400, "\"param\":\"top_p\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"temperature\":-1}'", 400,
     "\"param\":\"temperature\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"top_k\":-2}'", 400, "\"param\":\"top_k\""},
    {"/v1/completions", "-d '{\"prompt\":[1,\"a\"]}'", 400, "prompt: entry 1"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"max_tokens\":0}'", 400, "max_tokens"},
    {"/v1/completions", "-d '{\"prompt\":[100000]}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions",
     "-d '{\"prompt\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":null}}'", 200,
     "DONE"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"model\":\"b\"}'", 404, "\"model\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"user\":\"b\",\"n\":1,\"stop\":null}'", 200,
     "text"},
    {"/v1/completions",
     "-d '{\"prompt\":\"a\",\"top_k\":-1,\"parallel_tool_calls\":false,\"store\":false,"
     "\"service_tier\":\"auto\",\"safety_identifier\":\"b\",\"prompt_cache_key\":\"c\"}'",
     200, "text"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"store\":1}'", 400, "\"param\":\"store\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"echo\":true}'", 400, "prompts are not sent back"},
    {"/v1/completions",
     "-d '{\"prompt\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":true,"
     "\"include_obfuscation\":false}}'",
     200, "DONE"},
    {"/v1/completions",
     "-d '{\"prompt\":\"a\",\"stream\":true,\"stream_options\":{\"include_obfuscation\":true}}'",
     400, "\"param\":\"stream_options\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"seed\":18446744073709551615}'", 400,
     "\"param\":\"seed\""},
    {"/v1/completions", "-d '{\"prompt\":[18446744073709551615]}'", 400, "not a JSON object"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"stop\":[\"\",\"\"]}'", 200, "text"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"stop_token_ids\":[99999]}'", 400,
     "\"param\":\"stop_token_ids\""},
    {"/v1/completions", "", 405, "takes POST only"},
    {"/health", "-d x", 405, "takes GET and HEAD only"},
    {"/v1/chat/completions", "-d '{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}'", 400,
     "no chat template"},
    {"/nothing", "", 404, "/v1/models/{model}"},
    {"/v1/completions", "-X PUT -d x", 405, ""},
    {"/health", "-X GET -d xy", 200, ""},
    {"/v1/completions", "-d @LONG", 413, "too many bytes"},
    {"/v1/completions", "-H 'Transfer-Encoding: chunked' -d @LONG", 413, "too many bytes"},
};

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static char big[(1 << 20) + 1];
    base_error error;
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_directory_path(&test_shared_directory, "LONG"));
    memset(big, 'a', sizeof big);
    assert_int_equal(base_file_write(path, big, sizeof big, &error), BASE_OK);
    serving_start(&inference_model, "2", FLAGS(NULL));
    serving_wait_metric("requests_total");
    free(serving_complete("{\"prompt\":\"a\",\"max_tokens\":1}")); /* the model is loaded */
    for (size_t i = 0; i < sizeof wrong_and_right / sizeof wrong_and_right[0]; i++) {
        char arguments[SERVING_COMMAND_BYTES];
        const char *at = strstr(wrong_and_right[i].arguments, "LONG");
        (void)snprintf(arguments, sizeof arguments, "%.*s%s",
                       at != NULL ? (int)(at - wrong_and_right[i].arguments)
                                  : SERVING_COMMAND_BYTES - 1,
                       wrong_and_right[i].arguments, at != NULL ? path : "");
        const int status = serving_ask(wrong_and_right[i].path, arguments);
        if (status != wrong_and_right[i].status ||
            strstr(serving_reply, wrong_and_right[i].says) == NULL) {
            fail_msg("case %zu: %d: %s", i, status, serving_reply);
        }
        /* JSON ends its line, in a terminal */
        const size_t length = strlen(serving_reply);
        assert_true(serving_reply[0] != '{' || strcmp(serving_reply + length - 2, "}\n") == 0);
    }
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* Asks for one token behind `bytes` of text, in a body whose letters are escaped if `escaped`. */
static int ask_long(size_t bytes, bool escaped)
{
    static char text[LONG_TEXT_BYTES + 2];
    static char body[4 * sizeof text];
    char path[BASE_PATH_BYTES];
    char arguments[SERVING_COMMAND_BYTES];
    base_error error;
    size_t used = (size_t)snprintf(body, sizeof body, "{\"max_tokens\":1,\"prompt\":\"");
    for (size_t i = 0; i < bytes; i++) {
        text[i] = "school "[i % 7];
    }
    for (size_t i = 0; i < bytes; i++) { /* every third one: 1 MiB holds no more */
        used += (size_t)snprintf(body + used, sizeof body - used,
                                 escaped && i % 3 == 0 ? "\\u%04x" : "%c", (unsigned)text[i]);
    }
    used += (size_t)snprintf(body + used, sizeof body - used, "\"}");
    (void)snprintf(path, sizeof path, "%s", test_directory_path(&test_shared_directory, "LONG"));
    assert_ok(base_file_write(path, body, used, &error), &error);
    (void)snprintf(arguments, sizeof arguments, "-d @%s", path);
    return serving_ask("/v1/completions", arguments);
}

/* Up to the limit a text reaches rank 0, which counts its tokens. */
static void long_texts_reach_the_model(void **state)
{
    (void)state;
    serving_start(&serving_wide, "2", FLAGS(NULL));
    assert_int_equal(ask_long(20 * 1024, false), 200);
    assert_has(serving_reply, "\"completion_tokens\":1");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask_long(LONG_TEXT_BYTES, i == 1), 400);
        assert_has(serving_reply, "a prompt must have 1 to ");
        assert_int_equal(ask_long(LONG_TEXT_BYTES + 1, i == 1), 400);
        assert_has(serving_reply, "a prompt of more than 262144 bytes");
    }
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* What stands behind such a body is not taken as a request: a proxy may see the end elsewhere. Nor may it see another
 * host. */
static void what_a_proxy_may_read_otherwise_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        const char *says;
    } wrong[] = {
        {"Host: localhost\r\nContent-Length: 0\r\nContent-Length: 40\r\n", "length twice"},
        {"Host: localhost\r\nContent-Length: 0\r\nContent-Length: 0\r\n", "length twice"},
        {"Host: localhost\r\ncontent-length: 40\r\nTransfer-Encoding: chunked\r\n", "length twice"},
        {"Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
         "length twice"},
        {"Content-Length: 0\r\n", "Host"}, /* libmicrohttpd 1.0 refuses it in words of its own */
        {"Host: localhost\r\nHost: localhost\r\nContent-Length: 0\r\n",
         "Host is missing, or there are two"},
    };
    serving_start(&inference_model, "1", FLAGS("--quiet"));
    free(serving_complete("{\"prompt\":\"a\",\"max_tokens\":1}")); /* the model is loaded */
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[SERVING_COMMAND_BYTES];
        const int fd = serving_connect(false);
        const int bytes = snprintf(text, sizeof text,
                                   "POST /v1/completions HTTP/1.1\r\n%s\r\n"
                                   "0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                   wrong[i].headers);
        assert_int_equal(write(fd, text, (size_t)bytes), bytes);
        serving_read_all(fd);
        if (strncmp(serving_reply, "HTTP/1.1 400 ", 13) != 0 ||
            strstr(serving_reply, wrong[i].says) == NULL ||
            strstr(serving_reply, "HTTP/1.1 200") != NULL) {
            fail_msg("case %zu: %s", i, serving_reply);
        }
    }
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* A page of another site, whose DNS says that this is the site's address, reaches nothing. */
static void a_name_is_no_way_in(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        int status;
    } asks[] = {
        {"-H 'Host: evil.example'", 403},   {"-H 'Host: evil.example:8000'", 403},
        {"-H 'Host: localhost.evil'", 403}, {"-H 'Host: 127.0.0.1.evil'", 403},
        {"-H 'Host: [evil]'", 403},         {"-H 'Host: '", 403},
        {"-H 'Host: LocalHost:8000'", 200}, {"-H 'Host: 127.0.0.1:8000'", 200},
        {"-H 'Host: [::1]:8000'", 200},     {"-H 'Host: 192.0.2.1'", 200},
        {"--http1.0 -H 'Host:'", 200},
    };
    serving_start(&inference_model, "1", FLAGS("--quiet"));
    free(serving_complete("{\"prompt\":\"a\",\"max_tokens\":1}")); /* the model is loaded */
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        const int status = serving_ask("/v1/models", asks[i].flags);
        if (status != asks[i].status) {
            fail_msg("%s: %d", asks[i].flags, status);
        }
    }
    assert_int_equal(serving_end(SIGTERM), 0);
    serving_start(&inference_model, "1", FLAGS("--quiet", "--serve-open"));
    free(serving_complete("{\"prompt\":\"a\",\"max_tokens\":1}"));
    assert_int_equal(serving_ask("/v1/models", "-H 'Host: evil.example'"), 200);
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* Without a seed, two servers draw different tokens; with --sampling-seed, the same. */
/* Clients that send a letter of a header every now and then, more than there may be. */
typedef struct slow_clients {
    int fds[SLOW_CLIENTS];
    atomic_bool ended;
} slow_clients;

static void *send_slowly(void *user)
{
    slow_clients *clients = user;
    while (!atomic_load(&clients->ended)) {
        for (int i = 0; i < SLOW_CLIENTS; i++) {
            (void)!send(clients->fds[i], "a", 1,
                        MSG_NOSIGNAL | MSG_DONTWAIT); /* it may be closed */
        }
        (void)usleep(100 * 1000);
    }
    return NULL;
}

static void slow_clients_keep_nobody_out(void **state)
{
    (void)state;
    static slow_clients clients;
    static const char head[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-A: ";
    pthread_t thread;
    serving_start(&inference_model, "1", FLAGS("--quiet"));
    const int idle = serving_send("{\"prompt\":\"a\",\"max_tokens\":1}");
    serving_read_all(idle); /* the model is loaded */
    for (int i = 0; i < SLOW_CLIENTS; i++) {
        clients.fds[i] = serving_connect(false);
        (void)!send(clients.fds[i], head, sizeof head - 1, MSG_NOSIGNAL);
    }
    assert_int_equal(pthread_create(&thread, NULL, send_slowly, &clients), 0);
    for (int i = 0; i < 3; i++) {
        free(serving_complete("{\"prompt\":\"a\",\"max_tokens\":1}"));
    }
    atomic_store(&clients.ended, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < SLOW_CLIENTS; i++) {
        (void)close(clients.fds[i]);
    }
    assert_int_equal(serving_end(SIGTERM), 0);
}

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
    (void)snprintf(job, sizeof job, "%s",
                   test_directory_path(&test_shared_directory, "SERVE.json"));
    arguments[10] = test_directory_path(&test_shared_directory, "of-a-file");
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
        cmocka_unit_test(many_clients_get_their_own_texts),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(long_texts_reach_the_model),
        cmocka_unit_test(what_a_proxy_may_read_otherwise_is_refused),
        cmocka_unit_test(a_name_is_no_way_in),
        cmocka_unit_test(slow_clients_keep_nobody_out),
        cmocka_unit_test(servers_draw_as_they_are_told),
        cmocka_unit_test(a_job_file_can_be_served),
    };
    return cmocka_run_group_tests(tests, serving_setup, test_shared_directory_remove);
}
