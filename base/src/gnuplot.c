/* Runs gnuplot with a time limit. Called for the plots of records, and by coll-bench and
 * coll-simulate for theirs. */
#include "base/gnuplot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

enum { COMPLAINT_BYTES = 300 };

/* Complaints come on stderr. On stdout there would be a picture whose file could not be opened. */
static int add_actions(const base_gnuplot *run, int output_fd, posix_spawn_file_actions_t *actions)
{
    int failed = run->script != NULL
                     ? posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0)
                     : posix_spawn_file_actions_adddup2(actions, run->script_fd, 0);
    failed =
        failed ? failed : posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
    failed = failed ? failed : posix_spawn_file_actions_adddup2(actions, output_fd, 2);
    return failed == 0 && run->directory_fd >= 0
               ? posix_spawn_file_actions_addfchdir_np(actions, run->directory_fd)
               : failed;
}

/* Starts gnuplot, its complaints going to output_fd; 0 or an errno. */
static int start(const base_gnuplot *run, int output_fd, pid_t *pid)
{
    static char program[] = "gnuplot";
    char *const argv[] = {program, (char *)run->script, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed != 0) {
        return failed;
    }
    failed = posix_spawnattr_init(&attributes);
    if (failed == 0) {
        (void)sigemptyset(&none);
        (void)sigfillset(&all);
        failed =
            posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) ||
            posix_spawnattr_setsigmask(&attributes, &none) ||
            posix_spawnattr_setsigdefault(&attributes, &all) ||
            add_actions(run, output_fd, &actions);
        failed = failed ? ENOMEM : posix_spawnp(pid, program, &actions, &attributes, argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Waits for the child until the deadline, then ends it. Returns whether it ended in time; *status
 * is waitpid's. */
static bool wait_for(pid_t pid, int64_t deadline_ns, int *status)
{
    struct pollfd watched = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    int ready = 0;
    while (watched.fd >= 0 && ready == 0) {
        const int timeout_ms = base_deadline_poll_ms(deadline_ns, 1000);
        ready = poll(&watched, 1, timeout_ms);
        if (timeout_ms == 0 || (ready < 0 && errno != EINTR)) {
            break;
        }
        ready = ready < 0 ? 0 : ready;
    }
    if (ready <= 0) {
        (void)kill(pid, SIGKILL);
    }
    if (watched.fd >= 0) {
        (void)close(watched.fd);
    }
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
    }
    return ready > 0;
}

/* The last line of gnuplot's complaints that is neither blank nor its pointer to a column. */
static void read_complaint(int output_fd, char complaint[COMPLAINT_BYTES])
{
    char said[4096];
    const ssize_t got = pread(output_fd, said, sizeof said - 1, 0);
    said[got > 0 ? got : 0] = '\0';
    complaint[0] = '\0';
    char *rest = NULL;
    for (char *line = strtok_r(said, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        line += strspn(line, " \t");
        if (line[0] != '\0' && line[0] != '^') {
            base_utf8_copy(complaint, COMPLAINT_BYTES, line);
        }
    }
}

base_status base_gnuplot_run(const base_gnuplot *run, base_error *reterr)
{
    char complaint[COMPLAINT_BYTES];
    pid_t pid = 0;
    int ended = 0;
    base_status status = BASE_OK;
    const int output_fd = memfd_create("gnuplot-output", MFD_CLOEXEC);
    const int failed = output_fd < 0 ? errno : start(run, output_fd, &pid);
    if (failed != 0) {
        status = base_fail(reterr, failed == ENOENT ? BASE_ERR_NOTFOUND : BASE_ERR_IO, "%s",
                           failed == ENOENT ? "gnuplot is not installed" : strerrordesc_np(failed));
    } else if (!wait_for(pid, base_deadline_after_ns(run->timeout_ns), &ended)) {
        status =
            base_fail(reterr, BASE_ERR_TIMEOUT, "gnuplot took longer than %lld s and was ended",
                      (long long)(run->timeout_ns / BASE_NS_PER_S));
    } else if (!WIFEXITED(ended) || WEXITSTATUS(ended) != 0) {
        read_complaint(output_fd, complaint);
        status = base_fail(reterr, BASE_ERR_IO, "%s",
                           complaint[0] != '\0' ? complaint : "it said nothing");
    }
    if (output_fd >= 0) {
        (void)close(output_fd);
    }
    return status;
}
