/* Starts a program and waits for it. Called by the launcher to let a rank check a job, and for the hook of
 * budget-service. Kills all descendants of a subreaper, for the launcher's and for the hook's. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

enum {
    CHILDREN_BYTES = 4096,
    PAUSE_MS_MAX = 16, /* between two looks whether a killed child has ended */
};

/* The child's descriptor `number` is fd, or /dev/null. Returns 0 or an errno. */
static int add_fd(posix_spawn_file_actions_t *actions, int number, int fd)
{
    return fd >= 0 ? posix_spawn_file_actions_adddup2(actions, fd, number)
                   : posix_spawn_file_actions_addopen(actions, number, "/dev/null", O_RDWR, 0);
}

static int add_actions(const base_child *child, posix_spawn_file_actions_t *actions)
{
    int failed = add_fd(actions, STDIN_FILENO, child->stdin_fd);
    failed = failed ? failed : add_fd(actions, STDOUT_FILENO, child->stdout_fd);
    return failed ? failed : add_fd(actions, STDERR_FILENO, child->stderr_fd);
}

static int set_attributes(posix_spawnattr_t *attributes, bool leads_group)
{
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    const short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    int failed = posix_spawnattr_setflags(
        attributes, leads_group ? (short)(flags | POSIX_SPAWN_SETPGROUP) : flags);
    failed = failed ? failed : posix_spawnattr_setsigmask(attributes, &none);
    return failed ? failed : posix_spawnattr_setsigdefault(attributes, &all);
}

/* Returns 0 or an errno. */
static int start(const base_child *child, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0) {
        return failed;
    }
    failed = posix_spawnattr_init(&attributes);
    if (failed == 0) {
        failed = set_attributes(&attributes, child->group != NULL);
        failed = failed ? failed : add_actions(child, &actions);
        failed = failed ? failed
                        : posix_spawnp(pid, child->program, &actions, &attributes,
                                       (char *const *)(uintptr_t)child->argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Waits until the child has ended, and does not reap it. */
static base_status wait_for(const base_child *child, int pidfd, base_error *reterr)
{
    const base_child_group *group = child->group;
    bool stops = false;
    int64_t deadline_ns = base_deadline_after_ns(child->timeout_ns);
    struct pollfd watched[] = {{.fd = pidfd, .events = POLLIN},
                               {.fd = group != NULL ? group->stop_fd : -1}};
    for (;;) {
        const int timeout_ms = base_deadline_poll_ms(deadline_ns, 1000);
        const int ready = poll(watched, 2, timeout_ms);
        if (ready > 0 && watched[0].revents != 0) {
            return BASE_OK;
        }
        if (ready > 0) { /* the other end of stop_fd was closed */
            stops = true;
            const int64_t stop_ns = base_deadline_after_ns(group->grace_ns);
            deadline_ns = stop_ns < deadline_ns ? stop_ns : deadline_ns;
            watched[1].fd = -1;
        } else if (stops && timeout_ms == 0) {
            return base_fail(reterr, BASE_ERR_ABORTED, "%s was ended with the process that runs it",
                             child->program);
        } else if (timeout_ms == 0) {
            return base_fail(reterr, BASE_ERR_TIMEOUT, "%s took longer than %lld s and was ended",
                             child->program, (long long)(child->timeout_ns / BASE_NS_PER_S));
        } else if (ready < 0 && errno != EINTR) {
            return base_fail_errno(reterr, errno, "cannot wait for %s", child->program);
        }
    }
}

/* The child is reaped last: until then nothing else can get its number, or that of its group. */
static base_status wait_and_reap(const base_child *child, pid_t pid, int *wait_status,
                                 base_error *reterr)
{
    base_status status = BASE_OK;
    volatile pid_t *leader = child->group != NULL ? child->group->leader : NULL;
    if (leader != NULL) {
        *leader = pid;
    }
    int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0) {
        status = base_fail_errno(reterr, errno, "cannot watch %s", child->program);
    } else {
        status = wait_for(child, pidfd, reterr);
    }
    if (child->group != NULL) {
        (void)kill(-pid, SIGKILL);
    } else if (status != BASE_OK) {
        (void)kill(pid, SIGKILL);
    }
    base_fd_close(&pidfd);
    if (leader != NULL) {
        *leader = 0;
    }
    pid_t reaped = -1;
    do {
        reaped = waitpid(pid, wait_status, 0);
    } while (reaped < 0 && errno == EINTR);
    return reaped < 0 && status == BASE_OK
               ? base_fail_errno(reterr, errno, "cannot wait for %s", child->program)
               : status; /* the caller ignores SIGCHLD, say: how it ended is not known */
}

base_status base_child_run(const base_child *child, int *wait_status, base_error *reterr)
{
    pid_t pid = -1;
    *wait_status = 0;
    const int failed = start(child, &pid);
    if (failed == ENOENT) {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "there is no %s", child->program);
    }
    if (failed != 0) {
        return base_fail_errno(reterr, failed, "cannot start %s", child->program);
    }
    return wait_and_reap(child, pid, wait_status, reterr);
}

/* Kills every child of this thread, which is the only one, where it may. False if the kernel does not list
 * them. */
static bool kill_children(void)
{
    char list[CHILDREN_BYTES];
    const int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const ssize_t got = read(fd, list, sizeof list - 1);
    (void)close(fd);
    list[got > 0 ? got : 0] = '\0';
    /* if the list is cut inside a number, that process is killed in the next round */
    pid_t pid = 0;
    for (const char *at = list; *at != '\0'; at++) {
        if (*at >= '0' && *at <= '9') {
            pid = pid * 10 + (*at - '0');
        } else if (pid > 1) {
            (void)kill(pid, SIGKILL);
            pid = 0;
        }
    }
    return true;
}

/* Reaps what has ended. *reaped: something had. False: there is no child. */
static bool reap(bool *reaped)
{
    siginfo_t info = {0};
    *reaped = false;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0) {
        if (info.si_pid == 0) {
            return true;
        }
        *reaped = true;
        info.si_pid = 0;
    }
    return errno != ECHILD;
}

/* The children of a killed process become ours, and are killed next. */
base_status base_child_kill_all(int64_t timeout_ns)
{
    const int64_t deadline_ns = base_deadline_after_ns(timeout_ns);
    int pause_ms = 1;
    for (;;) {
        bool reaped = false;
        if (!kill_children()) {
            return BASE_ERR_UNSUPPORTED;
        }
        if (!reap(&reaped)) {
            return BASE_OK;
        }
        if (base_now_ns() >=
            deadline_ns) { /* also where new ones come as fast as they are killed */
            return BASE_ERR_TIMEOUT;
        }
        pause_ms = reaped ? 0 : pause_ms > 0 ? pause_ms : 1;
        (void)poll(NULL, 0, pause_ms);
        pause_ms = pause_ms * 2 < PAUSE_MS_MAX ? pause_ms * 2 : PAUSE_MS_MAX;
    }
}
