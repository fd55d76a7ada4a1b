/* base/child.h: programs that end, fail, hang, or are not there. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support.h"

/* Runs a line of shell. `said` gets its output. */
static base_status run(const char *line, int64_t timeout_ns, char said[256], int *wait_status,
                       base_error *error)
{
    const int fd = memfd_create("said", MFD_CLOEXEC);
    assert_true(fd >= 0);
    const base_child child = {.program = "sh",
                              .argv = (const char *const[]){"sh", "-c", line, NULL},
                              .stdin_fd = -1,
                              .stdout_fd = fd,
                              .stderr_fd = STDERR_FILENO,
                              .timeout_ns = timeout_ns};
    const base_status status = base_child_run(&child, wait_status, error);
    const ssize_t got = pread(fd, said, 255, 0);
    said[got > 0 ? got : 0] = '\0';
    assert_int_equal(close(fd), 0);
    return status;
}

static void a_program_says_something_and_ends(void **state)
{
    (void)state;
    base_error error;
    char said[256];
    int ended = 0;
    assert_ok(run("echo yes; read line || exit 7", BASE_NO_DEADLINE, said, &ended, &error), &error);
    assert_string_equal(said, "yes\n");
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 7);
}

static unsigned long long mask_of(const char *said, const char *name)
{
    const char *line = strstr(said, name);
    assert_non_null(line);
    return strtoull(line + strlen(name), NULL, 16);
}

/* What we ignore or block, it does not. */
static void signals_are_as_a_program_expects_them(void **state)
{
    (void)state;
    base_error error;
    char said[256];
    int ended = 0;
    sigset_t term;
    sigset_t before;
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, &before);
    void (*handler)(int) = signal(SIGPIPE, SIG_IGN);
    assert_ok(
        run("grep -E '^Sig(Ign|Blk)' /proc/self/status", BASE_NO_DEADLINE, said, &ended, &error),
        &error);
    (void)signal(SIGPIPE, handler);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(mask_of(said, "SigBlk:") >> (SIGTERM - 1) & 1, 0);
    assert_int_equal(mask_of(said, "SigIgn:") >> (SIGPIPE - 1) & 1, 0);
}

/* Whoever ignores SIGCHLD learns nothing of an end: that is no success. */
static void an_end_that_nobody_is_told_of_is_an_error(void **state)
{
    (void)state;
    base_error error;
    char said[256];
    int ended = 0;
    void (*handler)(int) = signal(SIGCHLD, SIG_IGN);
    const base_status status = run("exit 7", BASE_NO_DEADLINE, said, &ended, &error);
    (void)signal(SIGCHLD, handler);
    assert_status(status, BASE_ERR_IO);
    /* it may be gone before it can be watched */
    assert_true(strstr(error.message, "cannot wait for sh") != NULL ||
                strstr(error.message, "cannot watch sh") != NULL);
}

static void a_program_that_hangs_is_ended(void **state)
{
    (void)state;
    base_error error;
    char said[256];
    int ended = 0;
    assert_status(run("exec sleep 100", 20 * BASE_NS_PER_MS, said, &ended, &error),
                  BASE_ERR_TIMEOUT);
    assert_non_null(strstr(error.message, "sh took longer than"));
    assert_true(WIFSIGNALED(ended));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left */
}

/* Both: what is left of a group when its leader ends, and a leader that must stop. */
static void a_group_is_ended_as_a_whole(void **state)
{
    (void)state;
    static const char *const lines[] = {"sleep 1000 & echo $!", "sleep 1000 & echo $!; sleep 1000"};
    for (int i = 0; i < 2; i++) {
        base_error error;
        char said[64] = "";
        int ended = 0;
        int out[2];
        int stop[2];
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, stop), 0);
        const base_child_group group = {.stop_fd = stop[0], .grace_ns = 20 * BASE_NS_PER_MS};
        const base_child child = {.program = "sh",
                                  .argv = (const char *const[]){"sh", "-c", lines[i], NULL},
                                  .stdin_fd = -1,
                                  .stdout_fd = out[1],
                                  .stderr_fd = STDERR_FILENO,
                                  .timeout_ns = 100 * BASE_NS_PER_S,
                                  .group = &group};
        if (i == 1) {
            (void)close(stop[1]);
        }
        assert_status(base_child_run(&child, &ended, &error), i == 0 ? BASE_OK : BASE_ERR_ABORTED);
        (void)close(out[1]);
        const ssize_t got = read(out[0], said, sizeof said - 1);
        if (got > 0) { /* it may have been ended before it said so */
            struct pollfd left = {.fd = pidfd_open((pid_t)strtol(said, NULL, 10), 0),
                                  .events = POLLIN};
            assert_true(left.fd < 0 || poll(&left, 1, 10 * 1000) == 1);
            (void)close(left.fd);
        }
        assert_true(got > 0 || i == 1);
        (void)close(out[0]);
        (void)close(stop[0]);
        if (i == 0) {
            (void)close(stop[1]);
        }
    }
}

