/* Starts COMMAND, passes signals on to it, and ends it at the deadline. Called by rent.c. */
#include "command.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "clock.h"

enum { LOOK_MS = 500 };

/* Of SIGINT, SIGTERM and SIGHUP, those that were not ignored from the start (nohup). */
static sigset_t heard;

void rent_signals_block(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    (void)sigemptyset(&heard);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            (void)sigaddset(&heard, numbers[i]);
        }
    }
    sigset_t set = heard;
    (void)sigaddset(&set, SIGCHLD);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* a closed terminal must not end a rent */
}

static int wait_for(const sigset_t *set, int milliseconds, siginfo_t *info)
{
    const struct timespec limit = {.tv_sec = milliseconds / 1000,
                                   .tv_nsec = milliseconds % 1000 * BASE_NS_PER_MS};
    const int number = sigtimedwait(set, info, &limit);
    return number > 0 ? number : 0;
}

int rent_signals_wait(int milliseconds)
{
    return wait_for(&heard, milliseconds, NULL);
}

/* Returns 0 or an errno. */
static int start(const rent_command *command, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t changed; /* by this program: ignored */
    (void)sigemptyset(&none);
    (void)sigemptyset(&changed);
    (void)sigaddset(&changed, SIGPIPE);
    (void)sigaddset(&changed, SIGXFSZ);
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0) {
        return failed;
    }
    failed = posix_spawnattr_init(&attributes);
    if (failed == 0) {
        failed =
            posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        failed = failed ? failed : posix_spawnattr_setsigmask(&attributes, &none);
        failed = failed ? failed : posix_spawnattr_setsigdefault(&attributes, &changed);
        failed =
            failed ? failed
                   : posix_spawn_file_actions_adddup2(&actions, command->stdout_fd, STDOUT_FILENO);
        failed = failed ? failed
                        : posix_spawnp(pid, command->argv[0], &actions, &attributes, command->argv,
                                       environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Takes one signal, or the deadline. A SIGINT of the terminal (si_code > 0) has reached the command, too. */
static void wait_once(const rent_command *command, pid_t pid, rent_command_end *end)
{
    sigset_t set = heard;
    siginfo_t info = {0};
    (void)sigaddset(&set, SIGCHLD);
    const int number = wait_for(&set, LOOK_MS, &info);
    if (number != 0 && number != SIGCHLD && (number != SIGINT || info.si_code <= 0)) {
        (void)kill(pid, number);
    }
    const int64_t now_s = rent_clock_s();
    if (now_s >= command->deadline_s && !end->too_late) {
        (void)kill(pid, SIGTERM);
        end->too_late = true;
    } else if (now_s >= command->deadline_s + command->grace_s) {
        (void)kill(pid, SIGKILL);
    }
}

base_status rent_command_run(const rent_command *command, rent_command_end *end, base_error *reterr)
{
    pid_t pid = -1;
    pid_t reaped = 0;
    int wait_status = 0;
    *end = (rent_command_end){0};
    const int failed = start(command, &pid);
    if (failed != 0) {
        base_status status = base_fail_errno(reterr, failed, "cannot start %s", command->argv[0]);
        return failed == ENOENT ? BASE_ERR_NOTFOUND : status;
    }
    while ((reaped = waitpid(pid, &wait_status, WNOHANG)) == 0) {
        wait_once(command, pid, end);
    }
    end->exit_code = reaped < 0                 ? BASE_EXIT_ERROR
                     : WIFSIGNALED(wait_status) ? BASE_EXIT_SIGNAL_BASE + WTERMSIG(wait_status)
                                                : WEXITSTATUS(wait_status);
    return BASE_OK;
}
