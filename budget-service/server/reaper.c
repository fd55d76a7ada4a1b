/* Looks for deadlines that have passed without proof of the end, and raises an alarm for each: at
 * once, and again and again until the end is proven. The money stays reserved: the instance may
 * still be billed, because a vendor's own timer may fail. Called by service.c's loop. */
#include <jansson.h>

#include "base/clock.h"
#include "base/log.h"
#include "budget/money.h"
#include "budget/time.h"
#include "service.h"

static void raise_alarm(budget_service *service, const budget_reservation *passed)
{
    char money[BUDGET_MONEY_BYTES];
    char when[BUDGET_TIME_BYTES];
    budget_money_show(passed->rule.held, money);
    budget_time_format(passed->entry.deadline, when);
    base_log(BASE_LOG_WARNING,
             "ALARM: %s (account %s, vendor %s) has passed its deadline of %s without proof of "
             "termination; %s stay reserved. Look at the vendor's list, end the instance, then: "
             "budget-service terminated %s --evidence FILE",
             passed->entry.label, passed->entry.account, passed->entry.vendor, when, money,
             passed->entry.label);
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I}", "event", "deadline-passed",
                               "label", passed->entry.label, "account", passed->entry.account,
                               "vendor", passed->entry.vendor, "jti", passed->entry.jti, "deadline",
                               when, "reserved_usd_micro", (json_int_t)passed->rule.held);
    service_hook_tell(&service->hook, object);
}

/* A due time on the monotonic clock; the loop looks again no later than that. */
static base_status next_due(budget_service *service, base_error *reterr)
{
    int64_t after_ms = 0;
    const base_status status =
        budget_ledger_next_deadline(service->ledger, &service->clock, &after_ms, reterr);
    if (status == BASE_OK) {
        /* Suspended time counts for deadlines and not for this clock: look each second anyway. */
        const int64_t wait_ms =
            after_ms < 0 || after_ms > SERVICE_IDLE_MS ? SERVICE_IDLE_MS : after_ms + 1;
        service->reaper_due_ns = base_now_ns() + wait_ms * BASE_NS_PER_MS;
    }
    return status;
}

/* Repeats the alarms of the oldest deadlines, at the start too: nobody may have heard them. */
static base_status raise_again(budget_service *service, budget_reservation passed[],
                               base_error *reterr)
{
    size_t count = 0;
    if (base_now_ns() < service->alarms_due_ns) {
        return BASE_OK;
    }
    service->alarms_due_ns = base_now_ns() + SERVICE_ALARM_AGAIN_S * BASE_NS_PER_S;
    const base_status status =
        budget_ledger_overdue(service->ledger, SERVICE_EXPIRE_MAX, passed, &count, reterr);
    for (size_t i = 0; i < count && status == BASE_OK; i++) {
        raise_alarm(service, &passed[i]);
    }
    return status;
}

base_status service_reap(budget_service *service, base_error *reterr)
{
    static budget_reservation passed[SERVICE_EXPIRE_MAX];
    size_t count = 0;
    if (base_now_ns() < service->reaper_due_ns) {
        return BASE_OK;
    }
    base_status status = raise_again(service, passed, reterr);
    if (status == BASE_OK) {
        status = budget_clock_read(&service->clock, reterr);
    }
    if (status == BASE_OK) {
        status = budget_ledger_begin(service->ledger, &service->clock, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    status = budget_ledger_expire(service->ledger, SERVICE_EXPIRE_MAX, passed, &count, reterr);
    if (status == BASE_OK) {
        status = budget_ledger_commit(service->ledger, reterr);
    } else {
        budget_ledger_rollback(service->ledger);
    }
    if (status != BASE_OK) {
        if (budget_ledger_broken(service->ledger)) {
            return status;
        }
        base_log(BASE_LOG_ERROR, "%s", reterr->message); /* tried again in a second */
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        raise_alarm(service, &passed[i]);
    }
    status = service_usage_look(service, reterr);
    if (status != BASE_OK) {
        return status;
    }
    return next_due(service, reterr);
}
