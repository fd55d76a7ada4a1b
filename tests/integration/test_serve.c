/* --serve: real jobs that answer HTTP requests of curl, and of sockets that are closed, left or kept
 * waiting. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "inference.h"
#include "proto/limits.h"

enum { REPLY_BYTES = 1024 * 1024, COMMAND_BYTES = 4096, CLIENTS = 8, WAIT_S = 60 };

#define LONG "{\"prompt\":\"he goed\",\"max_tokens\":16000,\"ignore_eos\":true,\"temperature\":1}"

#define HEALTH "GET /health HTTP/1.1\r\nHost: here\r\n\r\n"
#define HALF                                                                                       \
    "POST /v1/completions HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{\"prompt\":"

static test_program program; /* its buffers are big */
static training_run wide;    /* a model with a context that takes a while to fill */
static char url[256];
static char reply[REPLY_BYTES];

static int setup(void **state)
{
    (void)inference_make_model(state);
    training_expect(&wide, &test_shared_directory, "wide", 0,
                    FLAGS("--ranks", "1", "--heads", "4", "--width", "64", "--context", "16384",
                          "--batch", "1", "--steps", "1"));
    return 0;
}

/* Starts a server, and waits until it answers. */
static void start(const training_run *model, const char *ranks, const char *const *flags)
{
    const char *arguments[TEST_PROGRAM_ARGS_MAX] = {
        LAUNCHER_PATH, "--mode",  "tp-cpu",
        "--ranks",     ranks,     "--checkpoint",
        model->out,    "--out",   test_directory_path(&test_shared_directory, "served"),
        "--no-bind",   "--serve", "127.0.0.1:0"};
    size_t count = 12;
    for (size_t i = 0; flags[i] != NULL; i++) {
        arguments[count++] = flags[i];
    }
    arguments[count] = NULL;
    test_program_start(&program, arguments, FLAGS(NULL));
    test_program_wait_text(&program, TEST_STDOUT, "\n");
    assert_int_equal(sscanf(program.text[TEST_STDOUT], "serving at %255s", url), 1);
}

static int end(int signal_number)
{
    if (signal_number != 0) {
        assert_int_equal(kill(program.pid, signal_number), 0);
    }
    const int code = test_program_wait(&program);
    test_program_assert_no_children();
    return code;
}

/* Asks by curl. reply has the body; returns the HTTP status. */
static int ask(const char *path, const char *arguments)
{
    char command[COMMAND_BYTES];
    (void)snprintf(command, sizeof command, "curl -s -N -m %d -w '\\n%%{http_code}' '%s%s' %s",
                   WAIT_S, url, path, arguments);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    const size_t bytes = fread(reply, 1, sizeof reply - 1, output);
    (void)pclose(output);
    reply[bytes] = '\0';
    char *last = strrchr(reply, '\n');
    assert_non_null(last);
    *last = '\0';
    return (int)strtol(last + 1, NULL, 10);
}

/* The text of a completion that must be whole; the caller frees it. */
static char *complete(const char *body)
{
    char arguments[COMMAND_BYTES];
    (void)snprintf(arguments, sizeof arguments, "-d '%s'", body);
    const int status = ask("/v1/completions", arguments);
    if (status != 200) {
        fail_msg("%d: %s", status, reply);
    }
    json_t *object = json_loads(reply, JSON_REJECT_DUPLICATES, NULL);
    const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
    char *text = strdup(json_string_value(json_object_get(choice, "text")));
    json_decref(object);
    return text;
}

/* `small`: its segments and buffers are, so that a server soon cannot send any more to a client that
 * does not read. */
