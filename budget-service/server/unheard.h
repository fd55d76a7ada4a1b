/* Alarms of bills that the policy's hook has not heard. Each other alarm is raised again while its cause
 * lasts; that of a bill is not, because the bill's sum is posted then, and the next reconcile says
 * "matched". So it stands in DIR/alarms.json from before the commit of its reconcile until the hook has
 * ended with 0. Until then it is raised again at each start, and every SERVICE_ALARM_AGAIN_S if the
 * hook has failed. A service that is killed between file and commit may raise one of a reconcile that
 * came to nothing. Without a hook an alarm is heard when it is in the log. */
#ifndef BUDGET_SERVER_UNHEARD_H
#define BUDGET_SERVER_UNHEARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "limits.h"

struct budget_service;
struct json_t;

typedef struct service_unheard_entry {
    struct json_t *alarm; /* for the hook, without its time */
    struct json_t *line;  /* of the log */
    uint64_t number;      /* that the hook has for it; 0: it must be raised again */
} service_unheard_entry;

typedef struct service_unheard {
    service_unheard_entry entries[SERVICE_UNHEARD_MAX]; /* oldest first */
    size_t count;
    size_t committed; /* of them, the first; the others are of the batch */
} service_unheard;

/* Reads the file. One that cannot be read is logged: it must not keep the service from its deadlines. */
void service_unheard_load(struct budget_service *service);

/* Adds an alarm of this batch, and takes it (NULL: there was no memory for it). */
void service_unheard_add(struct budget_service *service, struct json_t *alarm, const char *line);

/* Before the commit: what the batch has added is on the disk. Blocks for that. */
BASE_MUST_CHECK base_status service_unheard_prepare(struct budget_service *service,
                                                    base_error *reterr);

/* After it: raises what the batch has added, or forgets it where the commit has failed. */
void service_unheard_settle(struct budget_service *service, bool is_committed);

/* The hook has ended for the alarm of this number. */
void service_unheard_answer(struct budget_service *service, uint64_t number, bool heard);

/* Raises those again that the hook does not have. */
void service_unheard_raise(struct budget_service *service);

/* Of the committed ones, how many must be raised again. */
size_t service_unheard_count(const struct budget_service *service);

void service_unheard_free(struct budget_service *service);

#endif
