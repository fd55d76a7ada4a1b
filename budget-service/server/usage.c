/* Notices accounts that pass 80 % of their cap: logs each and runs the policy's hook, once
 * until the account falls below it again. Called by reaper.c, once a second; it looks only at
 * new rows. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "budget/money.h"
#include "service.h"

/* The names of those that were notified, in their order. */
typedef struct usage_names {
    size_t count;
    char (*names)[BUDGET_ACCOUNT_BYTES]; /* (BUDGET_ACCOUNTS_MAX) */
} usage_names;

struct service_usage {
    uint64_t sequence; /* of the ledger when it was looked at last */
    usage_names notified;
    usage_names now;
    budget_account *passed; /* (SERVICE_USAGE_MAX), of this look */
    size_t passed_count;
};

static bool is_high(const budget_account *account)
{
    const double used = (double)account->posted_usd_micro + (double)account->reserved_usd_micro;
    return used > 0 && used * 100 >= (double)account->cap_usd_micro * SERVICE_USAGE_ALARM_PERCENT;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static bool look_at(void *context, const budget_account *account)
{
    struct service_usage *usage = context;
    if (!is_high(account) || usage->now.count == BUDGET_ACCOUNTS_MAX) {
        return true;
    }
    memcpy(usage->now.names[usage->now.count++], account->name, sizeof account->name);
    const bool notified = usage->notified.count > 0 &&
                          bsearch(account->name, usage->notified.names, usage->notified.count,
                                  sizeof usage->notified.names[0], compare_names) != NULL;
    if (!notified) {
        if (usage->passed_count == SERVICE_USAGE_MAX) {
            usage->now.count--; /* the next look notifies of it */
            return true;
        }
        usage->passed[usage->passed_count++] = *account;
    }
    return true;
}

static void notify(budget_service *service, const budget_account *account)
{
    char used[BUDGET_MONEY_BYTES];
    char cap[BUDGET_MONEY_BYTES];
    budget_money_show(account->posted_usd_micro + account->reserved_usd_micro, used);
    budget_money_show(account->cap_usd_micro, cap);
    base_log(BASE_LOG_WARNING, "account %s has used %s of its %s", account->name, used, cap);
    json_t *object = json_pack("{s:s, s:s, s:i, s:I, s:I, s:I}", "event", "account-used", "account",
                               account->name, "percent", SERVICE_USAGE_ALARM_PERCENT,
                               "cap_usd_micro", (json_int_t)account->cap_usd_micro,
                               "posted_usd_micro", (json_int_t)account->posted_usd_micro,
                               "reserved_usd_micro", (json_int_t)account->reserved_usd_micro);
    service_hook_tell(&service->hook, object);
}

static struct service_usage *make(base_error *reterr)
{
    struct service_usage *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->notified.names = calloc(BUDGET_ACCOUNTS_MAX, sizeof made->notified.names[0]);
        made->now.names = calloc(BUDGET_ACCOUNTS_MAX, sizeof made->now.names[0]);
        made->passed = calloc(SERVICE_USAGE_MAX, sizeof made->passed[0]);
    }
    if (made == NULL || made->notified.names == NULL || made->now.names == NULL ||
        made->passed == NULL) {
        service_usage_free(made);
        (void)base_fail(reterr, BASE_ERR_MEMORY, "no memory for the accounts' alarms");
        return NULL;
    }
    return made;
}

base_status service_usage_look(budget_service *service, base_error *reterr)
{
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    if (service->usage == NULL && (service->usage = make(reterr)) == NULL) {
        return BASE_ERR_MEMORY;
    }
    struct service_usage *usage = service->usage;
    budget_ledger_head(service->ledger, &sequence, head);
    if (sequence == usage->sequence) {
        return BASE_OK;
    }
    usage->now.count = 0;
    usage->passed_count = 0;
    const base_status status = budget_ledger_accounts(service->ledger, look_at, usage, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const usage_names before = usage->notified;
    usage->notified = usage->now;
    usage->now = before;
    usage->sequence = usage->passed_count < SERVICE_USAGE_MAX ? sequence : 0;
    for (size_t i = 0; i < usage->passed_count; i++) {
        notify(service, &usage->passed[i]);
    }
    return BASE_OK;
}

void service_usage_free(struct service_usage *usage)
{
    if (usage != NULL) {
        free(usage->notified.names);
        free(usage->now.names);
        free(usage->passed);
        free(usage);
    }
}
