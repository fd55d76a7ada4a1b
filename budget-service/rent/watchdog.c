/* Ends a rent's instances after the rent was killed, or left it to do so. Started by rent.c. */
#include "watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "budget/time.h"
#include "clock.h"
#include "directory.h"

enum { TRIES_S = 24 * 3600, LOOK_MS = 2000 };

/* What is written to the pipe. */
typedef struct word {
    int64_t deadline_s; /* by rent_clock_s; 0: all was ended */
    int64_t now_s;      /* by rent_time_s */
} word;

static void say(void *user, const char *line)
{
    char at[BUDGET_TIME_BYTES];
    (void)user;
    budget_time_format(budget_time_now(), at);
    (void)fprintf(stderr, "%s %s\n", at, line);
}

static bool pause_for(void *user, int milliseconds)
{
    const int64_t *until_ns = user;
    rent_sleep(milliseconds);
    return base_now_ns() < *until_ns;
}

/* Its standard error is end.log from now on. */
static void open_log(const char *directory)
{
    char path[BASE_PATH_BYTES];
    const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int fd = base_path_join(directory, RENT_FILE_LOG, path, NULL) == BASE_OK
                       ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)
                       : -1;
    (void)dup2(null_fd, STDIN_FILENO);
    (void)dup2(null_fd, STDOUT_FILENO);
    (void)dup2(fd >= 0 ? fd : null_fd, STDERR_FILENO);
}

static void end_everything(const rent_watched *watched)
{
    static rent_held held;
    budget_client *client = NULL;
    base_error error = {0};
    char evidence[BASE_PATH_BYTES];
    int64_t until_ns = base_deadline_after_ns(TRIES_S * BASE_NS_PER_S);
    const rent_reporter reporter = {.say = say, .pause = pause_for, .user = &until_ns};
    rent_say(&reporter,
             "the rent of %s has ended before its instances, or stands still: ending them",
             watched->claims->label);
    if (rent_directory_read(watched->directory, watched->claims->jti, &held, &error) != BASE_OK) {
        rent_say(&reporter, "%s", error.message); /* the vendor's list has those with the jti */
    }
    if (budget_client_open(watched->client, &client, &error) != BASE_OK) {
        rent_say(&reporter, "%s", error.message);
    }
    const bool kept =
        base_path_join(watched->directory, RENT_FILE_EVIDENCE, evidence, NULL) == BASE_OK;
    const rent_ending ending = {.driver = watched->driver,
                                .client = client,
                                .account = watched->account,
                                .label = watched->claims->label,
                                .jti = watched->claims->jti,
                                .instances_max = watched->claims->instances,
                                .ordered = watched->claims->instances,
                                .late_ns = base_deadline_after_ns(RENT_LATE_S * BASE_NS_PER_S),
                                .evidence_path = kept ? evidence : NULL,
                                .flags = watched->flags,
                                .reporter = &reporter};
    if (rent_end(&ending, &held) == RENT_END_PROVEN) {
        rent_say(&reporter, "ended, and proven");
    }
    budget_client_close(client);
}

/* Waits for what the rent writes. True: it is time to end everything. */
static bool is_left_alone(int fd, volatile const pid_t *leader)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    int64_t deadline_s = 0; /* not armed */
    for (;;) {
        const int ready = poll(&watched, 1, LOOK_MS);
        word heard = {0};
        const ssize_t got = ready > 0 ? read(fd, &heard, sizeof heard) : -1;
        if (got == 0) {
            if (*leader > 0) {
                (void)kill(-*leader, SIGKILL); /* nobody looks at its time any more */
            }
            return deadline_s != 0;
        }
        if (got == (ssize_t)sizeof heard && heard.deadline_s == 0) {
            return false;
        }
        if (got == (ssize_t)sizeof heard) {
            deadline_s = heard.deadline_s;
            rent_time_set(heard.now_s);
        }
        if (deadline_s != 0 && rent_clock_s() >= deadline_s) {
            return true;
        }
    }
}

_Noreturn static void guard(int fd, const rent_watched *watched)
{
    (void)setsid();
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)prctl(PR_SET_NAME, "rent-watchdog");
    open_log(watched->directory);
    (void)close_range(STDERR_FILENO + 1, (unsigned)fd - 1, 0); /* the caller's */
    (void)close_range((unsigned)fd + 1, UINT_MAX, 0);
    if (is_left_alone(fd, watched->driver->leader)) {
        end_everything(watched);
    }
    _exit(0);
}

base_status rent_watchdog_start(const rent_watched *watched, rent_watchdog *watchdog,
                                base_error *reterr)
{
    int fds[2];
    void *shared =
        mmap(NULL, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return base_fail_errno(reterr, errno, "no memory for the watchdog");
    }
    watched->driver->leader = shared;
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return base_fail_errno(reterr, errno, "no pipe for the watchdog");
    }
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[1]);
        guard(fds[0], watched);
    }
    (void)close(fds[0]);
    if (pid < 0) {
        const base_status status = base_fail_errno(reterr, errno, "cannot start the watchdog");
        (void)close(fds[1]);
        return status;
    }
    *watchdog = (rent_watchdog){.fd = fds[1], .pid = pid};
    return BASE_OK;
}

static void tell(const rent_watchdog *watchdog, int64_t deadline_s)
{
    const word said = {.deadline_s = deadline_s, .now_s = rent_time_s()};
    while (write(watchdog->fd, &said, sizeof said) < 0 && errno == EINTR) {
    }
}

bool rent_watchdog_lives(const rent_watchdog *watchdog)
{
    struct pollfd pipe = {.fd = watchdog->fd}; /* POLLERR: nobody can read what is written */
    return poll(&pipe, 1, 0) == 0;
}

void rent_watchdog_arm(const rent_watchdog *watchdog, int64_t deadline_s)
{
    tell(watchdog, deadline_s);
}

void rent_watchdog_dismiss(rent_watchdog *watchdog)
{
    tell(watchdog, 0);
    (void)close(watchdog->fd);
    while (waitpid(watchdog->pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

void rent_watchdog_release(rent_watchdog *watchdog)
{
    (void)close(watchdog->fd);
}
