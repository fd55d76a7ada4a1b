/* Loaded into a program by LD_PRELOAD: its wall clock is wrong by as many seconds as the file named
 * by WRONG_CLOCK says, and jumps when that changes. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* 0 without such a file. */
static long read_ahead_s(void)
{
    char text[32] = "";
    const char *path = getenv("WRONG_CLOCK");
    const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)!read(fd, text, sizeof text - 1);
        (void)close(fd);
    }
    return strtol(text, NULL, 10);
}

/* In place of the C library's. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name) */
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    }
    const int failed = real(id, now);
    if (failed == 0 && id == CLOCK_REALTIME) {
        now->tv_sec += read_ahead_s();
    }
    return failed;
}
