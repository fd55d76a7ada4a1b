/* Limits of the launcher. */
#ifndef LAUNCH_LIMITS_H
#define LAUNCH_LIMITS_H

#include "base/limits.h"

enum {
    LAUNCH_RESTARTS_MAX = 1000,
    LAUNCH_LEASE_MARGIN_MS = 200, /* ranks are ended so long before their own timers do it */
    LAUNCH_SCALING_POINTS_MAX = 16,
    LAUNCH_SCALING_STEPS = 30,       /* of one measurement of the scaling curve */
    LAUNCH_SCALING_ROUNDS = 3,       /* each number of ranks is measured once in every round */
    LAUNCH_SCALING_AFTER_STEPS = 50, /* a plain job of so many steps is followed by one */

    LAUNCH_LINE_BYTES_MAX = 8192,   /* of a rank's output; longer lines are cut in two */
    LAUNCH_LINES_WAITING_MAX = 256, /* lines held back to see whether other ranks say the same */
    LAUNCH_LINE_WINDOW_MS = 50,     /* how long they are held back */

    /* Once the job has failed. Their sum is below a second: nothing is left after that. */
    LAUNCH_CAUSE_WAIT_MS = 30,     /* a secondary failure waits so long for its cause to show */
    LAUNCH_TERM_AFTER_MS = 400,    /* abort sent until SIGTERM */
    LAUNCH_KILL_AFTER_MS = 700,    /* abort sent until SIGKILL */
    LAUNCH_LAST_MESSAGES_MS = 200, /* messages of an ended process may come so long */

    /* A stopped rank is given up so long after the job's timeout: the ranks that wait for it get to
     * say first what they wait in. */
    LAUNCH_STOP_MARGIN_MS = 200,

    LAUNCH_PROMPTS_MAX = 1024, /* of --prompt; a file may have more */

    LAUNCH_PROGRESS_MS = 100, /* between two redrawings of the progress line */
};

#endif
