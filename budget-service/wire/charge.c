/* A bill's line as a message, and back. Called by the client that sends a bill, and by the service
 * that compares it (server/reconcile.c). */
#include "budget/charge.h"

#include <budget.pb-c.h>
#include <string.h>

#include "budget/money.h"
#include "budget/time.h"

static char *borrow(const char *text)
{
    return (char *)(uintptr_t)text; /* protobuf-c packs it and changes nothing */
}

void budget_charge_write(const budget_charge *charge, Ringfence__Budget__BillLine *line)
{
    ringfence__budget__bill_line__init(line);
    line->vendor = borrow(charge->vendor);
    line->line_id = borrow(charge->line_id);
    line->label = borrow(charge->label);
    line->instance_id = borrow(charge->instance_id);
    line->usd_micro = charge->usd_micro;
    line->at = charge->at_s;
    line->until = charge->until_s;
}

static bool copy(char *into, size_t into_bytes, const char *text)
{
    const size_t length = strlen(text);
    if (length >= into_bytes) {
        return false;
    }
    memcpy(into, text, length + 1);
    return true;
}

static bool is_time(int64_t time_s)
{
    return time_s >= 0 && time_s <= BUDGET_TIME_S_MAX;
}

base_status budget_charge_read(const Ringfence__Budget__BillLine *line, budget_charge *charge,
                               base_error *reterr)
{
    memset(charge, 0, sizeof *charge);
    if (!copy(charge->vendor, sizeof charge->vendor, line->vendor) ||
        !copy(charge->line_id, sizeof charge->line_id, line->line_id) ||
        !copy(charge->label, sizeof charge->label, line->label) ||
        !copy(charge->instance_id, sizeof charge->instance_id, line->instance_id)) {
        return base_fail(reterr, BASE_ERR_INVALID, "a name too long");
    }
    if (line->usd_micro > BUDGET_MONEY_MICRO_MAX || line->usd_micro < -BUDGET_MONEY_MICRO_MAX ||
        !is_time(line->at) || !is_time(line->until)) {
        return base_fail(reterr, BASE_ERR_INVALID, "an amount or a time out of range");
    }
    charge->usd_micro = line->usd_micro;
    charge->at_s = line->at;
    charge->until_s = line->until;
    return BASE_OK;
}
