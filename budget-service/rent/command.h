/* Runs the user's COMMAND while instances live, and hears the signals of a rent. The caller has blocked
 * RENT_SIGNALS and SIGCHLD in all threads. */
#ifndef RENT_COMMAND_H
#define RENT_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Blocks SIGCHLD, and SIGINT, SIGTERM and SIGHUP unless they are ignored: from here on they are asked for. */
void rent_signals_block(void);

/* Waits so long, or until SIGINT, SIGTERM or SIGHUP has come. Returns its number, or 0. */
int rent_signals_wait(int milliseconds);

typedef struct rent_command {
    char *const *argv; /* ends with NULL; the program is looked for in PATH */
    int stdout_fd;
    int64_t deadline_s; /* by rent_clock_s: then it gets SIGTERM, */
    int64_t grace_s;    /* and SIGKILL so long after that */
} rent_command;

typedef struct rent_command_end {
    int exit_code; /* its own, or 128 and the signal */
    bool too_late; /* it was ended at the deadline */
} rent_command_end;

/* Runs it to its end, in the caller's process group: so Ctrl-C reaches it, and it may read from the terminal.
 * It gets the signals that other processes send to the caller alone. BASE_ERR_NOTFOUND, BASE_ERR_IO: it did not start. */
BASE_MUST_CHECK base_status rent_command_run(const rent_command *command, rent_command_end *end,
                                             base_error *reterr);

#endif
