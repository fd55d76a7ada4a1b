/* Notices accounts that pass 80 % of their cap, that are above it, or that are frozen, and raises an
 * alarm for each, once until that has ended. Called by reaper.c, once a second; it looks only at new
 * rows. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "budget/money.h"
#include "service.h"

typedef enum notice {
    NOTICE_USED, /* at 80 %, and not above the cap */
    NOTICE_ABOVE_CAP,
    NOTICE_FROZEN,
    NOTICE_COUNT,
} notice;

static const char *const events[NOTICE_COUNT] = {"account-used", "account-above-cap",
                                                 "account-frozen"};

/* Names of accounts, in their order. */
typedef struct usage_names {
    size_t count;
    char (*names)[BUDGET_ACCOUNT_BYTES]; /* (BUDGET_ACCOUNTS_MAX) */
} usage_names;

/* Of one notice. */
typedef struct usage_watch {
    usage_names notified;
    usage_names now;
    budget_account *passed; /* (SERVICE_USAGE_MAX), of this look */
    size_t passed_count;
} usage_watch;

struct service_usage {
    uint64_t sequence; /* of the ledger when it was looked at last */
    usage_watch watches[NOTICE_COUNT];
};

static bool concerns(notice which, const budget_account *account)
{
    const double used = (double)account->posted_usd_micro + (double)account->reserved_usd_micro;
    const double cap = (double)account->cap_usd_micro;
    switch (which) {
    case NOTICE_USED:
        return used > 0 && used <= cap && used * 100 >= cap * SERVICE_USAGE_ALARM_PERCENT;
    case NOTICE_ABOVE_CAP:
        return used > cap;
    case NOTICE_FROZEN:
        return account->frozen;
    case NOTICE_COUNT:
        break;
    }
    return false;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void watch_account(usage_watch *watch, const budget_account *account)
{
    if (watch->now.count == BUDGET_ACCOUNTS_MAX) {
        return;
    }
    memcpy(watch->now.names[watch->now.count++], account->name, sizeof account->name);
    const bool notified = watch->notified.count > 0 &&
                          bsearch(account->name, watch->notified.names, watch->notified.count,
                                  sizeof watch->notified.names[0], compare_names) != NULL;
    if (notified) {
        return;
    }
    if (watch->passed_count == SERVICE_USAGE_MAX) {
        watch->now.count--; /* the next look notifies of it */
        return;
    }
    watch->passed[watch->passed_count++] = *account;
}

static bool look_at(void *context, const budget_account *account)
{
    struct service_usage *usage = context;
    for (int i = 0; i < NOTICE_COUNT; i++) {
        if (concerns((notice)i, account)) {
            watch_account(&usage->watches[i], account);
        }
    }
    return true;
}

static void notify(budget_service *service, notice which, const budget_account *account)
{
    char used[BUDGET_MONEY_BYTES];
    char cap[BUDGET_MONEY_BYTES];
    budget_money_show(account->posted_usd_micro + account->reserved_usd_micro, used);
    budget_money_show(account->cap_usd_micro, cap);
    json_t *alarm =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:b}", "event", events[which], "account",
                  account->name, "cap_usd_micro", (json_int_t)account->cap_usd_micro,
                  "posted_usd_micro", (json_int_t)account->posted_usd_micro, "reserved_usd_micro",
                  (json_int_t)account->reserved_usd_micro, "frozen", account->frozen);
    switch (which) {
    case NOTICE_USED:
        service_alarm(service, alarm, "account %s has used %s of its %s", account->name, used, cap);
        return;
    case NOTICE_ABOVE_CAP:
        service_alarm(
            service, alarm,
            "account %s is above its cap: %s of %s are posted or reserved; nothing more is "
            "granted from it",
            account->name, used, cap);
        return;
    case NOTICE_FROZEN:
        service_alarm(service, alarm,
                      "account %s is frozen: a cost was above its reservation or took it above its "
                      "cap, or credits were above the cost; an admin looks, then runs: "
                      "budget-service account acknowledge %s",
                      account->name, account->name);
        return;
    case NOTICE_COUNT:
        break;
    }
    json_decref(alarm);
}

static struct service_usage *make(base_error *reterr)
{
    struct service_usage *made = calloc(1, sizeof *made);
    bool good = made != NULL;
    for (int i = 0; i < NOTICE_COUNT && good; i++) {
        usage_watch *watch = &made->watches[i];
        watch->notified.names = calloc(BUDGET_ACCOUNTS_MAX, sizeof watch->notified.names[0]);
        watch->now.names = calloc(BUDGET_ACCOUNTS_MAX, sizeof watch->now.names[0]);
        watch->passed = calloc(SERVICE_USAGE_MAX, sizeof watch->passed[0]);
        good = watch->notified.names != NULL && watch->now.names != NULL && watch->passed != NULL;
    }
    if (!good) {
        service_usage_free(made);
        (void)base_fail(reterr, BASE_ERR_MEMORY, "no memory for the accounts' alarms");
        return NULL;
    }
    return made;
}

/* What was found is what was notified of, from now on. *more: there was no room for all. */
static void finish_look(budget_service *service, usage_watch *watch, notice which, bool *more)
{
    const usage_names before = watch->notified;
    watch->notified = watch->now;
    watch->now = before;
    *more |= watch->passed_count == SERVICE_USAGE_MAX;
    for (size_t i = 0; i < watch->passed_count; i++) {
        notify(service, which, &watch->passed[i]);
    }
}

base_status service_usage_look(budget_service *service, base_error *reterr)
{
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    bool more = false;
    if (service->usage == NULL && (service->usage = make(reterr)) == NULL) {
        return BASE_ERR_MEMORY;
    }
    struct service_usage *usage = service->usage;
    budget_ledger_head(service->ledger, &sequence, head);
    if (sequence == usage->sequence) {
        return BASE_OK;
    }
    for (int i = 0; i < NOTICE_COUNT; i++) {
        usage->watches[i].now.count = 0;
        usage->watches[i].passed_count = 0;
    }
    const base_status status = budget_ledger_accounts(service->ledger, look_at, usage, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (int i = 0; i < NOTICE_COUNT; i++) {
        finish_look(service, &usage->watches[i], (notice)i, &more);
    }
    usage->sequence = more ? 0 : sequence;
    return BASE_OK;
}

void service_usage_free(struct service_usage *usage)
{
    for (int i = 0; usage != NULL && i < NOTICE_COUNT; i++) {
        free(usage->watches[i].notified.names);
        free(usage->watches[i].now.names);
        free(usage->watches[i].passed);
    }
    free(usage);
}
