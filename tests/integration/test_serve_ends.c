/* --serve: clients that go, stay silent or have no key, and servers that end. */
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "proto/limits.h"
#include "serving.h"

#define HEALTH "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define HALF                                                                                       \
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"prompt\":"

static int open_files(void)
{
    char path[64];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)serving_program.pid);
    DIR *files = opendir(path);
    assert_non_null(files);
    while (readdir(files) != NULL) {
        count++;
    }
    (void)closedir(files);
    return count;
}

/* A client that goes frees its sequence: what waited for it runs. */
static void a_client_that_goes_cancels_its_request(void **state)
{
    (void)state;
    serving_start(&serving_wide, "2", FLAGS("--max-num-seqs", "1"));
    const int whole = serving_send(SERVING_LONG);
    serving_wait_metric("requests_running 1\n");
    const int waiting = serving_send(SERVING_LONG);
    (void)close(waiting);
    serving_wait_metric("{result=\"cancelled\"} 1\n");
    (void)close(whole);
    serving_wait_metric("{result=\"cancelled\"} 2\n");
    free(serving_complete("{\"prompt\":\"he goed\",\"max_tokens\":3}"));
    serving_wait_metric("requests_running 0\n");
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* Half a request, and streams that are left, while an older connection has nothing to say: none of them is
 * kept until the idle time is over. */
static void connections_of_clients_that_go_are_closed(void **state)
{
    (void)state;
    enum { GOING = 24, SOON_S = 20 };
    serving_start(&serving_wide, "1", FLAGS(NULL));
    free(serving_complete(
        "{\"prompt\":\"he goed\",\"max_tokens\":1}")); /* now all that stays open is */
    const int idle = serving_connect(false);
    assert_true(write(idle, HEALTH, sizeof HEALTH - 1) > 0);
    assert_true(read(idle, serving_reply, sizeof serving_reply) > 0);
    const int before = open_files();
    for (int i = 0; i < GOING; i++) {
        int fd = -1;
        if (i % 2 == 0) {
            fd = serving_connect(false);
            assert_true(write(fd, HALF, sizeof HALF - 1) > 0);
        } else {
            fd = serving_send("{\"prompt\":\"he goed\",\"max_tokens\":9000,\"ignore_eos\":true,"
                              "\"stream\":true}");
            assert_true(read(fd, serving_reply, sizeof serving_reply) > 0);
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
    assert_int_equal(serving_end(SIGTERM), 0);
}

/* As timeout sends them, one to the process and one to its group. */
static void two_sigterms_at_once_are_one(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        serving_start(&serving_wide, "1", FLAGS(NULL));
        const int fd = serving_send("{\"prompt\":\"he goed\",\"max_tokens\":2000,"
                                    "\"ignore_eos\":true,\"stream\":true}");
        const ssize_t got = read(fd, serving_reply, sizeof serving_reply - 1);
        assert_true(got > 0);
        serving_reply[got] = '\0';
        const bool whole = strstr(serving_reply, "[DONE]") != NULL;
        assert_int_equal(kill(serving_program.pid, SIGTERM), 0);
        (void)sched_yield();
        assert_int_equal(serving_end(SIGTERM), 0);
        serving_read_all(fd);
        assert_true(whole || strstr(serving_reply, "[DONE]") != NULL);
    }
}

static void more_than_can_wait_is_refused(void **state)
{
    (void)state;
    enum { ALL = 1 + PROTO_REQUESTS_WAITING_MAX };
    char line[64];
    int fds[ALL];
    serving_start(&serving_wide, "2", FLAGS("--max-num-seqs", "1"));
    for (int i = 0; i < ALL; i++) {
        fds[i] = serving_send(SERVING_LONG);
    }
    (void)snprintf(line, sizeof line, "requests_waiting %d\n", ALL - 1);
    serving_wait_metric(line);
    assert_int_equal(serving_ask("/v1/completions", "-d '{\"prompt\":\"a\"}'"), 429);
    assert_int_equal(kill(serving_program.pid, SIGTERM), 0); /* the second one ends it at once */
    test_program_wait_text(&serving_program, TEST_STDERR, "no more requests are taken");
    assert_int_equal(serving_end(SIGINT), 128 + SIGINT);
    for (int i = 0; i < ALL; i++) {
        serving_read_all(fds[i]);
        assert_has(serving_reply, "HTTP/1.1 50");
    }
}

static void a_drain_ends_what_runs(void **state)
{
    (void)state;
    serving_start(&serving_wide, "2", FLAGS(NULL));
    const int fd = serving_send("{\"prompt\":\"he goed\",\"max_tokens\":4000,\"ignore_eos\":true,"
                                "\"stream\":true}");
    serving_wait_metric("requests_running 1\n");
    assert_int_equal(serving_end(SIGTERM), 0);
    serving_read_all(fd);
    assert_has(serving_reply, "\"finish_reason\":\"length\"");
    assert_has(serving_reply, "data: [DONE]");
}

/* What is answered no longer runs, although nobody reads it: it counts as such, and a drain that has
 * waited for its reader ends well. Tokens that come together are one event; with their log-probabilities they
 * fill the sockets however few events they are. */
static void a_reader_that_does_not_read_is_no_failure(void **state)
{
    (void)state;
    const char *line = "{result=\"length\"} 1\n";
    static training_run thin; /* its tokens cost little; half of these fill the sockets */
    training_expect(&thin, &test_shared_directory, "thin", 0,
                    FLAGS("--ranks", "1", "--width", "8", "--heads", "2", "--layers", "1",
                          "--context", "16384", "--batch", "1", "--steps", "1"));
    serving_start(&thin, "2", FLAGS("--serve-drain", "1"));
    const int fd = serving_send_with("{\"prompt\":\"he goed\",\"max_tokens\":4000,"
                                     "\"ignore_eos\":true,\"temperature\":1,\"stream\":true,"
                                     "\"logprobs\":5}",
                                     true);
    serving_wait_metric(line);
    serving_wait_metric("requests_running 0\n");
    serving_wait_metric("requests_waiting 0\n");
    assert_int_equal(serving_end(SIGTERM), 0);
    assert_has(serving_program.text[TEST_STDERR], "clients that have not read their answers");
    (void)close(fd);
}

/* The pid of a child of the server: one of its ranks. */
static pid_t rank_pid(void)
{
    char path[64];
    char pids[256];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)serving_program.pid,
                   (int)serving_program.pid);
    FILE *children = fopen(path, "r");
    assert_non_null(children);
    assert_non_null(fgets(pids, sizeof pids, children));
    (void)fclose(children);
    const pid_t pid = (pid_t)strtol(pids, NULL, 10);
    assert_true(pid > 1);
    return pid;
}

