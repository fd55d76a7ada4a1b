/* budget-serve-test DIR [LISTEN]: the service as it is, but for its signing key, which lies bare in
 * DIR/test.key, and for the failpoints that it is compiled with.
 * Prints "ready" and its endpoints. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/log.h"
#include "budget/keyring.h"
#include "budget/server.h"

/* The service is not dumpable, so LeakSanitizer cannot stop it to look for leaks. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

/* SQLite's syncs go through here: while the file $BUDGET_FAIL_SYNC is there, they fail. */
__attribute__((visibility("default"))) int fdatasync(int fildes)
{
    const char *path = getenv("BUDGET_FAIL_SYNC");
    if (path != NULL && access(path, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fildes);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    return fdatasync(fd);
}

/* Whether the descriptor is of $BUDGET_FULL_FILE, and there is a file $BUDGET_FULL_FILE.full. */
static bool is_full(int fd)
{
    const char *file = getenv("BUDGET_FULL_FILE");
    struct stat named;
    struct stat written;
    char full[4096];
    if (file == NULL || fstat(fd, &written) != 0 || stat(file, &named) != 0 ||
        named.st_dev != written.st_dev || named.st_ino != written.st_ino) {
        return false;
    }
    (void)snprintf(full, sizeof full, "%s.full", file);
    return access(full, F_OK) == 0;
}

/* The disk has no room for what is written to a full file: a part of it fits, then nothing. */
__attribute__((visibility("default"))) ssize_t write(int fd, const void *buf, size_t n)
{
    n = is_full(fd) ? n / 2 : n;
    if (n == 0) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_write, fd, buf, n);
}

/* SQLite writes so: nothing fits. */
__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *buf, size_t n,
                                                        off64_t offset)
{
    if (is_full(fd)) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, buf, n, offset);
}

/* A number in the file that this variable names; 0 if there is none. */
static long read_number(const char *variable)
{
    char text[32] = "";
    const char *path = getenv(variable);
    const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return 0;
    }
    const ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    return got > 0 ? strtol(text, NULL, 10) : 0;
}

/* The wall clock is $BUDGET_WALL_SHIFT_S seconds off. While there is a file $BUDGET_LATER_FILE, the
 * monotonic clock is an hour ahead. The machine has slept for as many seconds as the file $BUDGET_SLEPT_FILE says. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    const char *shift = getenv("BUDGET_WALL_SHIFT_S");
    const char *later = getenv("BUDGET_LATER_FILE");
    const int result = (int)syscall(SYS_clock_gettime, clock_id, tp);
    if (clock_id == CLOCK_REALTIME && shift != NULL) {
        tp->tv_sec += strtol(shift, NULL, 10);
    }
    if (clock_id == CLOCK_REALTIME || clock_id == CLOCK_BOOTTIME) {
        tp->tv_sec += read_number("BUDGET_SLEPT_FILE");
    }
    if (clock_id == CLOCK_MONOTONIC && later != NULL && access(later, F_OK) == 0) {
        tp->tv_sec += 3600;
    }
    return result;
}

static unsigned char *secret;

static base_status unlock(void *user, const unsigned char **key, base_error *reterr)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/test.key", (const char *)user);
    secret = sodium_malloc(BUDGET_SECRET_KEY_BYTES);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (secret == NULL || fd < 0 ||
        read(fd, secret, BUDGET_SECRET_KEY_BYTES) != BUDGET_SECRET_KEY_BYTES) {
        return base_fail(reterr, BASE_ERR_IO, "cannot read %s", path);
    }
    (void)close(fd);
    *key = secret;
    return BASE_OK;
}

static void release(void *user)
{
    (void)user;
    sodium_free(secret);
}

static void ready(void *user, const char *endpoint, const char *redeem_endpoint)
{
    (void)user;
    printf("ready %s %s\n", endpoint, redeem_endpoint);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    base_error error = {0};
    base_log_init("budget-service: ");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no test leaves one behind */
    if (argc < 2) {
        return BASE_EXIT_USAGE;
    }
    const budget_serve_options options = {
        .dir = argv[1],
        .listen = argc > 2 ? argv[2] : NULL,
        .accept_audit = getenv("BUDGET_ACCEPT_AUDIT"),
        .signer = {.unlock = unlock, .release = release, .user = argv[1]},
        .ready = ready,
    };
    if (budget_serve(&options, &error) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        (void)printf("failed: %s\n", error.message); /* for the fixture */
        return BASE_EXIT_ERROR;
    }
    return BASE_EXIT_DONE;
}
