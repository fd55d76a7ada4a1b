/* engine/parent.h: a process whose parent is killed gets SIGTERM. */
#include "engine/parent.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { DEADLINE_MS = 10000, LIFE_S = 30 /* if the test fails */ };

/* Says when it watches, and then waits to be ended. */
static _Noreturn void be_launcher(int said_fd)
{
    (void)alarm(LIFE_S);
    (void)signal(SIGTERM, SIG_DFL);
    launch_parent_watch();
    (void)!write(said_fd, "x", 1);
    for (;;) {
        (void)pause();
    }
}

static _Noreturn void be_engine(int said_fd)
{
    (void)alarm(LIFE_S);
    if (fork() == 0) {
        be_launcher(said_fd);
    }
    for (;;) {
        (void)pause();
    }
}

static void a_killed_parent_ends_its_launcher(void **state)
{
    (void)state;
    char said = 0;
    int fds[2];
    int how = 0;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* the launcher becomes our child */
    assert_int_equal(pipe(fds), 0);
    const pid_t engine = fork();
    if (engine == 0) {
        be_engine(fds[1]);
    }
    (void)close(fds[1]);
    struct pollfd one = {.fd = fds[0], .events = POLLIN};
    assert_int_equal(poll(&one, 1, DEADLINE_MS), 1);
    assert_int_equal(read(fds[0], &said, 1), 1);
    assert_int_equal(poll(&one, 1, 0), 0); /* it lives while its parent does */
    assert_int_equal(kill(engine, SIGKILL), 0);
    assert_int_equal(waitpid(engine, &how, 0), engine);
    assert_int_equal(poll(&one, 1, DEADLINE_MS), 1);
    assert_int_equal(read(fds[0], &said, 1), 0); /* it has ended */
    const pid_t launcher = waitpid(-1, &how, 0);
    assert_true(launcher > 0 && WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM);
    (void)close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_parent_ends_its_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
