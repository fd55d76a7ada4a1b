/* The passphrase that unlocks the signing key, and where it comes from.
 *
 * In this order: the file or descriptor that was named; $CREDENTIALS_DIRECTORY/budget-passphrase;
 * the terminal, when standard input is one. A trailing newline of a file is not part of it. */
#ifndef BUDGET_PASSPHRASE_H
#define BUDGET_PASSPHRASE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { BUDGET_PASSPHRASE_BYTES_MAX = 1024 };

#define BUDGET_PASSPHRASE_CREDENTIAL "budget-passphrase"

/* Lives in locked memory of its own. */
typedef struct budget_passphrase {
    size_t size_bytes;
    char text[BUDGET_PASSPHRASE_BYTES_MAX + 1];
} budget_passphrase;

typedef struct budget_passphrase_source {
    const char *file; /* NULL: not named */
    int fd;           /* read to its end and left open; -1: not named */
    bool confirm;     /* at a terminal: ask twice (for a new key) */
} budget_passphrase_source;

/* BASE_ERR_NOTFOUND when there is no source at all: nothing has been asked then. BASE_ERR_INVALID
 * for an empty one, a NUL within, or two that differ; BASE_ERR_LIMIT, BASE_ERR_AUTH (a file that
 * others may read), BASE_ERR_IO, BASE_ERR_MEMORY. Blocks while a person types. A signal that ends a
 * process (Ctrl-C) does so once the terminal is as it was; BASE_ERR_ABORTED where the caller has it
 * blocked, and it stays pending. For the only thread. */
BASE_MUST_CHECK base_status budget_passphrase_open(const budget_passphrase_source *source,
                                                   budget_passphrase **passphrase,
                                                   base_error *reterr);

/* Wipes and frees; NULL is fine. */
void budget_passphrase_close(budget_passphrase *passphrase);

#endif
