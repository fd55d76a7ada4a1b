/* The exit codes shared by launcher, rank and budget-service. When a rank fails, the launcher exits
 * with that rank's code, or 128 + the signal that ended it. */
#ifndef BASE_EXITCODE_H
#define BASE_EXITCODE_H

enum base_exit {
    BASE_EXIT_DONE = 0,
    BASE_EXIT_ERROR = 1,
    BASE_EXIT_USAGE = 2,           /* a wrong flag or value; nothing was started */
    BASE_EXIT_OVER_CAP = 3,        /* the budget does not allow it */
    BASE_EXIT_REFUSED = 4,         /* refused for another reason */
    BASE_EXIT_UNKNOWN = 5,         /* outcome unknown; retry with the printed request id */
    BASE_EXIT_BAD_TOKEN = 6,       /* no token, or one that is not for this job */
    BASE_EXIT_NOT_RECONCILED = 7,  /* ledger and bill differ */
    BASE_EXIT_NEEDS_ATTENTION = 8, /* something waits for a person */
    BASE_EXIT_NO_GPU = 9,          /* no driver, no GPU, or built without CUDA */
    BASE_EXIT_SIGNAL_BASE = 128,   /* plus the signal's number */
};

#endif
