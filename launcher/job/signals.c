/* Receives a launcher's signals through a descriptor. Called by job_run.c and by agents. */
#include "job/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

base_status launch_signals_open(int *fd, base_error *reterr)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1};
    sigset_t signals;
    (void)sigemptyset(&signals);
    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        struct sigaction action;
        if (sigaction(caught[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            (void)sigaddset(&signals, caught[i]);
        }
    }
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, it would leave no exit status to collect */
    (void)sigaddset(&signals, SIGCHLD);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    *fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return *fd >= 0 ? BASE_OK : base_fail_errno(reterr, errno, "cannot watch for signals");
}

void launch_signals_ignore_stops(void)
{
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGUSR1, SIG_IGN);
}