static int connect_to_server(bool small)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)strtol(strrchr(url, ':') + 1, NULL, 10));
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const int segment = 536;
    const int buffer = 2048;
    if (small) {
        assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment), 0);
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer), 0);
    }
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Sends a request by hand. Returns the connection. */
static int send_request_with(const char *body, bool small)
{
    char text[COMMAND_BYTES];
    const int fd = connect_to_server(small);
    const int bytes =
        snprintf(text, sizeof text,
                 "POST /v1/completions HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 strlen(body), body);
    assert_int_equal(write(fd, text, (size_t)bytes), bytes);
    return fd;
}

static int send_request(const char *body)
{
    return send_request_with(body, false);
}

/* All that comes until the server closes the connection, in reply. */
static void read_all(int fd)
{
    size_t used = 0;
    ssize_t got = 0;
    do {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&one, 1, WAIT_S * 1000), 1);
        got = read(fd, reply + used, sizeof reply - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    reply[used] = '\0';
    (void)close(fd);
}

/* Waits until a metric has the value. */
static void wait_metric(const char *line)
{
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_S * BASE_NS_PER_S);
    do {
        assert_int_equal(ask("/metrics", ""), 200);
        assert_true(base_now_ns() < deadline_ns);
    } while (strstr(reply, line) == NULL);
}

/* A text as a record has it: control characters are escaped there, and not for HTTP clients. */
static void escape(const char *text, char *escaped, size_t capacity)
{
    const char *at = text;
    size_t used = 0;
    escaped[0] = '\0';
    for (; *at != '\0'; at++) {
        const unsigned first = (uint8_t)*at;
        const bool high = first == 0xc2 && (uint8_t)at[1] < 0xa0;
        const bool control = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
        assert_true(used + sizeof "\\u0000" < capacity);
        at += high ? 1 : 0;
        used += (size_t)snprintf(escaped + used, capacity - used,
                                 high      ? "\\u00%02x"
                                 : control ? "\\x%02x"
                                           : "%c",
                                 high ? (unsigned)(uint8_t)*at : first);
    }
}

