/* The ledger operation that sets right which instance was attached. Called by server/handle_facts.c
 * and audit/replay.c. */
#include <string.h>

#include "ledger_core.h"

/* The row of the instance of this vendor; *owner is 0 where there is none. */
static base_status find_owner(ledger_op *op, const char *instance, const char *vendor,
                              int64_t *owner)
{
    base_status status =
        store_query(op->store, op->reterr, SQL_INSTANCE_GET, "id:t vendor:t", instance, vendor);
    *owner = 0;
    if (store_next(op->store, SQL_INSTANCE_GET, &status, op->reterr)) {
        *owner = store_int(op->store, SQL_INSTANCE_GET, 0);
        store_done(op->store, SQL_INSTANCE_GET);
    }
    return status;
}

/* Why it is refused, if it is. The instance was right if the vendor has billed it. */
static base_status look(ledger_op *op, const budget_reservation *found,
                        const budget_replacement *what, bool *refused)
{
    int64_t old_owner = 0;
    int64_t new_owner = 0;
    int64_t lines = 0;
    const char *vendor = found->entry.vendor;
    base_status status = find_owner(op, what->replaces, vendor, &old_owner);
    status = status == BASE_OK ? find_owner(op, what->instance_id, vendor, &new_owner) : status;
    if (status == BASE_OK) {
        status = store_number(op->store, op->reterr, SQL_LINE_OF_INSTANCE, &lines,
                              "reservation:i instance:t", found->id, what->replaces);
    }
    *refused = status == BASE_OK && (old_owner != found->id || new_owner != 0 || lines > 0);
    if (!*refused) {
        return status;
    }
    if (old_owner != found->id) {
        return op_refuse(op, BUDGET_REASON_STATE,
                         "%.80s has no instance %.80s: budget-service list shows those it has",
                         what->label, what->replaces);
    }
    if (new_owner == found->id) {
        return op_refuse(op, BUDGET_REASON_INSTANCE_USED,
                         "the instance %.100s of %s is attached already", what->instance_id,
                         vendor);
    }
    if (new_owner != 0) {
        return op_refuse_owned(op, found, new_owner, what->instance_id);
    }
    return op_refuse(op, BUDGET_REASON_STATE,
                     "a bill has charged the instance %.100s: it was no mistake", what->replaces);
}

static base_status replace(ledger_op *op, const budget_replacement *what)
{
    budget_reservation before;
    base_status status = BASE_OK;
    bool refused = false;
    op->row.text = what->instance_id;
    if (!op_load(op, what->label, &before, &status)) {
        return status;
    }
    status = look(op, &before, what, &refused);
    if (status != BASE_OK || refused) {
        return status;
    }
    budget_reservation after = before;
    /* what was proven is the end of another instance */
    if (!before.entry.attested && budget_rule_refute(&after.rule, &op->ledger->now)) {
        op_say_refuted(op);
    }
    op->row.kind = BUDGET_KIND_REPLACE;
    op->row.data = what->replaces;
    op->row.data_bytes = strlen(what->replaces);
    status = reservation_change(op, &before, &after);
    if (status != BASE_OK || op->answer->reason != BUDGET_REASON_NONE) {
        return status;
    }
    return store_run_one(op->store, op->reterr, SQL_INSTANCE_REPLACE,
                         "id:t seq:i before:t vendor:t reservation:i", what->instance_id,
                         (int64_t)op->row.sequence, what->replaces, before.entry.vendor, before.id);
}

base_status budget_ledger_replace(budget_ledger *ledger, const budget_caller *caller,
                                  const budget_replacement *what, budget_answer *answer,
                                  base_error *reterr)
{
    ledger_op op;
    base_status status = text_check("a label", what->label, BUDGET_LABEL_BYTES, reterr);
    if (status == BASE_OK) {
        status = text_check("an instance id", what->instance_id, BUDGET_INSTANCE_BYTES, reterr);
    }
    if (status == BASE_OK) {
        status = text_check("an instance id", what->replaces, BUDGET_INSTANCE_BYTES, reterr);
    }
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = replace(&op, what);
    }
    return op_end(&op, status);
}
