/* Loaded into a program by LD_PRELOAD, so that no job is done before what is to happen to it. The
 * rank that writes checkpoints waits once it has one of GATE_STEP steps or more, until its record
 * has the file `go`. With GATE_HOLDS it stops itself (SIGSTOP) while it writes the first one after
 * that, and makes the file `held` there. Used by training.c. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char PARTIAL[] = "/checkpoints/partial";
static const char STEP[] = "/checkpoints/step-";

/* The record's path is what stands in `path` before `end`. */
static bool may_go(const char *path, const char *end)
{
    char go[PATH_MAX];
    (void)snprintf(go, sizeof go, "%.*s/go", (int)(end - path), path);
    return access(go, F_OK) == 0;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
__attribute__((visibility("default"))) int rename(const char *from, const char *to)
{
    static const struct timespec millisecond = {.tv_nsec = 1000 * 1000};
    const char *const gate = getenv("GATE_STEP");
    const char *const step = strstr(from, PARTIAL) != NULL ? strstr(to, STEP) : NULL;
    const int result = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (result == 0 && gate != NULL && step != NULL &&
        strtol(step + sizeof STEP - 1, NULL, 10) >= strtol(gate, NULL, 10)) {
        while (!may_go(to, step)) {
            (void)nanosleep(&millisecond, NULL);
        }
    }
    return result;
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    char link[64];
    char path[PATH_MAX] = "";
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t bytes = getenv("GATE_HOLDS") != NULL ? readlink(link, path, sizeof path - 1) : 0;
    const char *const end = bytes > 0 ? strstr(path, PARTIAL) : NULL;
    if (end != NULL && may_go(path, end)) {
        (void)snprintf(path + (end - path), sizeof path - (size_t)(end - path), "/held");
        const int held = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        if (held >= 0) { /* it is the first time */
            (void)close(held);
            (void)kill(getpid(), SIGSTOP);
        }
    }
    return (int)syscall(SYS_fsync, fd);
}