/* The rank is stopped until the time is over, so no machine is quick enough to answer in it. */
static void a_drain_has_a_deadline(void **state)
{
    (void)state;
    serving_start(&serving_wide, "2", FLAGS("--serve-drain", "1"));
    const int fd = serving_send(SERVING_LONG);
    serving_wait_metric("requests_running 1\n");
    const pid_t rank = rank_pid();
    assert_int_equal(kill(rank, SIGSTOP), 0);
    assert_int_equal(kill(serving_program.pid, SIGTERM), 0);
    test_program_wait_text(&serving_program, TEST_STDERR, "--serve-drain has passed");
    assert_int_equal(kill(rank, SIGCONT), 0);
    assert_int_equal(serving_end(0), 128 + SIGTERM);
    serving_read_all(fd);
    assert_has(serving_reply, "HTTP/1.1 503");
    assert_has(serving_reply, "the server ends");
}

/* Neither while it answers, nor while it has nothing to do. */
static void a_stopped_rank_does_not_outlive_the_drain(void **state)
{
    (void)state;
    for (int asks = 0; asks < 2; asks++) {
        serving_start(&serving_wide, "2", FLAGS("--serve-drain", "1"));
        const int fd = serving_send(asks != 0 ? SERVING_LONG : "{\"prompt\":\"he goed\"}");
        if (asks != 0) {
            serving_wait_metric("requests_running 1\n");
        } else {
            serving_read_all(fd);
        }
        assert_int_equal(kill(rank_pid(), SIGSTOP), 0);
        assert_int_equal(serving_end(SIGTERM), 128 + SIGTERM);
        assert_has(serving_program.text[TEST_STDERR],
                   "ranks have not ended 10 s after --serve-drain, and are killed (rank ");
        assert_has(serving_program.text[TEST_STDERR], "is stopped: SIGSTOP or the like)");
        test_program_wait_no_children();
        if (asks != 0) {
            serving_read_all(fd);
            assert_has(serving_reply, "HTTP/1.1 50");
        }
    }
}

static void a_killed_rank_is_an_error_of_all_that_is_open(void **state)
{
    (void)state;
    serving_start(&serving_wide, "2", FLAGS(NULL));
    const int fd = serving_send(SERVING_LONG);
    serving_wait_metric("requests_running 1\n");
    assert_int_equal(kill(rank_pid(), SIGKILL), 0);
    assert_int_equal(serving_end(0), 128 + SIGKILL);
    serving_read_all(fd);
    assert_has(serving_reply, "HTTP/1.1 500");
    assert_has(serving_reply, "rank ");
}

