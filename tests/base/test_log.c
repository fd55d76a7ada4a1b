/* base/log.h: no line is lost where standard error is a full pipe that somebody has made non-blocking. */
#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "support.h"

enum { LINES = 200, LINE_BYTES = 1000, PIPE_BYTES = 4096 };

/* Begins to read only once the pipe has no room for a line. Returns the number of lines. */
static void *read_late(void *argument)
{
    const int fd = *(const int *)argument;
    static char bytes[PIPE_BYTES];
    static int lines;
    int waiting = 0;
    while (waiting + LINE_BYTES < PIPE_BYTES) {
        (void)ioctl(fd, FIONREAD, &waiting);
    }
    for (ssize_t got = 0; (got = read(fd, bytes, sizeof bytes)) > 0;) {
        for (ssize_t i = 0; i < got; i++) {
            lines += bytes[i] == '\n';
        }
    }
    return &lines;
}

static void a_full_pipe_loses_no_line(void **state)
{
    (void)state;
    int fds[2];
    pthread_t reader;
    void *lines = NULL;
    static char text[LINE_BYTES];
    memset(text, 'x', sizeof text - 1);
    const int before = dup(STDERR_FILENO);
    assert_true(before >= 0);
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES), PIPE_BYTES);
    assert_int_equal(fcntl(fds[0], F_SETFL, 0), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_late, &fds[0]), 0);
    assert_int_equal(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    (void)close(fds[1]);
    for (int i = 0; i < LINES; i++) {
        base_log(BASE_LOG_INFO, "%s", text);
    }
    (void)dup2(before, STDERR_FILENO); /* the pipe's last writer */
    (void)close(before);
    assert_int_equal(pthread_join(reader, &lines), 0);
    (void)close(fds[0]);
    assert_int_equal(*(const int *)lines, LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_pipe_loses_no_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
