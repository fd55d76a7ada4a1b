/* --serve: requests that are wrong, and are named so; long, odd, foreign and slow ones. */
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

enum { SLOW_CLIENTS = 600, LONG_TEXT_BYTES = PROTO_PROMPT_BYTES_MAX };

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
    {"/v1/models/mode", "", 404, "\"code\":\"model_not_found\""},
    {"/nothing", "", 404, "\"code\":null"},
    {"/v1/models/model%00x", "", 404, "there is only"},
    {"/health%00x", "", 404, "/v1/models/{model}"},
    {"/v1/models/mod%65l", "", 200, "{\"id\":\"model\""},
    {"/health", "-I", 200, "HTTP/1.1 200"},
    {"/", "", 200, "<title>Ringfence</title>"},
    {"/", "-i", 200, "Content-Security-Policy: default-src 'none'; connect-src 'self';"},
    {"/", "-d x", 405, "takes GET and HEAD only"},
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
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"echo\":1}'", 400, "\"param\":\"echo\""},
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
    {"/v1/completions", "-H 'Content-Encoding: gzip' -d '{}'", 415, "send it as it is"},
    {"/v1/completions", "-H 'Content-Encoding: identity' -d '{}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions", "-d @LONG", 413, "too many bytes"},
    {"/v1/completions", "-H 'Transfer-Encoding: chunked' -d @LONG", 413, "too many bytes"},
};

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static char big[(1 << 20) + 1];
    base_error error;
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_shared_path("LONG"));
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
    (void)snprintf(path, sizeof path, "%s", test_shared_path("LONG"));
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
        assert_has(serving_reply, "\"code\":\"context_length_exceeded\"");
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

/* Without --serve-origin a browser keeps what comes from pages of other origins. With it these may
 * ask, and send the key. */
static void pages_of_one_origin_may_ask(void **state)
{
    (void)state;
    static const char ask[] = "-i -X OPTIONS -H 'Origin: http://a.example' -H "
                              "'Access-Control-Request-Method: POST'";
    static const char stream[] = "-i -H 'Authorization: Bearer 0123456789abcdef' -d "
                                 "'{\"prompt\":\"a\",\"max_tokens\":1,\"stream\":true}'";
    static const char allowed[] = "Access-Control-Allow-Origin: http://a.example\r\n";
    const char *key = test_shared_path("origin-key");
    assert_int_equal(base_file_write(key, "0123456789abcdef\n", 17, NULL), BASE_OK);
    serving_start(&inference_model, "1",
                  FLAGS("--serve-origin", "http://a.example", "--serve-key-file", key));
    assert_int_equal(serving_ask("/v1/completions", ask), 204);
    assert_has(serving_reply, allowed);
    assert_has(serving_reply, "Access-Control-Allow-Headers: Authorization, *\r\n");
    assert_int_equal(serving_ask("/v1/completions", stream), 200);
    assert_has(serving_reply, allowed);
    assert_has(serving_reply, "data: [DONE]");
    assert_int_equal(serving_ask("/v1/models", "-i"), 401); /* which a page must be able to read */
    assert_has(serving_reply, allowed);
    assert_int_equal(serving_end(SIGTERM), 0);
    serving_start(&inference_model, "1", FLAGS("--quiet"));
    assert_int_equal(serving_ask("/v1/completions", ask), 405);
    assert_null(strstr(serving_reply, "Access-Control"));
    free(serving_complete("{\"prompt\":\"a\",\"max_tokens\":1}"));
    assert_int_equal(serving_ask("/health", "-i -H 'Origin: http://a.example'"), 200);
    assert_null(strstr(serving_reply, "Access-Control"));
    assert_int_equal(serving_end(SIGTERM), 0);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(long_texts_reach_the_model),
        cmocka_unit_test(what_a_proxy_may_read_otherwise_is_refused),
        cmocka_unit_test(a_name_is_no_way_in),
        cmocka_unit_test(pages_of_one_origin_may_ask),
        cmocka_unit_test(slow_clients_keep_nobody_out),
    };
    return cmocka_run_group_tests(tests, serving_setup, test_shared_directory_remove);
}
