/* base/log.h: no line is lost where standard error is a full pipe that somebody has made non-blocking. */
#include "base/log.h"

#include <ctype.h>
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

static char put_line[LINE_BYTES];

static void put(const char *line, size_t bytes)
{
    memcpy(put_line, line, bytes);
    put_line[bytes] = '\0';
}

/* The last test: the time stays on. */
static void a_line_begins_with_the_time(void **state)
{
    (void)state;
    const char *form = "nnnn-nn-nnTnn:nn:nnZ ";
    base_log_init("here: ");
    base_log_redirect(put);
    base_log(BASE_LOG_WARNING, "before");
    assert_string_equal(put_line, "here: warning: before\n");
    base_log_with_time();
    base_log(BASE_LOG_WARNING, "after");
    base_log_redirect(NULL);
    for (size_t i = 0; i < strlen(form); i++) {
        assert_true(form[i] == 'n' ? isdigit((unsigned char)put_line[i]) != 0
                                   : put_line[i] == form[i]);
    }
    assert_string_equal(put_line + strlen(form), "here: warning: after\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_pipe_loses_no_line),
        cmocka_unit_test(a_line_begins_with_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
