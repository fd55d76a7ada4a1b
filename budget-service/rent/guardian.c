/* Ends a rent's instances after the rent was killed, or left it to do so. Started by rent.c. */
#include "guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "budget/time.h"
#include "directory.h"

enum { TRIES_S = 24 * 3600 };

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
    const struct timespec time = {.tv_sec = milliseconds / 1000,
                                  .tv_nsec = milliseconds % 1000 * BASE_NS_PER_MS};
    (void)nanosleep(&time, NULL);
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

static void end_everything(const rent_guarded *guarded)
{
    static rent_held held;
    budget_client *client = NULL;
    base_error error = {0};
    char evidence[BASE_PATH_BYTES];
    int64_t until_ns = base_deadline_after_ns(TRIES_S * BASE_NS_PER_S);
    const rent_reporter reporter = {.say = say, .pause = pause_for, .user = &until_ns};
    rent_say(&reporter, "the rent of %s has ended before its instances: ending them",
             guarded->claims->label);
    if (rent_directory_read(guarded->directory, guarded->claims->jti, &held, &error) != BASE_OK ||
        base_path_join(guarded->directory, RENT_FILE_EVIDENCE, evidence, &error) != BASE_OK ||
        budget_client_open(guarded->client, &client, &error) != BASE_OK) {
        rent_say(&reporter, "%s", error.message);
    }
    if (client != NULL) {
        const rent_ending ending = {.driver = guarded->driver,
                                    .client = client,
                                    .label = guarded->claims->label,
                                    .jti = guarded->claims->jti,
                                    .instances_max = guarded->claims->instances,
                                    .ordered = guarded->claims->instances,
                                    .late_ns = base_deadline_after_ns(RENT_LATE_S * BASE_NS_PER_S),
                                    .evidence_path = evidence,
                                    .reporter = &reporter};
        if (rent_end(&ending, &held) == RENT_END_PROVEN) {
            rent_say(&reporter, "ended, and proven");
        }
    }
    budget_client_close(client);
}

_Noreturn static void guard(int fd, const rent_guarded *guarded)
{
    char word = 0;
    ssize_t got = -1;
    (void)setsid();
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)prctl(PR_SET_NAME, "rent-guardian");
    open_log(guarded->directory);
    do {
        got = read(fd, &word, 1);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        end_everything(guarded);
    }
    _exit(0);
}

base_status rent_guardian_start(const rent_guarded *guarded, rent_guardian *guardian,
                                base_error *reterr)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return base_fail_errno(reterr, errno, "no pipe for the guardian");
    }
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(fds[1]);
        guard(fds[0], guarded);
    }
    (void)close(fds[0]);
    if (pid < 0) {
        const base_status status = base_fail_errno(reterr, errno, "cannot start the guardian");
        (void)close(fds[1]);
        return status;
    }
    *guardian = (rent_guardian){.fd = fds[1], .pid = pid};
    return BASE_OK;
}

void rent_guardian_dismiss(rent_guardian *guardian)
{
    const char word = 'e';
    while (write(guardian->fd, &word, 1) < 0 && errno == EINTR) {
    }
    (void)close(guardian->fd);
    while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

void rent_guardian_release(rent_guardian *guardian)
{
    (void)close(guardian->fd);
}
