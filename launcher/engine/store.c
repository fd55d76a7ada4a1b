/* The table of key-value stores, and waiting for one. Called by engine/bootstrap.c and
 * cli/options_hosts.c; the stores wait here. */
#include "engine/store.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"

enum { POLL_MS_MAX = 1000 };

const launch_store_kind *launch_store_of(launch_engine engine)
{
    return engine == LAUNCH_ENGINE_PMIX  ? &launch_store_pmix
           : engine == LAUNCH_ENGINE_PMI ? &launch_store_pmi
                                         : NULL;
}

bool launch_signal_ends(int number, bool in_slurm)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP ||
           (number == SIGUSR1 && in_slurm);
}

/* The signal that asks for the end; 0: none has come. */
static int asked_to_end(const launch_wait *wait)
{
    struct signalfd_siginfo info;
    while (read(wait->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (launch_signal_ends((int)info.ssi_signo, wait->in_slurm)) {
            return (int)info.ssi_signo;
        }
    }
    return 0;
}

base_status launch_store_wait(int fd, const launch_wait *wait, base_error *reterr)
{
    for (;;) {
        struct pollfd polls[] = {{.fd = fd, .events = POLLIN},
                                 {.fd = wait->signal_fd, .events = POLLIN}};
        (void)poll(polls, 2, base_deadline_poll_ms(wait->deadline_ns, POLL_MS_MAX));
        if (polls[0].revents != 0) {
            return BASE_OK;
        }
        const int number = polls[1].revents != 0 ? asked_to_end(wait) : 0;
        if (number != 0) {
            if (wait->ended_by != NULL) {
                *wait->ended_by = number;
            }
            return base_fail(reterr, BASE_ERR_ABORTED,
                             "ended by SIG%s before all launchers had come", sigabbrev_np(number));
        }
        if (base_now_ns() >= wait->deadline_ns) {
            return base_fail(reterr, BASE_ERR_TIMEOUT,
                             "not all launchers have come before the join timeout");
        }
    }
}
