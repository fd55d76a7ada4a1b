/* Reads a bill's line from its message, with its ranges. Called by the service that compares it
 * (server/reconcile.c). */
#include "budget/charge.h"

#include <budget.pb-c.h>
#include <string.h>

#include "budget/money.h"
#include "budget/shape.h"
#include "budget/time.h"

static bool is_time(int64_t time_s)
{
    return time_s >= 0 && time_s <= BUDGET_TIME_S_MAX;
}

base_status budget_charge_read(const Ringfence__Budget__BillLine *line, budget_charge *charge,
                               base_error *reterr)
{
    memset(charge, 0, sizeof *charge);
    if (!budget_shape_read(&budget_charge_shape, &line->base, charge)) {
        return base_fail(reterr, BASE_ERR_INVALID, "a name too long");
    }
    if (charge->usd_micro > BUDGET_MONEY_MICRO_MAX || charge->usd_micro < -BUDGET_MONEY_MICRO_MAX ||
        !is_time(charge->at_s) || !is_time(charge->until_s)) {
        return base_fail(reterr, BASE_ERR_INVALID, "an amount or a time out of range");
    }
    return BASE_OK;
}
