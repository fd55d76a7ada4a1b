/* A process that ends a rent's instances if the rent itself is killed.
 *
 * It is forked before anything is created, has a session of its own, and waits at a pipe for the rent's end.
 * Once armed, it ends the instances itself, and writes to end.log, if the pipe closes without the word that all
 * was ended, or if that word has not come at the deadline: then the rent may be stopped (Ctrl-Z). */
#ifndef RENT_WATCHDOG_H
#define RENT_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "budget/client.h"
#include "driver.h"

typedef struct rent_watchdog {
    int fd; /* the write end: closed, the watchdog begins */
    pid_t pid;
} rent_watchdog;

/* All pointers live as long as the process. */
typedef struct rent_watched {
    const budget_client_options *client;
    rent_driver *driver; /* its leader is shared: the watchdog ends the call that the rent leaves */
    const budget_claims *claims;
    const char *account; /* of the vendor, where the instances are */
    const char *directory;
    const char *flags; /* of rent_ending */
} rent_watched;

/* Call it before the process has threads. */
BASE_MUST_CHECK base_status rent_watchdog_start(const rent_watched *watched,
                                                rent_watchdog *watchdog, base_error *reterr);

/* Something may be created from now on. deadline_s: by rent_clock_s. */
void rent_watchdog_arm(const rent_watchdog *watchdog, int64_t deadline_s);

/* False: somebody has killed it. */
bool rent_watchdog_lives(const rent_watchdog *watchdog);

/* All was ended: the watchdog ends as well, and is waited for. */
void rent_watchdog_dismiss(rent_watchdog *watchdog);

/* A person does not want to wait: the watchdog goes on alone. */
void rent_watchdog_release(rent_watchdog *watchdog);

#endif
