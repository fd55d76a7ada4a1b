/* The subreaper between the launcher and a user's program: it kills whatever the program leaves
 * behind. Entered by spawn.c in the forked child. */
#include "job/subreaper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/status.h"

enum {
    EXIT_NOT_STARTED = 127,
    LEFT_S = 10, /* for the end of what the program leaves behind */
};

/* Ends this process the way in which the program ended. */
static BASE_NORETURN void leave(const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED) {
        _exit(info->si_status);
    }
    const struct rlimit no_core = {0, 0};
    sigset_t signals;
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)signal(info->si_status, SIG_DFL);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, info->si_status);
    (void)sigprocmask(SIG_UNBLOCK, &signals, NULL);
    (void)raise(info->si_status);
    _exit(128 + info->si_status);
}

/* Collects children that have ended and whom the program has left to us. */
static void reap_adopted(pid_t program)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
           info.si_pid != program) {
        (void)waitid(P_PID, (id_t)info.si_pid, &info, WEXITED);
        info = (siginfo_t){0};
    }
}

/* Whether everything must end: LAUNCH_SUBREAPER_KILL has come. */
static bool take_signals(int signal_fd, pid_t program)
{
    struct signalfd_siginfo info;
    bool ends = false;
    while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        ends = ends || info.ssi_signo == LAUNCH_SUBREAPER_KILL;
    }
    reap_adopted(program);
    return ends;
}

static BASE_NORETURN void watch(pid_t program, int lifeline_fd)
{
    sigset_t ours;
    siginfo_t info = {0};
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, LAUNCH_SUBREAPER_KILL);
    (void)sigaddset(&ours, SIGCHLD);
    const int signal_fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    const int program_fd = pidfd_open(program, 0);
    struct pollfd polls[] = {{.fd = program_fd, .events = POLLIN},
                             {.fd = lifeline_fd, .events = POLLIN},
                             {.fd = signal_fd, .events = POLLIN}};
    if (signal_fd >= 0 && program_fd >= 0) {
        do {
            if (poll(polls, sizeof polls / sizeof polls[0], -1) < 0 && errno != EINTR) {
                break;
            }
        } while (polls[0].revents == 0 && polls[1].revents == 0 &&
                 !take_signals(signal_fd, program));
    }
    if (polls[0].revents == 0) {
        (void)kill(program, SIGKILL);
    }
    if (waitid(P_PID, (id_t)program, &info, WEXITED) != 0) {
        info = (siginfo_t){.si_code = CLD_EXITED, .si_status = EXIT_NOT_STARTED};
    }
    /* What does not end in time (another user's) is left: its rank must not hang the job's end. */
    if (base_child_kill_all(LEFT_S * BASE_NS_PER_S) == BASE_ERR_UNSUPPORTED) {
        /* the whole group, this process included: nothing else is possible */
        (void)kill(0, SIGKILL);
    }
    leave(&info);
}

static bool is_kept(int fd, const int *kept, size_t kept_count)
{
    for (size_t i = 0; i < kept_count; i++) {
        if (kept[i] == fd) {
            return true;
        }
    }
    return false;
}

/* Closes every descriptor above stderr that is not kept. */
static void close_others(const int *kept, size_t kept_count)
{
    int last = STDERR_FILENO;
    for (size_t i = 0; i < kept_count; i++) {
        last = kept[i] > last ? kept[i] : last;
    }
    for (int fd = STDERR_FILENO + 1; fd < last; fd++) {
        if (!is_kept(fd, kept, kept_count)) {
            (void)close(fd);
        }
    }
    (void)close_range((unsigned)last + 1, ~0U, 0);
}

void launch_subreaper_fork(const int *kept, size_t kept_count, int lifeline_fd)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL); /* only its own signal reaches the subreaper */
    close_others(kept, kept_count);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        _exit(EXIT_NOT_STARTED);
    }
    const pid_t subreaper = getpid();
    const pid_t program = fork();
    if (program < 0) {
        _exit(EXIT_NOT_STARTED);
    }
    if (program == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != subreaper) {
            _exit(EXIT_NOT_STARTED);
        }
        return;
    }
    close_others(&lifeline_fd, 1);
    const int null_fd = open("/dev/null", O_RDWR);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && null_fd >= 0; fd++) {
        (void)dup2(null_fd, fd);
    }
    watch(program, lifeline_fd);
}
