/* A rent: creates the instances that a token allows, runs COMMAND while they live, and always ends them. */
#ifndef RENT_RENT_H
#define RENT_RENT_H

#include "budget/client.h"
#include "driver.h"
#include "end.h"

/* All pointers live until rent_run returns. */
typedef struct rent_plan {
    const char *token;
    const budget_claims *claims; /* of the token */
    rent_driver *driver;
    const budget_client_options *client;
    const char *directory; /* absolute; missing or empty */
    const char *flags;     /* " --out DIR …", as `end` needs them; may be empty */
    const char *image;     /* these may be empty */
    const char *ssh_public_key;
    int64_t disk_gb;
    char *const *command; /* ends with NULL */
    int command_stdout_fd;
} rent_plan;

typedef struct rent_result {
    int command_exit; /* COMMAND's; -1: it was not started */
    rent_end_outcome outcome;
    bool created;       /* the permit was used: what is reserved stays so until the end is proven */
    int64_t cost_micro; /* what the instances cost about; negative: not known */
    rent_held held;
} rent_result;

/* Blocks until all is ended; the signals are blocked from then on. Returns the exit code of the whole:
 * COMMAND's if the end is proven, BASE_EXIT_NEEDS_ATTENTION if it is not, a verdict's if nothing was created
 * for it, BASE_EXIT_REFUSED if the vendor would not. Says what happens on standard error. */
int rent_run(const rent_plan *plan, rent_result *result);

#endif
