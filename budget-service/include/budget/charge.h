/* One line of a vendor's bill: as its reader makes it (budget/bill.h), as a client sends it, and as the
 * service compares it with the ledger. Pure. */
#ifndef BUDGET_CHARGE_H
#define BUDGET_CHARGE_H

#include <stdint.h>

#include "base/status.h"
#include "budget/shape.h"

typedef struct budget_charge {
    char vendor[BUDGET_NAME_BYTES]; /* as the ledger calls it; empty: the line names none */
    char line_id[BUDGET_LINE_ID_BYTES];
    char label[BUDGET_LABEL_BYTES];          /* empty: the line names none */
    char instance_id[BUDGET_INSTANCE_BYTES]; /* empty: the line names none */
    int64_t usd_micro;                       /* negative: a credit */
    int64_t at_s;                            /* when the period began; 0: not said */
    int64_t until_s;                         /* when it ended; 0: not said */
} budget_charge;

struct Ringfence__Budget__BillLine;

/* BASE_ERR_INVALID: a text that is too long, an amount or a time out of range. */
BASE_MUST_CHECK base_status budget_charge_read(const struct Ringfence__Budget__BillLine *line,
                                               budget_charge *charge, base_error *reterr);

#endif
