/* The subreaper: a process between the launcher and one user's program.
 *
 * A program may start others, and those may start others again. A parent-death signal reaches none
 * of them. So the subreaper adopts whatever the program leaves behind (PR_SET_CHILD_SUBREAPER), and
 * collects what has ended. It kills everything below it when the program ends, when
 * LAUNCH_SUBREAPER_KILL comes, or when the job's lifeline closes. The lifeline is a pipe that closes
 * when the launcher ends, however that happens. Then the subreaper ends as the program ended: with
 * its exit code, or by its signal. If the subreaper itself is killed, the program gets SIGKILL.
 *
 * It is a fork of the launcher without an exec. So it makes only system calls that are safe
 * there. */
#ifndef LAUNCH_SUBREAPER_H
#define LAUNCH_SUBREAPER_H

#include <signal.h>
#include <stddef.h>

/* Ends everything. SIGKILL would end the subreaper alone. */
#define LAUNCH_SUBREAPER_KILL SIGUSR1

/* Called by the leader of a fresh process group. Forks, and returns only in the program's process,
 * which then executes the program. The program keeps those descriptors above stderr that are in
 * `kept`. The subreaper keeps the lifeline. */
void launch_subreaper_fork(const int *kept, size_t kept_count, int lifeline_fd);

#endif
