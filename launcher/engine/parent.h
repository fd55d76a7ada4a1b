/* Watches the process that has started this launcher, an engine's. */
#ifndef LAUNCH_PARENT_H
#define LAUNCH_PARENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/signalfd.h>

/* Starts a thread that sends this process SIGTERM when its parent has ended, so that the job ends in
 * order. An engine that ends by itself ends its tasks, but one that SIGKILL has ended cannot. Where
 * the kernel has no pidfd_open (before Linux 5.3), nothing is watched. */
void launch_parent_watch(void);

/* `timeout` sends its SIGTERM to the launcher, and then to its group: whether `signal` at now_ns is the same as
 * the first, at first_ns. */
bool launch_parent_sent_twice(const struct signalfd_siginfo *signal, int first, int64_t first_ns,
                              int64_t now_ns);

/* Whether the signal is that one: then no user has asked again. */
bool launch_parent_has_sent(const struct signalfd_siginfo *signal);

#endif
