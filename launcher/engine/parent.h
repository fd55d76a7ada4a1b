/* Watches the process that has started this launcher, an engine's. */
#ifndef LAUNCH_PARENT_H
#define LAUNCH_PARENT_H

#include <stdbool.h>
#include <sys/signalfd.h>

/* Starts a thread that sends this process SIGTERM when its parent has ended, so that the job ends in
 * order. An engine that ends by itself ends its tasks, but one that SIGKILL has ended cannot. Where
 * the kernel has no pidfd_open (before Linux 5.3), nothing is watched. */
void launch_parent_watch(void);

/* Whether the signal is that one: then no user has asked again. */
bool launch_parent_has_sent(const struct signalfd_siginfo *signal);

#endif
