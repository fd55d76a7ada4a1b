/* What waits for a reader of standard output and error: in order, whole, and bounded. */
#include "job/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "support.h"

enum { WAIT_MS = 20 * 1000, LINES = 100, LINE_BYTES = 32 * 1024, TEXT_BYTES = 16 * 1024 * 1024 };

static int before[2] = {-1, -1}; /* the test's own stdout and stderr */
static int readers[2];           /* of the pipes that are there instead */
static char text[TEXT_BYTES];

/* one: both descriptors are the same pipe. */
static void begin(bool one)
{
    base_error error;
    int pipes[2][2] = {{-1, -1}, {-1, -1}};
    for (int i = 0; i < 2; i++) {
        before[i] = fcntl(STDOUT_FILENO + i, F_DUPFD_CLOEXEC, 3);
        assert_true(before[i] >= 0);
        assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
        readers[i] = pipes[i][0];
    }
    assert_true(dup2(pipes[0][1], STDOUT_FILENO) >= 0);
    assert_true(dup2(pipes[one ? 0 : 1][1], STDERR_FILENO) >= 0);
    (void)close(pipes[0][1]);
    (void)close(pipes[1][1]);
    assert_int_equal(launch_writer_start(&error), BASE_OK);
}

/* Gives the test its own descriptors back, also after a failure. The pipes then have no writer but the
 * launch_writer's, which needs no reader to end. */
static int end(void **state)
{
    (void)state;
    for (int i = 0; i < 2 && before[i] >= 0; i++) {
        (void)close(readers[i]);
    }
    launch_writer_stop();
    for (int i = 0; i < 2 && before[i] >= 0; i++) {
        (void)dup2(before[i], STDOUT_FILENO + i);
        (void)close(before[i]);
        before[i] = -1;
    }
    return 0;
}

/* Reads until `expected` is what came last. */
static void read_until(int reader, const char *expected)
{
    size_t bytes = 0;
    const size_t wanted = strlen(expected);
    do {
        const ssize_t got = read(reader, text + bytes, sizeof text - 1 - bytes);
        assert_true(got > 0);
        bytes += (size_t)got;
        text[bytes] = '\0';
    } while (bytes < wanted || strcmp(text + bytes - wanted, expected) != 0);
}

static void put(int fd, launch_text_kind kind, const char *line)
{
    launch_writer_put(fd, kind, line, strlen(line));
}

/* Puts lines that say their number and are long. */
static void put_long_lines(int fd, launch_text_kind kind, int count)
{
    static char line[LINE_BYTES];
    for (int i = 0; i < count; i++) {
        const int digits = snprintf(line, sizeof line, "%d ", i);
        memset(line + digits, '.', sizeof line - 1 - (size_t)digits);
        line[sizeof line - 1] = '\n';
        launch_writer_put(fd, kind, line, sizeof line);
    }
}

static void one_file_keeps_the_order_of_both(void **state)
{
    (void)state;
    begin(true);
    put(STDOUT_FILENO, LAUNCH_TEXT_RESULT, "a\n");
    put(STDERR_FILENO, LAUNCH_TEXT_OWN, "b\n");
    launch_writer_result("%s\n", "c");
    base_log(BASE_LOG_INFO, "d");
    put(STDOUT_FILENO, LAUNCH_TEXT_RANK, "e\n");
    read_until(readers[0], "e\n");
    assert_string_equal(text, "a\nb\nc\nd\ne\n");
}

/* Nobody reads standard output. Nothing of it is lost, and standard error goes on. */
static void an_unread_stdout_holds_up_nothing(void **state)
{
    (void)state;
    int next = 0;
    char number[16];
    begin(false);
    assert_true(launch_writer_has_room(STDOUT_FILENO));
    put_long_lines(STDOUT_FILENO, LAUNCH_TEXT_RANK, LINES);
    assert_false(launch_writer_has_room(STDOUT_FILENO));
    assert_false(launch_writer_is_idle(STDOUT_FILENO));
    assert_false(launch_writer_flush(base_now_ns()));
    while (launch_writer_stuck_ns(STDOUT_FILENO, base_now_ns()) == 0) {
        (void)usleep(1000); /* the thread has not begun to write yet */
    }
    assert_true(launch_writer_has_room(STDERR_FILENO));
    put(STDERR_FILENO, LAUNCH_TEXT_OWN, "heard\n");
    read_until(readers[1], "heard\n");
    put(STDOUT_FILENO, LAUNCH_TEXT_RESULT, "the end\n");
    read_until(readers[0], "the end\n");
    for (const char *line = text; next < LINES; line = strchr(line, '\n') + 1) {
        (void)snprintf(number, sizeof number, "%d ", next++);
        assert_memory_equal(line, number, strlen(number));
    }
    assert_int_equal(strlen(text), (size_t)LINES * LINE_BYTES + strlen("the end\n"));
    assert_true(launch_writer_flush(base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS)));
    assert_int_equal(launch_writer_lost(), 0);
}

/* The launcher's own lines do not fill the memory: some are left out, and it says how many. */
static void too_many_own_lines_are_left_out(void **state)
{
    enum { MANY = 2 * LAUNCH_WRITER_OWN_BYTES / LINE_BYTES };
    (void)state;
    begin(false);
    put_long_lines(STDERR_FILENO, LAUNCH_TEXT_OWN, MANY);
    put(STDERR_FILENO, LAUNCH_TEXT_RANK, "a rank's\n"); /* is never left out */
    read_until(readers[1], "a rank's\n");
    const size_t shown = (strlen(text) - strlen("a rank's\n")) / LINE_BYTES;
    assert_true(shown * LINE_BYTES >= LAUNCH_WRITER_OWN_BYTES);
    assert_true(shown * LINE_BYTES <= LAUNCH_WRITER_OWN_BYTES + 4 * LINE_BYTES);
    char said[128];
    (void)snprintf(said, sizeof said,
                   "launcher: %zu lines of its own are left out here: nobody read its output\n"
                   "next\n",
                   MANY - shown);
    put(STDERR_FILENO, LAUNCH_TEXT_OWN, "next\n");
    read_until(readers[1], "next\n");
    assert_string_equal(text, said);
}

/* A reader that has gone loses results, but wanted no more of what ranks print. */
static void a_reader_that_has_gone(void **state)
{
    static const launch_text_kind kinds[] = {LAUNCH_TEXT_RANK, LAUNCH_TEXT_RESULT};
    static const int reasons[] = {0, EPIPE};
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(false);
        (void)close(readers[0]);
        readers[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        put(STDOUT_FILENO, kinds[i], "word\n");
        assert_true(launch_writer_flush(base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS)));
        assert_int_equal(launch_writer_lost(), reasons[i]);
        (void)end(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_file_keeps_the_order_of_both, end),
        cmocka_unit_test_teardown(an_unread_stdout_holds_up_nothing, end),
        cmocka_unit_test_teardown(too_many_own_lines_are_left_out, end),
        cmocka_unit_test_teardown(a_reader_that_has_gone, end),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
