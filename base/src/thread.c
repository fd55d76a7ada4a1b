/* Starts threads without signals. Called by whoever works beside a launcher's loop. */
#include "base/thread.h"

#include <signal.h>

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