/* The same texts as from a file, greedy and drawn, on one rank and on two. */
static void completions_are_those_of_a_file(void **state)
{
    (void)state;
    static test_program alone;
    static const char *const drawn[] = {"--temperature",   "0.9", "--top-p", "0.8",
                                        "--sampling-seed", "7"};
    for (int i = 0; i < 4; i++) {
        char escaped[4096];
        const bool draws = i % 2 == 1;
        const char *out = test_directory_path(&test_shared_directory, "file");
        assert_int_equal(inference_run(&alone, "tp-cpu", "1", out,
                                       draws
                                           ? FLAGS("--prompt", "he goed to school", drawn[0],
                                                   drawn[1], drawn[2], drawn[3], drawn[4], drawn[5])
                                           : FLAGS("--prompt", "he goed to school")),
                         0);
        json_t *results = inference_results(test_directory_path(&test_shared_directory, "file"));
        const json_t *entry = json_array_get(json_object_get(results, "prompts"), 0);
        start(&inference_model, i < 2 ? "1" : "2", FLAGS(NULL));
        free(complete("{\"prompt\":\"i has eat\",\"max_tokens\":3}")); /* another comes before it */
        char *text = complete(draws ? "{\"prompt\":\"he goed to school\",\"max_tokens\":12,"
                                      "\"temperature\":0.9,\"top_p\":0.8,\"seed\":7}"
                                    : "{\"prompt\":[\"he goed to school\"],\"max_tokens\":12}");
        escape(text, escaped, sizeof escaped);
        assert_string_equal(escaped, json_string_value(json_object_get(entry, "text")));
        assert_int_equal(end(SIGTERM), 0);
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
    start(&inference_model, "2", FLAGS(NULL));
    char *whole = complete("{\"prompt\":\"he goed\",\"max_tokens\":9,\"ignore_eos\":true}");
    assert_int_equal(ask("/v1/completions",
                         "-d '{\"prompt\":\"he goed\",\"max_tokens\":9,\"ignore_eos\":true,"
                         "\"stream\":true,\"stream_options\":{\"include_usage\":true}}'"),
                     200);
    char *rest = NULL;
    char *last = NULL;
    for (char *line = strtok_r(reply, "\n", &rest); line != NULL;
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
    assert_int_equal(end(SIGINT), 0);
    json_t *results = inference_results(test_directory_path(&test_shared_directory, "served"));
    assert_int_equal(json_array_size(json_object_get(results, "prompts")), 0); /* nothing is kept */
    json_decref(results);
}

/* Asks for a completion that ends at a text. Returns the pieces' text, which the caller frees, and how
 * it ended; a whole answer is one piece. */
static char *complete_until(const char *stop, bool stream, char finish[32])
{
    char path[BASE_PATH_BYTES];
    char arguments[COMMAND_BYTES];
    char *text = calloc(1, REPLY_BYTES);
    json_t *body = json_pack("{s:s, s:i, s:b, s:[s,s], s:b}", "prompt", "he goed", "max_tokens", 24,
                             "ignore_eos", 1, "stop", "no such text", stop, "stream", stream);
    (void)snprintf(path, sizeof path, "%s", test_directory_path(&test_shared_directory, "body"));
    assert_non_null(text);
    assert_int_equal(json_dump_file(body, path, 0), 0);
    (void)snprintf(arguments, sizeof arguments, "--data-binary @%s", path);
    assert_int_equal(ask("/v1/completions", arguments), 200);
    char *rest = NULL;
    for (char *line = strtok_r(reply, "\n", &rest); line != NULL;
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

/* A text ends before the stop, in which several tokens lie; its sequence is free for others. */
static void a_text_ends_before_its_stop(void **state)
{
    (void)state;
    start(&inference_model, "2", FLAGS("--max-num-seqs", "1"));
    char *whole = complete("{\"prompt\":\"he goed\",\"max_tokens\":24,\"ignore_eos\":true}");
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
    free(whole);
    wait_metric("{result=\"stop\"} 4\n");
    wait_metric("{result=\"length\"} 5\n");
    assert_int_equal(end(SIGTERM), 0);
}

/* The rest of a long text is not drawn. */
static void a_stop_ends_the_work(void **state)
{
    (void)state;
    start(&wide, "2", FLAGS("--max-num-seqs", "1"));
    char *text = complete("{\"prompt\":\"he goed\",\"max_tokens\":16000,\"ignore_eos\":true,"
                          "\"temperature\":1,\"stop\":\"e\"}");
    assert_null(strchr(text, 'e'));
    free(text);
    wait_metric("{result=\"stop\"} 1\n");
    const char *drawn = strstr(reply, "ringfence_completion_tokens_total ");
    assert_non_null(drawn);
    assert_true(strtol(strchr(drawn, ' '), NULL, 10) < 8000);
    assert_int_equal(end(SIGTERM), 0);
}

static void many_clients_get_their_own_texts(void **state)
{
    (void)state;
    char *expected[CLIENTS];
    char body[CLIENTS][128];
    int fds[CLIENTS];
    start(&inference_model, "2", FLAGS("--max-num-seqs", "4"));
    for (int i = 0; i < CLIENTS; i++) {
        (void)snprintf(body[i], sizeof body[i],
                       "{\"prompt\":\"he goed\",\"max_tokens\":%d,\"temperature\":1,\"seed\":%d}",
                       10 + i, i + 1);
        expected[i] = complete(body[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = send_request(body[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        read_all(fds[i]);
        json_t *object = json_loads(strstr(reply, "\r\n\r\n") + 4, 0, NULL);
        const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
        assert_string_equal(json_string_value(json_object_get(choice, "text")), expected[i]);
        json_decref(object);
        free(expected[i]);
    }
    assert_int_equal(end(SIGTERM), 0);
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
    {"/v1/models/mode", "", 404, "there are"},
    {"/health", "-I", 200, "HTTP/1.1 200"},
    {"/v1/completions", "-I", 405, "Allow: POST"},
    {"/v1/models", "-d x -i", 405, "Allow: GET, HEAD"},
    {"/v1/completions", "-d '{'", 400, "not a JSON object"},
    {"/v1/completions", "-d '[1]'", 400, "not a JSON object"},
    {"/v1/completions", "-d '{}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions", "-d '{\"prompt\":1}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions", "-d '{\"prompt\":\"\"}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions", "-d '{\"prompt\":[\"a\",\"b\"]}'", 400, "send a request for each"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"prompt\":\"b\"}'", 400, "duplicate"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"n\":2}'", 400, "\"param\":\"n\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"min_p\":0.1}'", 400, "\"param\":\"min_p\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"min_p\":0,\"repetition_penalty\":1.0}'", 200,
     "text"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"stop\":[1]}'", 400, "\"param\":\"stop\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"logprobs\":0}'", 400, "logprobs"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"warmth\":1}'", 400, "no such field"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"top_p\":3}'", 400, "\"param\":\"top_p\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"temperature\":-1}'", 400,
     "\"param\":\"temperature\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"top_k\":-1}'", 400, "\"param\":\"top_k\""},
    {"/v1/completions", "-d '{\"prompt\":[1,\"a\"]}'", 400, "prompt: entry 1"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"max_tokens\":0}'", 400, "max_tokens"},
    {"/v1/completions", "-d '{\"prompt\":[100000]}'", 400, "\"param\":\"prompt\""},
    {"/v1/completions",
     "-d '{\"prompt\":\"a\",\"stream\":true,\"stream_options\":{\"include_usage\":null}}'", 200,
     "DONE"},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"model\":\"b\"}'", 404, "\"model\""},
    {"/v1/completions", "-d '{\"prompt\":\"a\",\"user\":\"b\",\"n\":1,\"stop\":null}'", 200,
     "text"},
    {"/v1/completions", "", 405, "another method"},
    {"/v1/chat/completions", "-d '{}'", 501, "/v1/completions"},
    {"/nothing", "", 404, "/v1/completions"},
    {"/v1/completions", "-X PUT -d x", 405, ""},
    {"/health", "-X GET -d xy", 200, ""},
    {"/v1/completions", "-d @LONG", 413, "too many bytes"},
    {"/v1/completions", "-H 'Transfer-Encoding: chunked' -d @LONG", 413, "too many bytes"},
};

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    static char big[400 * 1024];
    base_error error;
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_directory_path(&test_shared_directory, "LONG"));
    memset(big, 'a', sizeof big);
    assert_int_equal(base_file_write(path, big, sizeof big, &error), BASE_OK);
    start(&inference_model, "2", FLAGS(NULL));
    wait_metric("requests_total");
    free(complete("{\"prompt\":\"a\",\"max_tokens\":1}")); /* the model is loaded */
    for (size_t i = 0; i < sizeof wrong_and_right / sizeof wrong_and_right[0]; i++) {
        char arguments[COMMAND_BYTES];
        const char *at = strstr(wrong_and_right[i].arguments, "LONG");
        (void)snprintf(arguments, sizeof arguments, "%.*s%s",
                       at != NULL ? (int)(at - wrong_and_right[i].arguments) : COMMAND_BYTES - 1,
                       wrong_and_right[i].arguments, at != NULL ? path : "");
        const int status = ask(wrong_and_right[i].path, arguments);
        if (status != wrong_and_right[i].status || strstr(reply, wrong_and_right[i].says) == NULL) {
            fail_msg("case %zu: %d: %s", i, status, reply);
        }
    }
    assert_int_equal(end(SIGTERM), 0);
}

/* A client that goes frees its sequence: what waited for it runs. */
static void a_client_that_goes_cancels_its_request(void **state)
{
    (void)state;
    start(&wide, "2", FLAGS("--max-num-seqs", "1"));
    const int whole = send_request(LONG);
    wait_metric("requests_running 1\n");
    const int waiting = send_request(LONG);
    (void)close(waiting);
    wait_metric("{result=\"cancelled\"} 1\n");
    (void)close(whole);
    wait_metric("{result=\"cancelled\"} 2\n");
    free(complete("{\"prompt\":\"he goed\",\"max_tokens\":3}"));
    wait_metric("requests_running 0\n");
    assert_int_equal(end(SIGTERM), 0);
}

static int open_files(void)
{
    char path[64];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)program.pid);
    DIR *files = opendir(path);
    assert_non_null(files);
    while (readdir(files) != NULL) {
        count++;
    }
    (void)closedir(files);
    return count;
}

/* Half a request, and streams that are left, while an older connection has nothing to say: none of them is
 * kept until the idle time is over. */
static void connections_of_clients_that_go_are_closed(void **state)
{
    (void)state;
    enum { GOING = 24, SOON_S = 20 };
    start(&wide, "1", FLAGS(NULL));
    free(complete("{\"prompt\":\"he goed\",\"max_tokens\":1}")); /* now all that stays open is */
    const int idle = connect_to_server(false);
    assert_true(write(idle, HEALTH, sizeof HEALTH - 1) > 0);
    assert_true(read(idle, reply, sizeof reply) > 0);
    const int before = open_files();
    for (int i = 0; i < GOING; i++) {
        int fd = -1;
        if (i % 2 == 0) {
            fd = connect_to_server(false);
            assert_true(write(fd, HALF, sizeof HALF - 1) > 0);
        } else {
            fd = send_request("{\"prompt\":\"he goed\",\"max_tokens\":9000,\"ignore_eos\":true,"
                              "\"stream\":true}");
            assert_true(read(fd, reply, sizeof reply) > 0);
        }
        (void)close(fd);
    }
    const int64_t deadline_ns = base_deadline_after_ns(SOON_S * BASE_NS_PER_S);
    while (open_files() > before && base_now_ns() < deadline_ns) {
        (void)poll(NULL, 0, 100);
    }
    if (open_files() > before) {
        fail_msg("%d files are open, and %d were before", open_files(), before);
    }
    (void)close(idle);
    assert_int_equal(end(SIGTERM), 0);
}

static void more_than_can_wait_is_refused(void **state)
{
    (void)state;
    enum { ALL = 1 + PROTO_REQUESTS_WAITING_MAX };
    char line[64];
    int fds[ALL];
    start(&wide, "2", FLAGS("--max-num-seqs", "1"));
    for (int i = 0; i < ALL; i++) {
        fds[i] = send_request(LONG);
    }
    (void)snprintf(line, sizeof line, "requests_waiting %d\n", ALL - 1);
    wait_metric(line);
    assert_int_equal(ask("/v1/completions", "-d '{\"prompt\":\"a\"}'"), 429);
    assert_int_equal(kill(program.pid, SIGTERM), 0); /* the second one ends it at once */
    test_program_wait_text(&program, TEST_STDERR, "no more requests are taken");
    assert_int_equal(end(SIGTERM), 128 + SIGTERM);
    for (int i = 0; i < ALL; i++) {
        read_all(fds[i]);
        assert_non_null(strstr(reply, "HTTP/1.1 50"));
    }
}

static void a_drain_ends_what_runs(void **state)
{
    (void)state;
    start(&wide, "2", FLAGS(NULL));
    const int fd = send_request("{\"prompt\":\"he goed\",\"max_tokens\":4000,\"ignore_eos\":true,"
                                "\"stream\":true}");
    wait_metric("requests_running 1\n");
    assert_int_equal(end(SIGTERM), 0);
    read_all(fd);
    assert_non_null(strstr(reply, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(reply, "data: [DONE]"));
}

/* What is answered no longer runs, although nobody reads it: it counts as such, and a drain that has
 * waited for its reader ends well. */
static void a_reader_that_does_not_read_is_no_failure(void **state)
{
    (void)state;
    const char *line = "{result=\"length\"} 1\n";
    start(&wide, "2", FLAGS("--serve-drain", "1"));
    const int fd = send_request_with("{\"prompt\":\"he goed\",\"max_tokens\":16000,"
                                     "\"ignore_eos\":true,\"temperature\":1,\"stream\":true}",
                                     true);
    wait_metric(line);
    wait_metric("requests_running 0\n");
    wait_metric("requests_waiting 0\n");
    assert_int_equal(end(SIGTERM), 0);
    assert_non_null(strstr(program.text[TEST_STDERR], "clients that have not read their answers"));
    (void)close(fd);
}

static void a_drain_has_a_deadline(void **state)
{
    (void)state;
    start(&wide, "2", FLAGS("--serve-drain", "1"));
    const int fd = send_request(LONG);
    wait_metric("requests_running 1\n");
    assert_int_equal(end(SIGTERM), 128 + SIGTERM);
    read_all(fd);
    assert_non_null(strstr(reply, "HTTP/1.1 503"));
    assert_non_null(strstr(reply, "the server ends"));
}

static void a_killed_rank_is_an_error_of_all_that_is_open(void **state)
{
    (void)state;
    start(&wide, "2", FLAGS(NULL));
    const int fd = send_request(LONG);
    wait_metric("requests_running 1\n");
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)program.pid,
                   (int)program.pid);
    FILE *children = fopen(path, "r");
    char pids[256];
    assert_non_null(children);
    assert_non_null(fgets(pids, sizeof pids, children));
    (void)fclose(children);
    const pid_t pid = (pid_t)strtol(pids, NULL, 10);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(end(0), 128 + SIGKILL);
    read_all(fd);
    assert_non_null(strstr(reply, "HTTP/1.1 500"));
    assert_non_null(strstr(reply, "rank "));
}

static void a_key_is_asked_for(void **state)
{
    (void)state;
    char path[BASE_PATH_BYTES];
    base_error error;
    static const char key[] = "a-key-of-sixteen-or-more\n";
    (void)snprintf(path, sizeof path, "%s", test_directory_path(&test_shared_directory, "key"));
    assert_int_equal(base_file_write(path, key, sizeof key - 1, &error), BASE_OK);
    start(&inference_model, "1", FLAGS("--serve-key-file", path));
    assert_int_equal(ask("/v1/models", ""), 401);
    assert_int_equal(ask("/v1/models", "-H 'Authorization: Bearer a-key-of-sixteen-or-mor'"), 401);
    assert_int_equal(ask("/v1/models", "-H 'Authorization: Bearer a-key-of-sixteen-or-more'"), 200);
    assert_int_equal(ask("/v1/models", "-H 'Authorization: bearer a-key-of-sixteen-or-more'"), 200);
    assert_int_equal(ask("/v1/models", "-H 'Authorization: Bearer  a-key-of-sixteen-or-more '"),
                     200);
    assert_int_not_equal(ask("/health", ""), 401);
    test_program_wait_text(&program, TEST_STDERR, "weights");
    assert_int_equal(end(SIGTERM), 0);
    static const char spaced[] = "a-key-of-sixteen-or-more \n"; /* no header can carry it */
    assert_int_equal(base_file_write(path, spaced, sizeof spaced - 1, &error), BASE_OK);
    assert_int_equal(inference_run(&program, "tp-cpu", "1",
                                   test_directory_path(&test_shared_directory, "spaced"),
                                   FLAGS("--serve", "127.0.0.1:0", "--serve-key-file", path)),
                     1);
    assert_non_null(strstr(program.text[TEST_STDERR], "without spaces"));
    assert_int_equal(chmod(path, 0622), 0);
    assert_int_equal(inference_run(&program, "tp-cpu", "1",
                                   test_directory_path(&test_shared_directory, "written"),
                                   FLAGS("--serve", "127.0.0.1:0", "--serve-key-file", path)),
                     1);
    assert_non_null(strstr(program.text[TEST_STDERR], "may be written by others (mode 0622)"));
}

/* Without a seed, two servers draw different tokens; with --sampling-seed, the same. */
static void servers_draw_as_they_are_told(void **state)
{
    (void)state;
    static const char *const flags[][3] = {{"--quiet"}, {"--sampling-seed", "7"}};
    char *texts[4];
    for (int i = 0; i < 4; i++) {
        start(&inference_model, "1", flags[i / 2]);
        texts[i] =
            complete("{\"prompt\":\"he\",\"temperature\":2,\"max_tokens\":30,\"ignore_eos\":true}");
        assert_int_equal(end(SIGTERM), 0);
    }
    assert_string_not_equal(texts[0], texts[1]);
    assert_string_equal(texts[2], texts[3]);
    for (int i = 0; i < 4; i++) {
        free(texts[i]);
    }
}

/* A server that ends while it loads says so to those who wait. */
static void the_end_of_loading_is_no_failure(void **state)
{
    (void)state;
    start(&inference_model, "1", FLAGS(NULL));
    const int fd = send_request("{\"prompt\":\"he\"}");
    const int code = end(SIGTERM);
    assert_true(code == 128 + SIGTERM || code == 0); /* it may be loaded by now */
    read_all(fd);
    assert_null(strstr(reply, " 500 "));
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
    test_program_start(&program, arguments, FLAGS(NULL));
    assert_int_equal(test_program_wait(&program), 0);
    test_program_start(&program, again, FLAGS(NULL));
    assert_int_equal(test_program_wait(&program), 2);
    assert_non_null(strstr(program.text[TEST_STDERR], "it is a job of --serve: say HOST:PORT"));
    again[4] = "--serve";
    again[5] = "127.0.0.1:0";
    test_program_start(&program, again, FLAGS(NULL));
    test_program_wait_text(&program, TEST_STDOUT, "\n");
    assert_int_equal(sscanf(program.text[TEST_STDOUT], "serving at %255s", url), 1);
    free(complete("{\"prompt\":\"he goed\",\"max_tokens\":1}"));
    assert_int_equal(end(SIGTERM), 0);
}

static void what_does_not_go_together_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const wrong[][4] = {
        {"--serve", "0.0.0.0:0", "--quiet", "--serve-key-file FILE, or --serve-open"},
        {"--serve", "127.0.0.1", "--quiet", "must be HOST:PORT"},
        {"--serve", "127.0.0.1:0", "--prompts=-", "--serve or --prompts"},
        {"--serve", "127.0.0.1:0", "--prompt=a", "--prompt or --serve"},
        {"--prompt", "a", "--serve-open", "--serve-open goes with --serve"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const int code = inference_run(&program, "tp-cpu", "2",
                                       test_directory_path(&test_shared_directory, "never"),
                                       FLAGS(wrong[i][0], wrong[i][1], wrong[i][2]));
        if (code != 2 || strstr(program.text[TEST_STDERR], wrong[i][3]) == NULL) {
            fail_msg("%zu: %d: %s", i, code, program.text[TEST_STDERR]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completions_are_those_of_a_file),
        cmocka_unit_test(a_stream_has_the_same_text),
        cmocka_unit_test(a_text_ends_before_its_stop),
        cmocka_unit_test(a_stop_ends_the_work),
        cmocka_unit_test(many_clients_get_their_own_texts),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_client_that_goes_cancels_its_request),
        cmocka_unit_test(connections_of_clients_that_go_are_closed),
        cmocka_unit_test(more_than_can_wait_is_refused),
        cmocka_unit_test(a_drain_ends_what_runs),
        cmocka_unit_test(a_drain_has_a_deadline),
        cmocka_unit_test(a_reader_that_does_not_read_is_no_failure),
        cmocka_unit_test(a_killed_rank_is_an_error_of_all_that_is_open),
        cmocka_unit_test(a_key_is_asked_for),
        cmocka_unit_test(servers_draw_as_they_are_told),
        cmocka_unit_test(the_end_of_loading_is_no_failure),
        cmocka_unit_test(a_job_file_can_be_served),
        cmocka_unit_test(what_does_not_go_together_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, setup, test_shared_directory_remove);
}
