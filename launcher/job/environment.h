/* The environment that a rank is started with.
 *
 * A user's program, and a rank of a mode that is free, get the launcher's, in which our variables
 * replace those of the same name. A rank of a mode that may cost money gets only what it needs: no
 * variable that chooses libraries or what they run (LD_…) reaches it. One thread. */
#ifndef LAUNCH_JOB_ENVIRONMENT_H
#define LAUNCH_JOB_ENVIRONMENT_H

#include <stdbool.h>

/* "NAME=value". Whether a rank of a mode that may cost money gets it. */
bool launch_environment_passes(const char *variable);

/* `given`, those that pass alone if is_reduced, then the `count` variables of ours. Ended by NULL;
 * the caller frees the list; the strings are borrowed. NULL: no memory. */
char **launch_environment_make(char *const *given, char *const *ours, int count, bool is_reduced);

#endif
