/* Limits of the launcher. */
#ifndef LAUNCH_LIMITS_H
#define LAUNCH_LIMITS_H

#include "base/limits.h"

enum {
    LAUNCH_RESTARTS_MAX = 1000,
    /* Ranks are ended so long before the lease is over. Their own timers count in whole seconds of the wall
     * clock, and may be a second early. */
    LAUNCH_LEASE_MARGIN_MS = 1200,
    LAUNCH_SCALING_POINTS_MAX = 16,
    LAUNCH_SCALING_STEPS = 30,       /* of one measurement of the scaling curve */
    LAUNCH_SCALING_ROUNDS = 3,       /* each number of ranks is measured once in every round */
    LAUNCH_SCALING_AFTER_STEPS = 50, /* a plain job of at least so many steps is followed by one */

    LAUNCH_LINE_BYTES_MAX = 8192,   /* of a rank's output; longer lines are cut in two */
    LAUNCH_LINES_WAITING_MAX = 256, /* held back, because other ranks may write the same */
    LAUNCH_LINE_WINDOW_MS = 50,     /* how long they are held back */

    LAUNCH_FLIGHTS_WAIT_MS = 1000, /* SIGUSR1: for the records of all ranks */

    LAUNCH_DRAINED_MS = 10 * 1000, /* after --serve-drain, until what is left is killed */

    /* Once the job has failed. But for a pipeline the sum is below a second, so nothing is left after that. */
    LAUNCH_CAUSE_WAIT_MS = 30,     /* a secondary failure waits so long for its cause */
    LAUNCH_STAGES_WAIT_MS = 2000,  /* a stage that waited in vain, for the others to say the same */
    LAUNCH_TERM_AFTER_MS = 400,    /* from Abort to SIGTERM */
    LAUNCH_KILL_AFTER_MS = 700,    /* from Abort to SIGKILL */
    LAUNCH_LAST_MESSAGES_MS = 200, /* messages of an ended process may come so long */

    LAUNCH_PROMPTS_MAX = 1024, /* of --prompt; a file may have more */

    LAUNCH_UNREAD_MS = 1000,  /* a user who ends a job hears of output that is stuck for so long */
    LAUNCH_PROGRESS_MS = 100, /* between two updates of the progress line */
};

#endif
