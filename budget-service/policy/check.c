/* Fills what a request leaves open from the policy, and checks the claims against its limits.
 * Called by server/handle_authorize.c before the ledger is asked. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "budget/money.h"
#include "policy_core.h"

static const policy_vendor *vendor_named(const budget_policy *policy, const char *name)
{
    for (int i = 0; i < policy->vendor_count; i++) {
        if (strcmp(policy->vendors[i].name, name) == 0) {
            return &policy->vendors[i];
        }
    }
    return NULL;
}

int64_t budget_policy_granularity_seconds(const budget_policy *policy, const char *vendor)
{
    const policy_vendor *found = policy != NULL ? vendor_named(policy, vendor) : NULL;
    return found != NULL ? found->granularity_s : BUDGET_POLICY_GRANULARITY_S;
}

int64_t budget_policy_settling_seconds(const budget_policy *policy, const char *vendor)
{
    const policy_vendor *found = policy != NULL ? vendor_named(policy, vendor) : NULL;
    return found != NULL ? found->settling_s : BUDGET_POLICY_SETTLING_S;
}

/* The entries that hold for an account, the nearest first. */
typedef struct policy_entries {
    int count;
    const policy_account *found[BUDGET_ACCOUNT_DEPTH_MAX + 1];
} policy_entries;

static const policy_account *entry_named(const budget_policy *policy, const char *name)
{
    for (int i = 0; i < policy->account_count; i++) {
        if (strcmp(policy->accounts[i].name, name) == 0) {
            return &policy->accounts[i];
        }
    }
    return NULL;
}

static policy_entries entries_of(const budget_policy *policy, const char *account)
{
    char name[BUDGET_ACCOUNT_BYTES];
    policy_entries made = {0};
    (void)snprintf(name, sizeof name, "%s", account);
    for (int i = 0; i < BUDGET_ACCOUNT_DEPTH_MAX && name[0] != '\0'; i++) {
        const policy_account *entry = entry_named(policy, name);
        if (entry != NULL) {
            made.found[made.count++] = entry;
        }
        char *slash = strrchr(name, '/');
        *(slash != NULL ? slash : name) = '\0';
    }
    const policy_account *all = entry_named(policy, "*");
    if (all != NULL) {
        made.found[made.count++] = all;
    }
    return made;
}

static void fill_text(char text[BUDGET_NAME_BYTES], const char *value)
{
    if (text[0] == '\0') {
        memcpy(text, value, BUDGET_NAME_BYTES);
    }
}

static void fill_number(int64_t *number, int64_t value)
{
    if (*number == 0 && value >= 0) {
        *number = value;
    }
}

/* No price was said: the highest that the amount pays for, so that money, price and time bound each
 * other all the same. */
static void fill_price(const budget_policy *policy, budget_claims *claims)
{
    const int64_t seconds =
        claims->max_seconds + budget_policy_granularity_seconds(policy, claims->vendor);
    int64_t hours_of_all = 0; /* in seconds */
    int64_t paid = 0;
    if (claims->max_price_usd_micro_per_hour == 0 && claims->max_usd_micro > 0 &&
        claims->instances > 0 && seconds > 0 &&
        !__builtin_mul_overflow(claims->instances, seconds, &hours_of_all) &&
        !__builtin_mul_overflow(claims->max_usd_micro, (int64_t)3600, &paid)) {
        claims->max_price_usd_micro_per_hour = paid / hours_of_all;
        claims->price_derived = true;
    }
}

/* A day of one's own machine, or what the policy allows of it. */
static int64_t local_seconds(const policy_entries *entries)
{
    int64_t seconds = BUDGET_POLICY_LOCAL_SECONDS;
    for (int i = 0; i < entries->count; i++) {
        const int64_t limit = entries->found[i]->limits.max_seconds;
        seconds = limit >= 0 && limit < seconds ? limit : seconds;
    }
    return seconds;
}

