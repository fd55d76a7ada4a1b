/* The guardian: a process between the launcher and one program of the user's.
 *
 * A program may start others, and those others; a parent-death signal reaches none of them. The
 * guardian holds the job's lifeline, a pipe that ends with the launcher however that ends, and is
 * the subreaper of everything below it, so that whatever escapes becomes its child. When the
 * lifeline ends, or the program does, or LAUNCH_GUARDIAN_KILL comes, it kills until nothing is
 * left, and leaves as the program left: with its exit code, or by its signal. If the guardian
 * itself is killed, the program gets SIGKILL.
 *
 * It is a fork of the launcher without an exec: only system calls that are safe there. */
#ifndef LAUNCH_GUARDIAN_H
#define LAUNCH_GUARDIAN_H

#include <signal.h>
#include <stddef.h>

/* Ends everything; SIGKILL would end the guardian alone. */
#define LAUNCH_GUARDIAN_KILL SIGUSR1

/* Called by the leader of a fresh process group. Forks: returns in the program's process, still to
 * be executed, and never in the guardian's. Of the descriptors above stderr only those in `kept`
 * stay open in the program's process, and only the lifeline in the guardian. */
void launch_guardian_stand(const int *kept, size_t kept_count, int lifeline_fd);

#endif
