/* The newest row of the ledger that this client has seen, in one line of a file that several
 * processes may share: "SEQUENCE HEAD CHECK\n", of fixed length, written in place and
 * read under a lock: on some filesystems a reader could see half of what is being written. */
#ifndef BUDGET_SEEN_H
#define BUDGET_SEEN_H

#include <stdint.h>

#include "base/path.h"
#include "base/status.h"
#include "budget/claims.h"

typedef struct budget_seen {
    int fd;
    char path[BASE_PATH_BYTES];
} budget_seen;

typedef struct budget_seen_row {
    uint64_t sequence; /* 0: nothing is known */
    uint8_t head[BUDGET_DIGEST_BYTES];
} budget_seen_row;

/* What a person does where the file and the ledger do not agree. */
#define BUDGET_SEEN_ADVICE                                                                         \
    "compare budget-service audit with the copies of checkpoints that you keep; to go on with "    \
    "this "                                                                                        \
    "ledger, remove"

/* Makes it, 0600, where it is missing. */
BASE_MUST_CHECK base_status budget_seen_open(const char *path, budget_seen *seen,
                                             base_error *reterr);
void budget_seen_close(budget_seen *seen);

/* BASE_ERR_INVALID: the file holds something else. It is not read as empty, because somebody may have
 * spoilt it to make the client forget. */
BASE_MUST_CHECK base_status budget_seen_read(const budget_seen *seen, budget_seen_row *row,
                                             base_error *reterr);

/* Writes row unless the file knows a newer one. */
BASE_MUST_CHECK base_status budget_seen_update(const budget_seen *seen, const budget_seen_row *row,
                                               base_error *reterr);

#endif
