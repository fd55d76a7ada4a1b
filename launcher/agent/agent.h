/* An agent: the launcher of a host that is not the head's.
 *
 * It enrols with the head, takes the job from it, starts the ranks of its own host and holds their
 * lifelines. It passes on what they print, and reports how they end. It decides nothing: only when
 * it hears nothing of the head any more, it ends its ranks. Its exit code is the job's. One thread.
 * While it runs, the signals of job/signals.h belong to it. */
#ifndef LAUNCH_AGENT_H
#define LAUNCH_AGENT_H

#include "launch/options.h"

/* Blocks until the job has ended, and returns the exit code. No process is left. rank_path is the
 * rank program, or the user's. */
int launch_agent_run(const launch_options *options, const char *rank_path);

#endif
