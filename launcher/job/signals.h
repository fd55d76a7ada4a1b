/* The signals that end, pause or ask a launcher, through a descriptor. */
#ifndef LAUNCH_SIGNALS_H
#define LAUNCH_SIGNALS_H

#include "base/status.h"

/* Blocks SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1 and SIGCHLD, and receives them through *fd
 * (signalfd). A signal that the launcher's parent made us ignore (nohup, a shell's "&") stays
 * ignored. It must not be blocked, because a blocked signal would be received all the same. */
BASE_MUST_CHECK base_status launch_signals_open(int *fd, base_error *reterr);

/* An engine signals all launchers of a job. When one of them has ended it in order, SIGTERM and
 * SIGUSR1 to this one may be late: they do not end it while the record is written. */
void launch_signals_ignore_stops(void);

#endif