static void a_key_is_asked_for(void **state)
{
    (void)state;
    char path[BASE_PATH_BYTES];
    base_error error;
    static const char key[] = "a-key-of-sixteen-or-more\n";
    (void)snprintf(path, sizeof path, "%s", test_shared_path("key"));
    assert_int_equal(base_file_write(path, key, sizeof key - 1, &error), BASE_OK);
    serving_start(&inference_model, "1", FLAGS("--serve-key-file", path));
    assert_int_equal(serving_ask("/v1/models", ""), 401);
    assert_int_equal(
        serving_ask("/v1/models", "-H 'Authorization: Bearer a-key-of-sixteen-or-mor'"), 401);
    assert_int_equal(
        serving_ask("/v1/models", "-H 'Authorization: Bearer a-key-of-sixteen-or-more'"), 200);
    assert_int_equal(
        serving_ask("/v1/models", "-H 'Authorization: bearer a-key-of-sixteen-or-more'"), 200);
    assert_int_equal(
        serving_ask("/v1/models", "-H 'Authorization: Bearer  a-key-of-sixteen-or-more '"), 200);
    assert_int_not_equal(serving_ask("/health", ""), 401);
    assert_int_equal(serving_ask("/", ""), 200); /* the page asks for the key itself */
    test_program_wait_text(&serving_program, TEST_STDERR, "weights");
    assert_int_equal(serving_end(SIGTERM), 0);
    static const char spaced[] = "a-key-of-sixteen-or-more \n"; /* no header can carry it */
    assert_int_equal(base_file_write(path, spaced, sizeof spaced - 1, &error), BASE_OK);
    assert_int_equal(inference_run(&serving_program, "tp-cpu", "1", "spaced",
                                   FLAGS("--serve", "127.0.0.1:0", "--serve-key-file", path)),
                     1);
    assert_has(serving_program.text[TEST_STDERR], "without spaces");
    assert_int_equal(chmod(path, 0622), 0);
    assert_int_equal(inference_run(&serving_program, "tp-cpu", "1", "written",
                                   FLAGS("--serve", "127.0.0.1:0", "--serve-key-file", path)),
                     1);
    assert_has(serving_program.text[TEST_STDERR], "may be written by others (mode 0622)");
}

/* A server that ends while it loads says so to those who wait. */
static void the_end_of_loading_is_no_failure(void **state)
{
    (void)state;
    serving_start(&inference_model, "1", FLAGS(NULL));
    const int fd = serving_send("{\"prompt\":\"he\"}");
    const int code = serving_end(SIGTERM);
    assert_true(code == 128 + SIGTERM || code == 0); /* it may be loaded by now */
    serving_read_all(fd);
    assert_null(strstr(serving_reply, " 500 "));
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
        {"--serve", "127.0.0.1:0", "--serve-origin=http://a.example/", "must be *, or an origin"},
        {"--serve", "127.0.0.1:0", "--serve-origin=a.example", "must be *, or an origin"},
        {"--serve", "127.0.0.1:0", "--serve-origin=http://A.example", "must be *, or an origin"},
        {"--serve", "127.0.0.1:0", "--serve-origin=a\r\nb: c://d", "must be *, or an origin"},
        {"--prompt", "a", "--served-model-name=a", "--served-model-name goes with --serve"},
        {"--serve", "127.0.0.1:0", "--served-model-name=", "--served-model-name"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const int code = inference_run(&serving_program, "tp-cpu", "2", "never",
                                       FLAGS(wrong[i][0], wrong[i][1], wrong[i][2]));
        if (code != 2 || strstr(serving_program.text[TEST_STDERR], wrong[i][3]) == NULL) {
            fail_msg("%zu: %d: %s", i, code, serving_program.text[TEST_STDERR]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_goes_cancels_its_request),
        cmocka_unit_test(connections_of_clients_that_go_are_closed),
        cmocka_unit_test(two_sigterms_at_once_are_one),
        cmocka_unit_test(more_than_can_wait_is_refused),
        cmocka_unit_test(a_drain_ends_what_runs),
        cmocka_unit_test(a_drain_has_a_deadline),
        cmocka_unit_test(a_stopped_rank_does_not_outlive_the_drain),
        cmocka_unit_test(a_reader_that_does_not_read_is_no_failure),
        cmocka_unit_test(a_killed_rank_is_an_error_of_all_that_is_open),
        cmocka_unit_test(a_key_is_asked_for),
        cmocka_unit_test(the_end_of_loading_is_no_failure),
        cmocka_unit_test(what_does_not_go_together_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, serving_setup, test_shared_directory_remove);
}
