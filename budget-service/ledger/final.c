/* What a bill says of a run's end: its cost is final, and what is left of the reservation returns; or
 * it did not end then. Called by reconcile.c, audit/replay.c, and by outcome.c for an instance that the
 * proof of the end does not describe. */
#include "base/bytes.h"
#include "ledger_core.h"

static base_status finalize(ledger_op *op, int64_t id, const budget_rule_bill *bill)
{
    budget_reservation before;
    const base_status status = reservation_load_id(op->ledger, id, &before, op->reterr);
    if (status != BASE_OK) {
        return status;
    }
    budget_reservation after = before;
    if (budget_rule_finalize(&after.rule, bill, &op->ledger->now) != BUDGET_REASON_NONE) {
        return BASE_OK;
    }
    base_writer writer = base_writer_make(op->data, sizeof op->data);
    base_write_u64(&writer, (uint64_t)bill->until_ms);
    base_write_u64(&writer, (uint64_t)bill->billed_until_ms);
    base_write_u64(&writer, (uint64_t)bill->settling_ms);
    op->row.kind = BUDGET_KIND_FINAL;
    op->row.data = op->data;
    op->row.data_bytes = writer.offset_bytes;
    return reservation_change(op, &before, &after);
}

base_status reservation_finalize(budget_ledger *ledger, const budget_caller *caller, int64_t id,
                                 const budget_rule_bill *bill, base_error *reterr)
{
    ledger_op op;
    budget_answer answer;
    base_status status = BASE_OK;
    if (op_begin(&op, ledger, caller, &answer, reterr, &status)) {
        status = finalize(&op, id, bill);
    }
    return op_end(&op, status);
}

static base_status refute(ledger_op *op, int64_t id)
{
    budget_reservation before;
    const base_status status = reservation_load_id(op->ledger, id, &before, op->reterr);
    budget_reservation after = before;
    if (status != BASE_OK || !budget_rule_refute(&after.rule, &op->ledger->now)) {
        return status;
    }
    op->row.kind = BUDGET_KIND_REFUTED;
    return reservation_change(op, &before, &after);
}

base_status reservation_refute(budget_ledger *ledger, const budget_caller *caller, int64_t id,
                               base_error *reterr)
{
    ledger_op op;
    budget_answer answer;
    base_status status = BASE_OK;
    if (op_begin(&op, ledger, caller, &answer, reterr, &status)) {
        status = refute(&op, id);
    }
    return op_end(&op, status);
}
