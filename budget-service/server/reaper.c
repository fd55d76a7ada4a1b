/* Looks at deadlines. A run that comes to its deadline is reminded of, once. One that has passed it
 * without proof of the end raises an alarm: at once, and again and again until the end is proven. The
 * money stays reserved: the instance may still be billed, because a vendor's own timer may fail.
 * Alarms need no row, so that a full disk hides none. Called by service.c's loop. */
#include "base/clock.h"
#include "budget/policy.h"
#include "service.h"

static base_status raise_all(budget_service *service, bool passed, const budget_reservation *runs,
                             size_t count, base_error *reterr)
{
    base_status status = BASE_OK;
    for (size_t i = 0; i < count && status == BASE_OK; i++) {
        status = service_alarm_deadline(service, &runs[i], passed, reterr);
    }
    return status;
}

/* The next runs past their deadline, by deadline; from time to time, and at the start, all of them
 * from the oldest one on: nobody may have heard the alarm. */
static base_status raise_overdue(budget_service *service, budget_reservation runs[],
                                 base_error *reterr)
{
    size_t count = 0;
    if (base_now_ns() >= service->alarms_due_ns) {
        service->alarms_due_ns = base_now_ns() + SERVICE_ALARM_AGAIN_S * BASE_NS_PER_S;
        service->overdue = (budget_ledger_moment){0};
        service_unheard_raise(service);
    }
    const base_status status = budget_ledger_overdue(service->ledger, &service->overdue,
                                                     SERVICE_EXPIRE_MAX, runs, &count, reterr);
    return status == BASE_OK ? raise_all(service, true, runs, count, reterr) : status;
}

static base_status raise_ending(budget_service *service, budget_reservation runs[],
                                base_error *reterr)
{
    size_t count = 0;
    const base_status status = budget_ledger_ending(
        service->ledger, budget_policy_reminder_seconds(service->policy) * 1000,
        &service->ending_soon, SERVICE_EXPIRE_MAX, runs, &count, reterr);
    return status == BASE_OK ? raise_all(service, false, runs, count, reterr) : status;
}

/* Rows of the deadlines that have passed. *written: false if there is no room for them now; only a
 * broken ledger is a failure. */
static base_status write_rows(budget_service *service, budget_reservation runs[], bool *written,
                              base_error *reterr)
{
    size_t count = 0;
    base_status status = budget_clock_read(&service->clock, reterr);
    if (status == BASE_OK) {
        status = budget_ledger_begin(service->ledger, &service->clock, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    status = budget_ledger_expire(service->ledger, SERVICE_EXPIRE_MAX, runs, &count, reterr);
    if (status == BASE_OK) {
        status = budget_ledger_commit(service->ledger, reterr);
    } else {
        budget_ledger_rollback(service->ledger);
    }
    *written = status == BASE_OK;
    if (status != BASE_OK && budget_ledger_broken(service->ledger)) {
        return status;
    }
    if (status != BASE_OK) {
        service_log_failure(service, reterr->message);
    }
    return BASE_OK;
}

/* A due time on the monotonic clock; the loop looks again no later than that. */
static base_status next_due(budget_service *service, bool written, base_error *reterr)
{
    int64_t after_ms = 0;
    const base_status status =
        budget_ledger_next_deadline(service->ledger, &service->clock, &after_ms, reterr);
    if (status == BASE_OK) {
        /* Suspended time counts for deadlines and not for this clock: look each second anyway. */
        const bool soon = written && after_ms >= 0 && after_ms < SERVICE_IDLE_MS;
        service->reaper_due_ns =
            base_now_ns() + (soon ? after_ms + 1 : SERVICE_IDLE_MS) * BASE_NS_PER_MS;
    }
    return status;
}

base_status service_reap(budget_service *service, base_error *reterr)
{
    static budget_reservation runs[SERVICE_EXPIRE_MAX];
    bool written = false;
    if (base_now_ns() < service->reaper_due_ns) {
        return BASE_OK;
    }
    service_alarm_look(service);
    base_status status = write_rows(service, runs, &written, reterr);
    if (status == BASE_OK) {
        status = raise_overdue(service, runs, reterr);
    }
    if (status == BASE_OK) {
        status = raise_ending(service, runs, reterr);
    }
    if (status == BASE_OK) {
        status = service_clock_look(service, reterr);
    }
    if (status == BASE_OK) {
        status = service_usage_look(service, reterr);
    }
    return status == BASE_OK ? next_due(service, written, reterr) : status;
}
