/* Starts a program, waits for its output, signals it, and finds what it leaves behind. Used by
 * tests of whole programs. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { WAIT_S = 120 };

/* fds: to become stdout, stderr and, unless it is -1, stdin. */
static void run_child(const char *const *arguments, const char *const *variables, const int *fds)
{
    sigset_t none;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that is killed leaves nothing either */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGINT, SIG_DFL); /* the tests may run behind nohup or "&" */
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGHUP, SIG_DFL);
    (void)signal(SIGTSTP, SIG_DFL);
    (void)dup2(fds[0], STDOUT_FILENO);
    (void)dup2(fds[1], STDERR_FILENO);
    if (fds[2] >= 0) {
        (void)dup2(fds[2], STDIN_FILENO);
    }
    for (int i = 0; variables != NULL && variables[i] != NULL; i++) {
        char *copy = strdup(variables[i]);
        if (copy == NULL || putenv(copy) != 0) {
            _exit(126);
        }
    }
    (void)execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(126);
}

static void start(test_program *program, const char *const *arguments, const char *const *variables,
                  int input)
{
    int out[2];
    int err[2];
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    const int fds[3] = {out[1], err[1], input};
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run_child(arguments, variables, fds);
    }
    (void)setpgid(pid, pid);
    (void)close(out[1]);
    (void)close(err[1]);
    program->pid = pid;
    program->unread = false;
    program->fds[TEST_STDOUT] = out[0];
    program->fds[TEST_STDERR] = err[0];
    for (int i = 0; i < 2; i++) {
        program->text[i][0] = '\0';
        program->text_bytes[i] = 0;
    }
}

void test_program_start(test_program *program, const char *const *arguments,
                        const char *const *variables)
{
    start(program, arguments, variables, -1);
}

int test_program_start_fed(test_program *program, const char *const *arguments,
                           const char *const *variables)
{
    int in[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    (void)signal(SIGPIPE, SIG_IGN); /* the program may end before its input does */
    start(program, arguments, variables, in[0]);
    (void)close(in[0]);
    return in[1];
}

/* Waits for more output and takes it; false when both streams have ended. */
static bool read_more(test_program *program, int64_t deadline_ns)
{
    struct pollfd polls[2] = {{.fd = program->unread ? -1 : program->fds[0], .events = POLLIN},
                              {.fd = program->fds[1], .events = POLLIN}};
    if (program->fds[0] < 0 && program->fds[1] < 0) {
        return false;
    }
    if (poll(polls, 2, base_deadline_poll_ms(deadline_ns, WAIT_S * 1000)) == 0) {
        (void)kill(program->pid, SIGKILL);
        fail_msg("nothing happened for %d s; stdout: %s\nstderr: %s", WAIT_S, program->text[0],
                 program->text[1]);
    }
    for (int i = 0; i < 2; i++) {
        if (polls[i].revents == 0) {
            continue;
        }
        char *at = program->text[i] + program->text_bytes[i];
        const size_t room = sizeof program->text[i] - 1 - program->text_bytes[i];
        char drop[4096];
        const ssize_t got =
            room > 0 ? read(program->fds[i], at, room) : read(program->fds[i], drop, sizeof drop);
        if (got <= 0) {
            (void)close(program->fds[i]);
            program->fds[i] = -1;
        } else if (room > 0) {
            program->text_bytes[i] += (size_t)got;
            program->text[i][program->text_bytes[i]] = '\0';
        }
    }
    return true;
}

void test_program_wait_text(test_program *program, int stream, const char *text)
{
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_S * BASE_NS_PER_S);
    while (strstr(program->text[stream], text) == NULL) {
        if (!read_more(program, deadline_ns)) {
            fail_msg("ended without saying '%s'; stdout: %s\nstderr: %s", text, program->text[0],
                     program->text[1]);
        }
    }
}

int test_program_wait(test_program *program)
{
    int status = 0;
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_S * BASE_NS_PER_S);
    while (read_more(program, deadline_ns)) {
    }
    assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void test_program_wait_no_children(void)
{
    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child, NULL);
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_S * BASE_NS_PER_S);
    int status = 0;
    pid_t left = 0;
    while ((left = waitpid(-1, &status, WNOHANG)) != -1) {
        if (left == 0) { /* still running: its end is a SIGCHLD */
            const struct timespec second = {.tv_sec = 1};
            (void)sigtimedwait(&child, NULL, &second);
        }
        assert_true(base_now_ns() < deadline_ns);
    }
    assert_int_equal(errno, ECHILD);
}

void test_program_assert_no_children(void)
{
#if defined(__SANITIZE_ADDRESS__)
    /* The leak checker inspects a program that ends with a process of its own, which may outlive
     * it. */
    test_program_wait_no_children();
#else
    int status = 0;
    const pid_t left = waitpid(-1, &status, WNOHANG);
    if (left != -1 || errno != ECHILD) {
        fail_msg("a process is left behind (waitpid gave %d)", left);
    }
#endif
}

long test_program_number_after(const test_program *program, int stream, const char *before)
{
    char *end = NULL;
    const char *at = strstr(program->text[stream], before);
    if (at == NULL) {
        fail_msg("no '%s' in: %s", before, program->text[stream]);
    }
    at += strlen(before);
    const long number = strtol(at, &end, 10);
    assert_ptr_not_equal(end, at);
    return number;
}
