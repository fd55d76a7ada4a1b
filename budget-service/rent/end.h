/* Ends all instances that a label has at its vendor, and proves it to the service. Used by rent.c, by its
 * watchdog, and by `budget-service end`. Blocks; one thread. */
#ifndef RENT_END_H
#define RENT_END_H

#include <stdbool.h>

#include "budget/client.h"
#include "driver.h"
#include "held.h"

enum {
    RENT_LATE_S = 120, /* an instance may show so long after its order */
    RENT_LINE_BYTES = 1024,
};

/* Until then the instance of that number, from 1, may be ordered: an end that does not know the rent waits so long, and
 * RENT_LATE_S, for what it may show. Then all may be taken for ended, so a rent that has slept orders nothing more. */
int64_t rent_order_end_s(int64_t permit_s, int64_t number);

/* How a caller hears of it, and waits: pause returns false when the caller gives up. */
typedef struct rent_reporter {
    void (*say)(void *user, const char *line);
    bool (*pause)(void *user, int milliseconds);
    void (*found)(void *user); /* an instance, or its name, is known now; may be NULL */
    void *user;
} rent_reporter;

/* As `say` of a command: the line on standard error. user is not looked at. */
void rent_print(void *user, const char *line);

/* For a `pause` that hears of nothing. */
void rent_sleep(int milliseconds);

void rent_say(const rent_reporter *reporter, const char *format, ...) BASE_PRINTF(2, 3);

typedef struct rent_ending {
    const rent_driver *driver;
    budget_client *client; /* NULL: the service cannot be asked, so nothing is attached or proven */
    const char *
        account; /* of the vendor, where the instances are: what another one says counts for nothing. "": the
                            * driver says none. All is ended then, and nothing proven */
    bool
        is_unplaced; /* the ledger does not know the account yet: an instance that is seen says it */
    const char *label;
    const char *jti;
    int64_t instances_max;     /* that the token allows */
    int64_t ordered;           /* that may have been created: */
    int64_t late_ns;           /* until then one that the vendor has not shown yet may come */
    const char *evidence_path; /* where it is kept; NULL: nowhere */
    const char *flags; /* that `budget-service end LABEL` takes for the same; may be empty */
    bool is_watched;   /* if this is given up, a process goes on */
    const rent_reporter *reporter;
} rent_ending;

typedef enum rent_end_outcome {
    RENT_END_PROVEN,
    RENT_END_UNPROVEN, /* none is left, but the service takes no proof: an admin has to vouch */
    RENT_END_OPEN,     /* given up: something may still be billed */
} rent_end_outcome;

/* Deletes until the vendor says of each instance that it is gone, and its list has none with the jti in its
 * name. An instance that is attached and carries no jti in its name is not deleted: somebody else may have
 * made it. Says what it does, and why the end is not proven. */
rent_end_outcome rent_end(const rent_ending *ending, rent_held *held);

#endif