/* Of a subreaper: also what has made a session of its own, and lost its parent. */
static void all_descendants_are_ended(void **state)
{
    (void)state;
    base_error error;
    char said[256];
    int ended = 0;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_ok(run("setsid sh -c 'sleep 1000 & sleep 1000' >/dev/null & echo $!", BASE_NO_DEADLINE,
                  said, &ended, &error),
              &error);
    struct pollfd left = {.fd = pidfd_open((pid_t)strtol(said, NULL, 10), 0), .events = POLLIN};
    assert_true(left.fd >= 0);
    assert_int_equal(poll(&left, 1, 0), 0); /* it goes on */
    assert_int_equal(base_child_kill_all(10 * BASE_NS_PER_S), BASE_OK);
    assert_int_equal(poll(&left, 1, 0), 1);
    (void)close(left.fd);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

/* A child that does not go away when it is killed: its tracer, this process, does not reap it. */
static void what_cannot_be_ended_does_not_block(void **state)
{
    (void)state;
    int pids[2];
    int go[2];
    pid_t child = -1;
    int ended = 0;
    assert_int_equal(pipe2(pids, O_CLOEXEC), 0);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    const pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        char byte = 0;
        const pid_t made = fork();
        if (made == 0) {
            for (;;) {
                (void)pause();
            }
        }
        const bool told = write(pids[1], &made, sizeof made) == (ssize_t)sizeof made &&
                          read(go[0], &byte, 1) == 1;
        const base_status status = base_child_kill_all(20 * BASE_NS_PER_MS);
        _exit(told && status == BASE_ERR_TIMEOUT ? 0 : 1);
    }
    assert_int_equal(read(pids[0], &child, sizeof child), sizeof child);
    assert_int_equal(ptrace(PTRACE_SEIZE, child, NULL, NULL), 0);
    assert_int_equal(write(go[1], "", 1), 1);
    assert_int_equal(waitpid(parent, &ended, 0), parent);
    assert_int_equal(ended, 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    for (int i = 0; i < 2; i++) {
        (void)close(pids[i]);
        (void)close(go[i]);
    }
}

/* The parent has no descriptor left to watch the program with. That is no lack of time. */
static void a_program_that_cannot_be_watched_is_ended(void **state)
{
    (void)state;
    base_error error;
    char said[256];
    int ended = 0;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int unused = dup(STDERR_FILENO);
    assert_true(unused >= 0);
    assert_int_equal(close(unused), 0); /* which the file of what is said takes */
    const struct rlimit few = {.rlim_cur = (rlim_t)unused + 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const base_status status = run("exec sleep 100", BASE_NO_DEADLINE, said, &ended, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_status(status, BASE_ERR_IO);
    assert_non_null(strstr(error.message, "cannot watch sh: Too many open files"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left */
}

static void a_missing_program_is_named(void **state)
{
    (void)state;
    base_error error;
    int ended = 0;
    const base_child child = {.program = "/nowhere/program",
                              .argv = (const char *const[]){"program", NULL},
                              .stdin_fd = -1,
                              .stdout_fd = -1,
                              .stderr_fd = -1,
                              .timeout_ns = BASE_NO_DEADLINE};
    assert_status(base_child_run(&child, &ended, &error), BASE_ERR_NOTFOUND);
    assert_non_null(strstr(error.message, "/nowhere/program"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_says_something_and_ends),
        cmocka_unit_test(signals_are_as_a_program_expects_them),
        cmocka_unit_test(an_end_that_nobody_is_told_of_is_an_error),
        cmocka_unit_test(a_program_that_hangs_is_ended),
        cmocka_unit_test(a_group_is_ended_as_a_whole),
        cmocka_unit_test(all_descendants_are_ended),
        cmocka_unit_test(what_cannot_be_ended_does_not_block),
        cmocka_unit_test(a_program_that_cannot_be_watched_is_ended),
        cmocka_unit_test(a_missing_program_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
