/* Starts threads without signals, and waits until deadlines. Called by whoever works beside a launcher's
 * loop, and by those who wait for them. */
#include "base/thread.h"

#include <signal.h>

#include "base/clock.h"

base_status base_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument,
                              const char *what, base_error *reterr)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* a thread begins with its maker's mask */
    const int failed = pthread_create(thread, NULL, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0 ? BASE_OK
                       : base_fail_errno(reterr, failed, "cannot start a thread for %s", what);
}

void base_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

bool base_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline_ns)
{
    if (deadline_ns == BASE_NO_DEADLINE) {
        return pthread_cond_wait(condition, lock) == 0;
    }
    const struct timespec until = base_deadline_timespec(deadline_ns);
    return pthread_cond_timedwait(condition, lock, &until) == 0;
}
