/* Forks the helper process that runs the policy's hook, and passes alarms to it through a pipe.
 * Started by service.c; alarms come from usage.c and reaper.c. */
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { MESSAGE_BYTES = 4096, FIRST_OTHER_FD = 3, STOP_MS = 2000, STOP_LOOK_MS = 20 };

/* In the helper's child: the command, with the alarm on its standard input. */
_Noreturn static void run_command(const char *const *command, const char *json)
{
    int input[2];
    const size_t json_bytes = strlen(json);
    /* A pipe holds more than one alarm, so this write does not block. */
    if (pipe(input) != 0 || write(input[1], json, json_bytes) != (ssize_t)json_bytes ||
        dup2(input[0], STDIN_FILENO) < 0) {
        _exit(127);
    }
    (void)close(input[0]);
    (void)close(input[1]);
    (void)signal(SIGXFSZ, SIG_DFL); /* the service ignores it */
    (void)execvp(command[0], (char *const *)(uintptr_t)command);
    _exit(127);
}

/* Logs that nobody may have heard of an alarm. status: of waitpid. */
static void check_end(int status, const char *json)
{
    if (WIFSIGNALED(status)) {
        base_log(BASE_LOG_ERROR, "the policy's hook was ended by signal %d, at the alarm %s",
                 WTERMSIG(status), json);
    } else if (WEXITSTATUS(status) != 0) {
        base_log(BASE_LOG_ERROR, "the policy's hook ended with exit code %d, at the alarm %s",
                 WEXITSTATUS(status), json);
    }
}

/* One alarm after the other, until the service closes its end. */
_Noreturn static void serve_alarms(int fd, const char *const *command)
{
    for (;;) {
        char message[MESSAGE_BYTES + 1];
        ssize_t got = recv(fd, message, MESSAGE_BYTES, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            _exit(0);
        }
        message[got] = '\0';
        const pid_t child = fork();
        if (child == 0) {
            (void)close(fd);
            (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* it ends with the helper */
            run_command(command, message);
        }
        int status = 0;
        while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        if (child < 0) {
            base_log(BASE_LOG_ERROR, "no process for the policy's hook, at the alarm %s", message);
        }
        check_end(status, message);
    }
}

static void become_helper(int fd)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGINT, SIG_IGN); /* a terminal's Ctrl-C is for the budget_service */
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_NAME, "budget-hook");
    (void)dup2(fd, FIRST_OTHER_FD);
    (void)close_range(FIRST_OTHER_FD + 1, ~0U, 0);
    (void)fcntl(FIRST_OTHER_FD, F_SETFD, FD_CLOEXEC);
}

base_status service_hook_start(service_hook *hook, const char *const *command, base_error *reterr)
{
    int pair[2];
    hook->fd = -1;
    hook->pid = -1;
    if (command == NULL || command[0] == NULL) {
        return BASE_OK;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return base_fail_errno(reterr, errno, "cannot make a socket for the policy's hook");
    }
    const pid_t child = fork();
    if (child < 0) {
        const int code = errno;
        (void)close(pair[0]);
        (void)close(pair[1]);
        return base_fail_errno(reterr, code, "cannot start the process of the policy's hook");
    }
    if (child == 0) {
        become_helper(pair[1]);
        serve_alarms(FIRST_OTHER_FD, command);
    }
    (void)close(pair[1]);
    hook->fd = pair[0];
    hook->pid = child;
    return BASE_OK;
}

static const char *tell(const service_hook *hook, const char *json)
{
    if (json == NULL) {
        return "no memory for an alarm";
    }
    if (strlen(json) > MESSAGE_BYTES) {
        return "an alarm too long for the hook";
    }
    if (send(hook->fd, json, strlen(json), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
        return NULL;
    }
    return errno == EAGAIN || errno == ENOBUFS
               ? "the policy's hook is busy: it was not notified of an alarm"
               : "the process of the policy's hook is gone";
}

void service_hook_tell(const service_hook *hook, json_t *alarm)
{
    char *json = alarm != NULL ? json_dumps(alarm, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    const char *failure = hook->fd >= 0 ? tell(hook, json) : NULL;
    if (failure != NULL) {
        base_log(BASE_LOG_ERROR, "%s", failure);
    }
    json_decref(alarm);
    free(json);
}

/* A hook that takes long does not hold up the end: its alarm is raised again at the next start. */
void service_hook_stop(service_hook *hook)
{
    const int64_t deadline_ns = base_deadline_after_ns(STOP_MS * BASE_NS_PER_MS);
    pid_t ended = 0;
    if (hook->fd < 0) {
        return;
    }
    (void)close(hook->fd);
    hook->fd = -1;
    while ((ended = waitpid(hook->pid, NULL, WNOHANG)) == 0 && base_now_ns() < deadline_ns) {
        (void)poll(NULL, 0, STOP_LOOK_MS);
    }
    if (ended == 0) {
        (void)kill(hook->pid, SIGKILL);
        while (waitpid(hook->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
}
