/* The vendor's bill against the ledger.
 *
 * A line belongs to a label by its label, or by its vendor and attached instance. Which vendor's it
 * is, the line says, or the options do. Where neither does and the ledger has runs of several
 * vendors, an instance alone says nothing (nor does the instance of a run that was authorized
 * without a vendor): the line is ambiguous, and nothing is recorded of it. No
 * cost is final by a bill with such lines, nor by one of which lines are passed over.
 *
 * For each label, the bill's lines seen so far must come to what is posted, and are posted if they are
 * more:
 *   - nothing recorded by hand: new lines are recorded as actuals, each once, by their ids, and so is
 *     by how much known ones have grown: matched
 *   - recorded by hand, and the same but for rounding (half a cent a line, half a dollar in all): the
 *     lines, new and changed ones, take its place, so that what is posted is exactly what is billed:
 *     matched
 *   - otherwise: differing. If the bill says something new, by which it comes to more than is posted,
 *     it is a fact: its lines are recorded, and just the bill is posted. If not, nothing is recorded
 *     until a person has looked
 *   - credits take the sum below 0: the lines are recorded, and count as nothing: differing, and
 *     the account is frozen
 *
 * A matched run that has ended: its cost is final, and what is left of the reservation returns,
 * when the bill's periods of each instance go from the run's beginning to its end, or as_of is later
 * than that by the vendor's settling time (budget_rule_finalize). The latter needs each instance that
 * the token allows to be attached, or an admin who vouched for the end.
 *
 * Further findings:
 *   - missing_in_ledger: a line whose label or instance the ledger does not know
 *   - after_the_end: lines of a run, charges, that begin after its proven end, by more than the
 *     vendor's granularity: the instance was not gone. Beside what else is found about the run; no
 *     cost of it is final by this bill
 *   - frozen: a run on the bill whose account is frozen, where it cost more than was reserved for it,
 *     or credits exceed its costs, or a line of this bill took an account above its cap after the
 *     cost was final. Beside what else is found about the run; the sums are the reserved amount and
 *     all that it cost
 *   - unknown: a line that names neither; or a run that was on before as_of, has not ended, and is
 *     on no bill: its cost is not known
 *   - missing_in_bill: a run with a cost, or ended, that no line of any bill is about; runs of
 *     vendor "local" are never expected */
#ifndef BUDGET_RECONCILE_H
#define BUDGET_RECONCILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/bill.h"
#include "budget/ledger.h"
#include "budget/policy.h"

typedef enum budget_finding_kind {
    BUDGET_FINDING_MATCHED,
    BUDGET_FINDING_MISSING_IN_BILL,
    BUDGET_FINDING_MISSING_IN_LEDGER,
    BUDGET_FINDING_DIFFERING,
    BUDGET_FINDING_UNKNOWN,
    BUDGET_FINDING_AMBIGUOUS,
    BUDGET_FINDING_AFTER_THE_END,
    BUDGET_FINDING_FROZEN,
    BUDGET_FINDING_COUNT_,
} budget_finding_kind;

/* "matched", "missing_in_bill", …; never NULL. */
const char *budget_finding_name(budget_finding_kind kind);

typedef struct budget_finding {
    budget_finding_kind kind;
    const char *label; /* never NULL, may be empty; valid until the visit returns, as all here */
    const char *instance_id;
    const char *line_id;
    int64_t ledger_usd_micro;
    int64_t bill_usd_micro;
    bool posted;         /* DIFFERING: the bill is posted; else nothing of it */
    bool known;          /* AFTER_THE_END: a bill before had all of it, and the cost is final */
    const char *account; /* FROZEN: which; else NULL */
    const char *message; /* FROZEN: why; else NULL */
} budget_finding;

typedef struct budget_reconcile_options {
    int64_t as_of_s;    /* lines that begin later are passed over, runs that began later not
                         * expected */
    const char *vendor; /* of the lines that name none, and only its runs are expected; NULL or "":
                         * not known, and all but local ones are expected */
    const budget_policy
        *policy; /* the vendors' settling times and granularity; NULL: the default */
    const budget_charge *charges;
    size_t count;
    void (*visit)(void *context, const budget_finding *finding); /* every finding but the matched
                                                                  * ones; may be NULL */
    void *context;
} budget_reconcile_options;

typedef struct budget_reconciled {
    /* labels; lines for missing_in_ledger, ambiguous and unknown lines */
    int64_t counts[BUDGET_FINDING_COUNT_];
    int64_t passed_over; /* lines that begin after as_of */
    int64_t recorded;    /* new actuals, corrected lines among them */
    int64_t unsettled;   /* labels that matched and have ended, and whose cost is not final yet */
    int64_t unsettled_usd_micro; /* what stays reserved for them */
} budget_reconciled;

/* In a batch. BASE_ERR_INVALID: two lines of the bill have the same id. */
BASE_MUST_CHECK base_status budget_reconcile_run(budget_ledger *ledger, const budget_caller *caller,
                                                 const budget_reconcile_options *options,
                                                 budget_reconciled *result, base_error *reterr);

#endif
