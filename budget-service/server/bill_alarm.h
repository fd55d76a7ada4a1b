/* What of a bill's findings costs money: lines of instances that the ledger does not know, charges
 * after a proven end, a bill that comes to more than the ledger. A person who reconciles sees them. One
 * who lets cron do so hears of them by an alarm, one for each kind of finding. */
#ifndef BUDGET_SERVER_BILL_ALARM_H
#define BUDGET_SERVER_BILL_ALARM_H

#include <stddef.h>
#include <stdint.h>

#include "budget/reconcile.h"
#include "limits.h"

/* Names that an alarm has: the first SERVICE_BILL_NAMES_MAX different ones. */
typedef struct service_bill_names {
    size_t count;
    char texts[SERVICE_BILL_NAMES_MAX][BUDGET_LABEL_BYTES];
} service_bill_names;
_Static_assert((int)BUDGET_LABEL_BYTES >= (int)BUDGET_INSTANCE_BYTES, "either is a name");

/* Of the findings of one kind that cost money. */
typedef struct service_bill_sum {
    size_t count;
    size_t posted_count; /* of them: those whose bill is posted */
    int64_t bill_usd_micro;
    int64_t ledger_usd_micro;
    service_bill_names labels;
    service_bill_names instances;
} service_bill_sum;

/* Zeros: nothing yet. */
typedef struct service_bill_sums {
    service_bill_sum kinds[BUDGET_FINDING_COUNT_];
} service_bill_sums;

/* Adds a finding, if it costs money. */
void service_bill_note(service_bill_sums *sums, const budget_finding *finding);

/* Raises the alarms once the batch is committed (unheard.h). vendor: of the bill; NULL or "": it does not say. */
struct budget_service;
void service_bill_alarm(struct budget_service *service, const service_bill_sums *sums,
                        const char *vendor);

#endif
