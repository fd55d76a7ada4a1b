/* Watches the process that has started this launcher, an engine's. */
#ifndef LAUNCH_PARENT_H
#define LAUNCH_PARENT_H

/* Starts a thread that sends this process SIGTERM when its parent has ended, so that the job ends in
 * order. An engine that ends by itself ends its tasks, but one that SIGKILL has ended cannot. Where
 * the kernel has no pidfd_open (before Linux 5.3), nothing is watched. */
void launch_parent_watch(void);

#endif