void budget_policy_fill(const budget_policy *policy, budget_claims *claims)
{
    const policy_entries entries = entries_of(policy, claims->account);
    for (int i = 0; i < entries.count; i++) {
        const policy_defaults *from = &entries.found[i]->defaults;
        fill_text(claims->mode, from->mode);
        fill_text(claims->vendor, from->vendor);
        fill_text(claims->instance_type, from->instance_type);
        fill_text(claims->tier, from->tier);
        fill_number(&claims->world_size, from->world_size);
        fill_number(&claims->instances, from->instances);
        fill_number(&claims->gpus, from->gpus);
        fill_number(&claims->max_attempts, from->max_attempts);
        fill_number(&claims->max_price_usd_micro_per_hour, from->max_price);
        fill_number(&claims->max_seconds, from->max_seconds);
    }
    if (claims->vendor[0] == '\0') {
        (void)snprintf(claims->vendor, sizeof claims->vendor, "%s",
                       claims->max_usd_micro == 0 ? "local" : BUDGET_VENDOR_ANY);
    }
    fill_number(&claims->instances, 1);
    fill_number(&claims->max_attempts, 1);
    fill_number(&claims->max_seconds, strcmp(claims->vendor, "local") == 0 ? local_seconds(&entries)
                                                                           : BUDGET_POLICY_SECONDS);
    fill_price(policy, claims);
}

static bool listed(const name_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->names[i], name) == 0) {
            return true;
        }
    }
    return list->count == 0;
}

static budget_reason over(char *message, const policy_account *entry, const char *what,
                          int64_t asked, int64_t limit)
{
    (void)snprintf(message, BUDGET_POLICY_MESSAGE_BYTES,
                   "the policy of %s allows %s up to %" PRId64 ", asked %" PRId64, entry->name,
                   what, limit, asked);
    return BUDGET_REASON_POLICY;
}

static budget_reason over_money(char *message, const policy_account *entry, const char *what,
                                int64_t asked, int64_t limit)
{
    char asked_text[BUDGET_MONEY_BYTES];
    char limit_text[BUDGET_MONEY_BYTES];
    budget_money_show(asked, asked_text);
    budget_money_show(limit, limit_text);
    (void)snprintf(message, BUDGET_POLICY_MESSAGE_BYTES,
                   "the policy of %s allows %s up to %s, asked %s", entry->name, what, limit_text,
                   asked_text);
    return BUDGET_REASON_POLICY;
}

static budget_reason over_hours(char *message, const policy_account *entry, const char *what,
                                int64_t asked, int64_t limit)
{
    (void)snprintf(message, BUDGET_POLICY_MESSAGE_BYTES,
                   "the policy of %s allows %s up to %.6g h, asked %.6g h", entry->name, what,
                   (double)limit / 3600, (double)asked / 3600);
    return BUDGET_REASON_POLICY;
}

/* As many of the names as there is room for. */
static budget_reason not_listed(char *message, const policy_account *entry, const char *what,
                                const name_list *list, const char *name)
{
    static const char more[] = " and more";
    const size_t room = BUDGET_POLICY_MESSAGE_BYTES + 1 - sizeof more;
    size_t used = (size_t)snprintf(message, BUDGET_POLICY_MESSAGE_BYTES,
                                   "the policy of %s does not allow the %s \"%s\", but",
                                   entry->name, what, name);
    for (int i = 0; i < list->count; i++) {
        const char *between = i == 0 ? " " : ", ";
        if (used + strlen(between) + strlen(list->names[i]) >= room) {
            (void)snprintf(message + used, sizeof more, "%s", more);
            break;
        }
        used += (size_t)snprintf(message + used, BUDGET_POLICY_MESSAGE_BYTES - used, "%s%s",
                                 between, list->names[i]);
    }
    return BUDGET_REASON_POLICY;
}

