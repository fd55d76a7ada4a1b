/* Forks the helper process that runs the policy's hook, and passes alarms to it through a socket.
 * Started by service.c; alarms come from alarm.c. */
#include "hook.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "budget/server.h"
#include "limits.h"

enum {
    MESSAGE_BYTES = 16 << 10, /* an alarm names BUDGET_INSTANCES_MAX instances at most */
    FIRST_OTHER_FD = 3,
    STOP_MS = 4000, /* the helper's own end takes GRACE_MS and LEFT_MS at most */
    GRACE_MS = 1500,
    LEFT_MS = 2000, /* for the end of what the command leaves behind */
    STOP_LOOK_MS = 20,
};
_Static_assert(GRACE_MS + LEFT_MS < STOP_MS, "the helper ends before it is killed");

/* Those of bills stand in a file, and the others come from what is still so. */
static const char RECURS[] =
    "unless its cause has ended, its alarm is raised again at the next start";
static const char GONE[] = "the process of the policy's hook is gone";

/* What the helper says of an alarm. */
typedef struct hook_report {
    uint64_t number;                     /* the first alarm is 1 */
    char text[BASE_ERROR_MESSAGE_BYTES]; /* what has failed; empty: nothing */
} hook_report;

/* ---- running the command ---- */

static base_status check_program(const char *program, base_error *reterr)
{
    struct stat file;
    if (stat(program, &file) != 0) {
        return base_fail_errno(reterr, errno, "the policy's hook, %s", program);
    }
    return S_ISREG(file.st_mode) && faccessat(AT_FDCWD, program, X_OK, AT_EACCESS) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "the policy's hook, %s, is no program that may be run: chmod +x it",
                           program);
}

/* What happened to the command, in words; false: it ended with 0. */
static bool describe_end(int wait_status, char text[BASE_ERROR_MESSAGE_BYTES])
{
    if (WIFSIGNALED(wait_status)) {
        (void)snprintf(text, BASE_ERROR_MESSAGE_BYTES, "the policy's hook was ended by signal %d",
                       WTERMSIG(wait_status));
        return true;
    }
    (void)snprintf(text, BASE_ERROR_MESSAGE_BYTES, "the policy's hook ended with exit code %d",
                   WEXITSTATUS(wait_status));
    return WEXITSTATUS(wait_status) != 0;
}

/* What cannot be ended (it is another user's, say) is left: the next alarm must be heard. */
static void end_what_is_left(void)
{
    const base_status status = base_child_kill_all(LEFT_MS * BASE_NS_PER_MS);
    if (status == BASE_ERR_TIMEOUT) {
        base_log(BASE_LOG_WARNING, "what the policy's hook has started does not end, or is another "
                                   "user's: it goes on");
    } else if (status != BASE_OK) {
        base_log(BASE_LOG_WARNING, "this system lists no children: what the policy's hook has left "
                                   "behind outside its process group goes on");
    }
}

/* Makes a file without a name that holds the alarm. A pipe would block where the system gives this user short ones. */
static base_status open_alarm(const char *json, int *fd, base_error *reterr)
{
    const size_t json_bytes = strlen(json);
    *fd = memfd_create("alarm", MFD_CLOEXEC);
    if (*fd < 0) {
        return base_fail_errno(reterr, errno, "no file for an alarm to the policy's hook");
    }
    if (pwrite(*fd, json, json_bytes, 0) != (ssize_t)json_bytes) {
        (void)close(*fd);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for an alarm to the policy's hook");
    }
    return BASE_OK;
}

/* Runs the command with the alarm on its standard input, and ends what it leaves behind. stop_fd: the
 * service's end; -1: none. */
static base_status run_command(const char *const *command, const char *json, int stop_fd,
                               int *wait_status, base_error *reterr)
{
    int input = -1;
    base_status status = open_alarm(json, &input, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const base_child_group group = {.stop_fd = stop_fd, .grace_ns = GRACE_MS * BASE_NS_PER_MS};
    const base_child child = {.program = command[0],
                              .argv = command,
                              .stdin_fd = input,
                              .stdout_fd = STDOUT_FILENO,
                              .stderr_fd = STDERR_FILENO,
                              .timeout_ns = SERVICE_HOOK_S * BASE_NS_PER_S,
                              .group = &group};
    status = base_child_run(&child, wait_status, reterr);
    (void)close(input);
    end_what_is_left();
    return status;
}

/* ---- the helper process ---- */

static void become_helper(int fd)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGINT, SIG_IGN);  /* a terminal's Ctrl-C is for the budget_service, */
    (void)signal(SIGTERM, SIG_IGN); /* and the helper ends with it: its socket says so */
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL);         /* ignored, it would hide how the command ended */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* for what the command starts and leaves alone */
    (void)prctl(PR_SET_NAME, "budget-hook");
    (void)dup2(fd, FIRST_OTHER_FD);
    (void)close_range(FIRST_OTHER_FD + 1, ~0U, 0);
    (void)fcntl(FIRST_OTHER_FD, F_SETFD, FD_CLOEXEC);
}

/* It has closed its end; alarms may still wait in this one. */
static bool service_has_ended(int fd)
{
    struct pollfd watched = {.fd = fd};
    return poll(&watched, 1, 0) > 0;
}

