/* The progress line on a terminal: a pseudo-terminal is standard error. */
#include "job/screen.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "support.h"

enum { WAIT_MS = 20 * 1000 };

static int terminal_fd = -1;     /* the end of the terminal */
static int before[2] = {-1, -1}; /* the test's own stdout and stderr */

static void set_width(unsigned short columns)
{
    const struct winsize size = {.ws_row = 24, .ws_col = columns};
    assert_int_equal(ioctl(terminal_fd, TIOCSWINSZ, &size), 0);
}

/* Standard error is the terminal; standard output is `out`. */
static int open_terminal(int out)
{
    int inside = -1;
    assert_int_equal(setenv("TERM", "xterm", 1), 0);
    for (int i = 0; i < 2; i++) {
        before[i] = dup(STDOUT_FILENO + i);
        assert_true(before[i] >= 0);
    }
    assert_int_equal(openpty(&terminal_fd, &inside, NULL, NULL, NULL), 0);
    assert_true(dup2(inside, STDERR_FILENO) >= 0);
    assert_true(dup2(out, STDOUT_FILENO) >= 0);
    (void)close(out);
    return close(inside);
}

static int open_terminal_alone(void **state)
{
    (void)state;
    return open_terminal(open("/dev/null", O_WRONLY | O_CLOEXEC));
}

/* As with "| tee": whoever reads the pipe may write to the terminal. */
static int open_terminal_and_pipe(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    (void)close(fds[0]);
    return open_terminal(fds[1]);
}

static int close_terminal(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(dup2(before[i], STDOUT_FILENO + i) >= 0);
        (void)close(before[i]);
    }
    return close(terminal_fd);
}

/* The terminal gets this text and no more. The kernel may pass it on in several pieces. */
static void assert_seen(const char *expected)
{
    char text[2048] = "";
    size_t bytes = 0;
    struct pollfd waiting = {.fd = terminal_fd, .events = POLLIN};
    while (poll(&waiting, 1, bytes < strlen(expected) ? WAIT_MS : 0) == 1) {
        const ssize_t got = read(terminal_fd, text + bytes, sizeof text - 1 - bytes);
        assert_true(got > 0);
        bytes += (size_t)got;
        text[bytes] = '\0';
    }
    assert_string_equal(text, expected);
}

/* A line that the terminal has wrapped is erased completely: from its first column, where the
 * cursor is, to the end of the screen. */
static void a_narrower_terminal_keeps_one_progress_line(void **state)
{
    (void)state;
    launch_screen screen;
    launch_screen_init(&screen, false);
    assert_true(screen.terminal);
    set_width(60);
    launch_screen_progress(&screen, "step 10/100  loss 1.2345  12.3k tokens/s");
    assert_seen("\r\033[Jstep 10/100  loss 1.2345  12.3k tokens/s\r");
    set_width(20);
    launch_screen_progress(&screen, "step 11/100  loss 1.2345  12.3k tokens/s");
    assert_seen("\r\033[Jstep 11/100  loss 1\r"); /* the last column is free */
    launch_screen_write(&screen, STDERR_FILENO, "a line", 6);
    assert_seen("\r\033[Ja line\r\n");
    launch_screen_write(&screen, STDERR_FILENO, "another", 7);
    assert_seen("another\r\n"); /* nothing to erase */
}

/* Nothing is redrawn beside another writer: each progress line is a line. */
static void a_pipe_gets_plain_lines(void **state)
{
    (void)state;
    launch_screen screen;
    launch_screen_init(&screen, false);
    assert_false(screen.terminal);
    launch_screen_progress(&screen, "step 10/100");
    launch_screen_write(&screen, STDERR_FILENO, "a line", 6);
    assert_seen("step 10/100\r\na line\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_narrower_terminal_keeps_one_progress_line,
                                        open_terminal_alone, close_terminal),
        cmocka_unit_test_setup_teardown(a_pipe_gets_plain_lines, open_terminal_and_pipe,
                                        close_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
