/* The subreaper: a process between the launcher and one program of the user's.
 *
 * A program may start others, and those others; a parent-death signal reaches none of them. The
 * subreaper holds the job's lifeline, a pipe that ends with the launcher however that ends, and is
 * the subreaper of everything below it, so that whatever escapes becomes its child. When the
 * lifeline ends, or the program does, or LAUNCH_SUBREAPER_KILL comes, it kills until nothing is
 * left, and leaves as the program left: with its exit code, or by its signal. If the subreaper
 * itself is killed, the program gets SIGKILL.
 *
 * It is a fork of the launcher without an exec: only system calls that are safe there. */
#ifndef LAUNCH_SUBREAPER_H
#define LAUNCH_SUBREAPER_H

#include <signal.h>
#include <stddef.h>

/* Ends everything; SIGKILL would end the subreaper alone. */
#define LAUNCH_SUBREAPER_KILL SIGUSR1

/* Called by the leader of a fresh process group. Forks: returns in the program's process, still to
 * be executed, and never in the subreaper's. Of the descriptors above stderr only those in `kept`
 * stay open in the program's process, and only the lifeline in the subreaper. */
void launch_subreaper_fork(const int *kept, size_t kept_count, int lifeline_fd);

#endif