/* Runs the command for one alarm, and reports what became of it. */
static void handle_alarm(int fd, const char *const *command, const char *json, uint64_t number)
{
    hook_report report = {.number = number};
    char *text = report.text;
    base_error why = {0};
    int wait_status = 0;
    bool failed = true;
    const base_status status = run_command(command, json, fd, &wait_status, &why);
    if (status == BASE_OK) {
        failed = describe_end(wait_status, text);
    } else if (status == BASE_ERR_ABORTED) {
        (void)snprintf(text, sizeof report.text,
                       "the policy's hook was ended, because the service ends: %s", RECURS);
    } else {
        (void)snprintf(text, sizeof report.text, "the policy's hook: %.400s", why.message);
    }
    if (failed) {
        base_log(BASE_LOG_ERROR, "%s, at the alarm %s", text, json);
    } else {
        text[0] = '\0';
    }
    (void)send(fd, &report, sizeof report, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* One alarm after the other, until the service closes its end. */
_Noreturn static void serve_alarms(int fd, const char *const *command)
{
    static char message[MESSAGE_BYTES + 1];
    for (uint64_t number = 1;;) {
        const ssize_t got = recv(fd, message, MESSAGE_BYTES, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        message[got] = '\0';
        if (service_has_ended(fd)) { /* what waits is named, and not run: the end must come */
            base_log(
                BASE_LOG_ERROR,
                "the service ends, and the policy's hook was not notified: %s, at the alarm %s",
                RECURS, message);
        } else {
            handle_alarm(fd, command, message, number++);
        }
    }
    _exit(0);
}

/* ---- one run by hand ---- */

/* What the helper of a trial sends. */
typedef struct trial {
    base_status status;
    int wait_status;
    base_error error;
} trial;

/* In a process of its own: whoever starts this program may have left it children, which the hook's end
 * must not end. */
static base_status run_in_helper(const char *const *command, const char *json, trial *result,
                                 base_error *reterr)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return base_fail_errno(reterr, errno, "cannot make a socket for the policy's hook");
    }
    const pid_t child = fork();
    if (child == 0) {
        become_helper(pair[1]);
        result->status =
            run_command(command, json, FIRST_OTHER_FD, &result->wait_status, &result->error);
        (void)send(FIRST_OTHER_FD, result, sizeof *result, MSG_NOSIGNAL);
        _exit(0);
    }
    const int code = errno;
    ssize_t got = -1;
    (void)close(pair[1]);
    while (child > 0 && (got = recv(pair[0], result, sizeof *result, 0)) < 0 && errno == EINTR) {
    }
    (void)close(pair[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    if (child < 0) {
        return base_fail_errno(reterr, code, "cannot start the process of the policy's hook");
    }
    return got == (ssize_t)sizeof *result ? BASE_OK : base_fail(reterr, BASE_ERR_IO, "%s", GONE);
}

base_status budget_hook_try(const char *const *command, const char *json, int *exit_code,
                            char text[BASE_ERROR_MESSAGE_BYTES], base_error *reterr)
{
    trial result = {0};
    base_status status = check_program(command[0], reterr);
    if (status == BASE_OK) {
        status = run_in_helper(command, json, &result, reterr);
    }
    if (status == BASE_OK && result.status != BASE_OK) {
        return base_fail(reterr, result.status, "%s", result.error.message);
    }
    if (status == BASE_OK) {
        const int ended = result.wait_status;
        (void)describe_end(ended, text);
        *exit_code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    }
    return status;
}

/* ---- the service's side ---- */

base_status service_hook_start(service_hook *hook, const char *const *command, base_error *reterr)
{
    int pair[2];
    hook->fd = -1;
    hook->pid = -1;
    if (command == NULL || command[0] == NULL) {
        return BASE_OK;
    }
    const base_status status = check_program(command[0], reterr);
    if (status != BASE_OK) {
        return status;
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

bool service_hook_is_set(const service_hook *hook)
{
    return hook->pid > 0;
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
    return errno == EAGAIN || errno == ENOBUFS ? "the policy's hook is busy: it was not notified"
                                               : GONE;
}

void service_hook_tell(service_hook *hook, json_t *alarm)
{
    char *json = alarm != NULL ? json_dumps(alarm, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    const char *failure = hook->fd >= 0 ? tell(hook, json) : NULL;
    if (failure != NULL) {
        base_log(BASE_LOG_ERROR, "%s, at the alarm %s", failure, json != NULL ? json : "");
        (void)snprintf(hook->failure, sizeof hook->failure, "%s", failure);
        hook->dropped = hook->sent;
    } else if (hook->fd >= 0) {
        hook->sent++;
    }
    json_decref(alarm);
    free(json);
}

/* Its process is gone: from now on alarms are in the log and in status alone, and both say why. */
static void lose(service_hook *hook)
{
    (void)snprintf(hook->failure, sizeof hook->failure, "%s", GONE);
    base_log(BASE_LOG_ERROR, "%s", hook->failure);
    (void)close(hook->fd);
    hook->fd = -1;
    while (waitpid(hook->pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

void service_hook_look(service_hook *hook, service_hook_answer *answer, void *user)
{
    hook_report report;
    struct pollfd watched = {.fd = hook->fd, .events = POLLIN};
    while (hook->fd >= 0 && poll(&watched, 1, 0) > 0) {
        const ssize_t got = recv(hook->fd, &report, sizeof report, MSG_DONTWAIT);
        if (got == 0) {
            lose(hook);
        }
        if (got != (ssize_t)sizeof report) {
            return;
        }
        const bool heard = report.text[0] == '\0';
        answer(user, report.number, heard);
        if (heard && report.number <= hook->dropped) {
            continue; /* of an alarm before the one that was dropped */
        }
        (void)snprintf(hook->failure, sizeof hook->failure, "%s", report.text);
        base_text_escape(hook->failure, sizeof hook->failure); /* a path is any text */
    }
}

/* A hook that takes long does not hold up the end: its alarm comes again (RECURS). */
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
