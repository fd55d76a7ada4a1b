/* Starts servers, and asks them. Used by test_serve.c and test_serve_ends.c. */
#include "serving.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

test_program serving_program; /* its buffers are big */
training_run serving_wide;
char serving_url[256];
char serving_reply[SERVING_REPLY_BYTES];

int serving_setup(void **state)
{
    (void)inference_make_model(state);
    training_expect(&serving_wide, &test_shared_directory, "wide", 0,
                    FLAGS("--ranks", "1", "--heads", "4", "--width", "64", "--context", "16384",
                          "--batch", "1", "--steps", "1"));
    return 0;
}

void serving_start(const training_run *model, const char *ranks, const char *const *flags)
{
    const char *arguments[TEST_PROGRAM_ARGS_MAX] = {
        LAUNCHER_PATH, "--mode",  "tp-cpu",
        "--ranks",     ranks,     "--checkpoint",
        model->out,    "--out",   test_shared_path("served"),
        "--no-bind",   "--serve", "127.0.0.1:0"};
    size_t count = 12;
    for (size_t i = 0; flags[i] != NULL; i++) {
        arguments[count++] = flags[i];
    }
    arguments[count] = NULL;
    test_program_start(&serving_program, arguments, FLAGS(NULL));
    test_program_wait_text(&serving_program, TEST_STDOUT, "\n");
    assert_int_equal(sscanf(serving_program.text[TEST_STDOUT], "serving at %255s", serving_url), 1);
}

int serving_end(int signal_number)
{
    if (signal_number != 0) {
        assert_int_equal(kill(serving_program.pid, signal_number), 0);
    }
    const int code = test_program_wait(&serving_program);
    test_program_assert_no_children();
    return code;
}

int serving_ask(const char *path, const char *arguments)
{
    char command[SERVING_COMMAND_BYTES];
    (void)snprintf(command, sizeof command, "curl -s -N -m %d -w '\\n%%{http_code}' '%s%s' %s",
                   SERVING_WAIT_S, serving_url, path, arguments);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    const size_t bytes = fread(serving_reply, 1, sizeof serving_reply - 1, output);
    (void)pclose(output);
    serving_reply[bytes] = '\0';
    char *last = strrchr(serving_reply, '\n');
    assert_non_null(last);
    *last = '\0';
    return (int)strtol(last + 1, NULL, 10);
}

char *serving_complete(const char *body)
{
    char arguments[SERVING_COMMAND_BYTES];
    (void)snprintf(arguments, sizeof arguments, "-d '%s'", body);
    const int status = serving_ask("/v1/completions", arguments);
    if (status != 200) {
        fail_msg("%d: %s", status, serving_reply);
    }
    json_t *object = json_loads(serving_reply, JSON_REJECT_DUPLICATES, NULL);
    const json_t *choice = json_array_get(json_object_get(object, "choices"), 0);
    char *text = strdup(json_string_value(json_object_get(choice, "text")));
    json_decref(object);
    return text;
}

/* `small`: its segments and buffers are, so that a server soon cannot send any more to a client that
 * does not read. */
int serving_connect(bool small)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)strtol(strrchr(serving_url, ':') + 1, NULL, 10));
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

int serving_send_with(const char *body, bool small)
{
    char text[SERVING_COMMAND_BYTES];
    const int fd = serving_connect(small);
    const int bytes =
        snprintf(text, sizeof text,
                 "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 strlen(body), body);
    assert_int_equal(write(fd, text, (size_t)bytes), bytes);
    return fd;
}

int serving_send(const char *body)
{
    return serving_send_with(body, false);
}

void serving_read_all(int fd)
{
    size_t used = 0;
    ssize_t got = 0;
    do {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&one, 1, SERVING_WAIT_S * 1000), 1);
        got = read(fd, serving_reply + used, sizeof serving_reply - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    serving_reply[used] = '\0';
    (void)close(fd);
}

void serving_wait_metric(const char *line)
{
    static const char request[] =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    const int64_t deadline_ns = base_deadline_after_ns(SERVING_WAIT_S * BASE_NS_PER_S);
    for (;;) {
        const int fd = serving_connect(false);
        assert_int_equal(write(fd, request, sizeof request - 1), sizeof request - 1);
        serving_read_all(fd);
        assert_has(serving_reply, "HTTP/1.1 200");
        if (strstr(serving_reply, line) != NULL) {
            return;
        }
        assert_true(base_now_ns() < deadline_ns);
        (void)poll(NULL, 0, 10); /* the server needs the processor, too */
    }
}

void serving_escape(const char *text, char *escaped, size_t capacity)
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