static budget_reason check_entry(const policy_account *entry, const budget_claims *claims,
                                 char *message)
{
    const policy_limits *limits = &entry->limits;
    if (!listed(&limits->modes, claims->mode)) {
        return not_listed(message, entry, "mode", &limits->modes, claims->mode);
    }
    if (!listed(&limits->vendors, claims->vendor)) {
        return not_listed(message, entry, "vendor", &limits->vendors, claims->vendor);
    }
    if (!listed(&limits->tiers, claims->tier)) {
        return not_listed(message, entry, "tier", &limits->tiers, claims->tier);
    }
    const struct {
        const char *what;
        int64_t asked;
        int64_t limit;
        budget_reason (*over)(char *message, const policy_account *entry, const char *what,
                              int64_t asked, int64_t limit);
    } numbers[] = {
        {"instances", claims->instances, limits->instances, over},
        {"a world size", claims->world_size, limits->world_size, over},
        {"attempts", claims->max_attempts, limits->max_attempts, over},
        {"a time", claims->max_seconds, limits->max_seconds, over_hours},
        {"a price per hour", claims->max_price_usd_micro_per_hour, limits->max_price, over_money},
        {"an amount", claims->max_usd_micro, limits->max_usd, over_money},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].limit >= 0 && numbers[i].asked > numbers[i].limit) {
            return numbers[i].over(message, entry, numbers[i].what, numbers[i].asked,
                                   numbers[i].limit);
        }
    }
    return BUDGET_REASON_NONE;
}

static budget_reason check_cost(const budget_policy *policy, const budget_claims *claims,
                                char *message)
{
    char asked[BUDGET_MONEY_BYTES];
    char needed[BUDGET_MONEY_BYTES];
    int64_t cost = 0;
    budget_money_show(claims->max_usd_micro, asked);
    if (strcmp(claims->vendor, "local") == 0) {
        (void)snprintf(message, BUDGET_POLICY_MESSAGE_BYTES,
                       "vendor local costs nothing: ask for 0, not %s", asked);
        return claims->max_usd_micro == 0 ? BUDGET_REASON_NONE : BUDGET_REASON_POLICY;
    }
    if (claims->instances > BUDGET_INSTANCES_MAX) { /* it would be reserved for ever */
        (void)snprintf(message, BUDGET_POLICY_MESSAGE_BYTES,
                       "%" PRId64 " instances are more than %d, the most whose end can be proven: "
                       "ask for several jobs",
                       claims->instances, BUDGET_INSTANCES_MAX);
        return BUDGET_REASON_LIMIT;
    }
    /* an amount too small for any price is bound by it: such a token pays for nothing */
    if (claims->max_price_usd_micro_per_hour == 0 && claims->max_usd_micro == 0) {
        (void)snprintf(message, BUDGET_POLICY_MESSAGE_BYTES,
                       "no price per hour is known for vendor %s: give --max-price",
                       claims->vendor);
        return BUDGET_REASON_UNDERFUNDED;
    }
    const int64_t granularity_s = budget_policy_granularity_seconds(policy, claims->vendor);
    const bool fits = budget_money_cost(claims->max_price_usd_micro_per_hour, claims->instances,
                                        claims->max_seconds + granularity_s, &cost);
    if (fits && claims->max_usd_micro >= cost) {
        return BUDGET_REASON_NONE;
    }
    budget_money_show(fits ? cost : BUDGET_MONEY_MICRO_MAX, needed);
    (void)snprintf(
        message, BUDGET_POLICY_MESSAGE_BYTES,
        "%" PRId64 " instance%s for %" PRId64 " s (and %" PRId64
        " s the vendor bills at least) may cost %s, asked %s: ask for that much, or give a "
        "lower --max-hours",
        claims->instances, claims->instances == 1 ? "" : "s", claims->max_seconds, granularity_s,
        needed, asked);
    return BUDGET_REASON_UNDERFUNDED;
}

budget_reason budget_policy_check(const budget_policy *policy, const budget_claims *claims,
                                  char message[BUDGET_POLICY_MESSAGE_BYTES])
{
    const policy_entries entries = entries_of(policy, claims->account);
    for (int i = 0; i < entries.count; i++) {
        message[0] = '\0';
        const budget_reason reason = check_entry(entries.found[i], claims, message);
        if (reason != BUDGET_REASON_NONE) {
            return reason;
        }
    }
    const budget_reason reason = check_cost(policy, claims, message);
    if (reason == BUDGET_REASON_NONE) {
        message[0] = '\0';
    }
    return reason;
}
