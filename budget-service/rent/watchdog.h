/* A process that ends a rent's instances if the rent itself is killed.
 *
 * It is forked before anything is created, has a session of its own, and waits at a pipe for the rent's end.
 * Once armed, it ends the instances itself, and writes to end.log, if the pipe closes without the word that all
 * was ended, or if that word has not come at the deadline: then the rent may be stopped (Ctrl-Z). */
#ifndef RENT_GUARDIAN_H
#define RENT_GUARDIAN_H

#include <stdint.h>
#include <sys/types.h>

#include "budget/client.h"
#include "driver.h"

typedef struct rent_guardian {
    int fd; /* the write end: closed, the guardian begins */
    pid_t pid;
} rent_guardian;

/* All pointers live as long as the process. */
typedef struct rent_guarded {
    const budget_client_options *client;
    rent_driver *
        driver; /* its leader is shared with the guardian, which ends the call that the rent leaves */
    const budget_claims *claims;
    const char *directory;
} rent_guarded;

/* Call it before the process has threads. */
BASE_MUST_CHECK base_status rent_guardian_start(const rent_guarded *guarded,
                                                rent_guardian *guardian, base_error *reterr);

/* Something may be created from now on. deadline_s: by rent_clock_s. */
void rent_guardian_arm(const rent_guardian *guardian, int64_t deadline_s);

/* All was ended: the guardian ends as well, and is waited for. */
void rent_guardian_dismiss(rent_guardian *guardian);

/* A person does not want to wait: the guardian goes on alone. */
void rent_guardian_release(rent_guardian *guardian);

#endif
