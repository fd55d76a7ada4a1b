/* Loaded into a program by LD_PRELOAD: its wall clock is wrong by as many seconds as the file named by WRONG_CLOCK says, and
 * jumps when that changes. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    const char *path = getenv("WRONG_CLOCK");
    long ahead_s = 0;
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    }
    const int failed = real(id, now);
    FILE *file = id == CLOCK_REALTIME && path != NULL ? fopen(path, "re") : NULL;
    if (file != NULL) {
        if (fscanf(file, "%ld", &ahead_s) == 1) {
            now->tv_sec += ahead_s;
        }
        (void)fclose(file);
    }
    return failed;
}
