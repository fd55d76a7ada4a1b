/* Raises alarms: a line in the log, and one JSON object for the policy's hook. Called by reaper.c,
 * usage.c and bill_alarm.c. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "budget/money.h"
#include "budget/time.h"
#include "service.h"

enum { LINE_BYTES = 1600, INSTANCES_SHOWN_BYTES = 512 };

void service_alarm(budget_service *service, json_t *alarm, const char *format, ...)
{
    char line[LINE_BYTES];
    char at[BUDGET_TIME_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    base_log(BASE_LOG_WARNING, "ALARM: %s", line);
    budget_time_format(budget_time_now(), at);
    if (alarm != NULL && json_object_set_new(alarm, "at", json_string(at)) != 0) {
        json_decref(alarm);
        alarm = NULL;
    }
    service_hook_tell(&service->hook, alarm);
}

static void answer(void *user, uint64_t number, bool heard)
{
    service_unheard_answer(user, number, heard);
}

void service_alarm_look(budget_service *service)
{
    service_hook_look(&service->hook, answer, service);
}

/* What a person must know of a run's instances: "instances i-a, i-b", as many as fit. */
static void name_instances(char (*ids)[BUDGET_INSTANCE_BYTES], size_t count,
                           char text[INSTANCES_SHOWN_BYTES])
{
    size_t used = (size_t)snprintf(text, INSTANCES_SHOWN_BYTES, "%s",
                                   count == 0   ? "no instance attached"
                                   : count == 1 ? "instance "
                                                : "instances ");
    for (size_t i = 0; i < count; i++) {
        const bool fits = used + strlen(ids[i]) + 32 < INSTANCES_SHOWN_BYTES;
        used += (size_t)(fits ? snprintf(text + used, INSTANCES_SHOWN_BYTES - used, "%s%s",
                                         i > 0 ? ", " : "", ids[i])
                              : snprintf(text + used, INSTANCES_SHOWN_BYTES - used, " and %zu more",
                                         count - i));
        if (!fits) {
            break;
        }
    }
}

static json_t *run_json(const char *event, const budget_reservation *run,
                        char (*ids)[BUDGET_INSTANCE_BYTES], size_t count)
{
    char deadline[BUDGET_TIME_BYTES];
    json_t *instances = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(instances, json_string(ids[i]));
    }
    budget_time_format(run->entry.deadline, deadline);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:s, s:I}", "event", event, "label",
                     run->entry.label, "account", run->entry.account, "vendor", run->entry.vendor,
                     "jti", run->entry.jti, "instances", instances, "deadline", deadline,
                     "reserved_usd_micro", (json_int_t)run->rule.held);
}

base_status service_alarm_deadline(budget_service *service, const budget_reservation *run,
                                   bool passed, base_error *reterr)
{
    static char ids[BUDGET_INSTANCES_MAX][BUDGET_INSTANCE_BYTES];
    char names[INSTANCES_SHOWN_BYTES];
    char money[BUDGET_MONEY_BYTES];
    char when[BUDGET_TIME_BYTES];
    size_t count = 0;
    const base_status status =
        budget_ledger_instances(service->ledger, run->id, ids, &count, reterr);
    if (status != BASE_OK) {
        return status;
    }
    name_instances(ids, count, names);
    budget_money_show(run->rule.held, money);
    budget_time_format(run->entry.deadline, when);
    if (passed) {
        service_alarm(service, run_json("deadline-passed", run, ids, count),
                      "%s (account %s, vendor %s, %s) has passed its deadline of %s without proof "
                      "of termination; %s stays reserved. Look at the vendor's list, end the "
                      "instance, then: budget-service terminated %s --evidence FILE",
                      run->entry.label, run->entry.account, run->entry.vendor, names, when, money,
                      run->entry.label);
    } else {
        service_alarm(service, run_json("deadline-soon", run, ids, count),
                      "%s (account %s, vendor %s, %s) comes to its deadline at %s. If it has "
                      "ended: end the instance at the vendor, then: budget-service terminated %s "
                      "--evidence FILE",
                      run->entry.label, run->entry.account, run->entry.vendor, names, when,
                      run->entry.label);
    }
    return BASE_OK;
}

base_status service_clock_text(budget_service *service, char text[BUDGET_ANSWER_MESSAGE_BYTES],
                               base_error *reterr)
{
    int64_t wall_ms = 0;
    int64_t skew_ms = 0;
    text[0] = '\0';
    const base_status status =
        budget_ledger_now(service->ledger, &service->clock, &wall_ms, &skew_ms, reterr);
    if (status == BASE_OK && llabs(skew_ms) > BUDGET_CLOCK_SKEW_MS_MAX) {
        (void)snprintf(text, BUDGET_ANSWER_MESSAGE_BYTES,
                       "the wall clock is %lld s %s the ledger's time; if it is right, an admin "
                       "runs: budget-service clock repair",
                       llabs(skew_ms) / 1000, skew_ms > 0 ? "ahead of" : "behind");
    }
    return status;
}

base_status service_clock_look(budget_service *service, base_error *reterr)
{
    char text[BUDGET_ANSWER_MESSAGE_BYTES];
    const base_status status = service_clock_text(service, text, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const bool wrong = text[0] != '\0';
    if (wrong && !service->clock_is_wrong) {
        service_alarm(service, json_pack("{s:s, s:s}", "event", "clock-wrong", "message", text),
                      "%s", text);
    }
    service->clock_is_wrong = wrong;
    return BASE_OK;
}

void service_log_failure(budget_service *service, const char *message)
{
    const int64_t now_ns = base_now_ns();
    if (now_ns < service->failure_due_ns && strcmp(message, service->failure_logged) == 0) {
        return;
    }
    service->failure_due_ns = now_ns + SERVICE_FAILURE_AGAIN_S * BASE_NS_PER_S;
    (void)snprintf(service->failure_logged, sizeof service->failure_logged, "%s", message);
    base_log(BASE_LOG_ERROR, "%s", message);
}
