/* Calls that change nothing: accounts, reservations, status, exports. Called by the commands of
 * cli/. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client_impl.h"

bool budget_account_from(const Ringfence__Budget__Account *from, budget_account *account)
{
    *account = (budget_account){
        .cap_usd_micro = from->cap_usd_micro,
        .posted_usd_micro = from->posted_usd_micro,
        .reserved_usd_micro = from->reserved_usd_micro,
        .remaining_usd_micro = from->remaining_usd_micro,
        .frozen = from->frozen,
    };
    return budget_copy_text(account->name, sizeof account->name, from->name) &&
           budget_copy_text(account->frozen_by, sizeof account->frozen_by, from->frozen_by);
}

bool budget_entry_from(const Ringfence__Budget__Entry *from, budget_entry *entry)
{
    *entry = (budget_entry){
        .reserved_usd_micro = from->reserved_usd_micro,
        .actual_usd_micro = from->actual_usd_micro,
        .actual_known = from->actual_known,
        .credit_usd_micro = from->credit_usd_micro,
        .authorized_at = from->authorized_at,
        .redeemed_at = from->redeemed_at,
        .deadline = from->deadline,
        .terminated_at = from->terminated_at,
        .attested = from->attested,
    };
    return budget_copy_text(entry->label, sizeof entry->label, from->label) &&
           budget_copy_text(entry->account, sizeof entry->account, from->account) &&
           budget_copy_text(entry->jti, sizeof entry->jti, from->jti) &&
           budget_copy_text(entry->state, sizeof entry->state, from->state) &&
           budget_copy_text(entry->mode, sizeof entry->mode, from->mode) &&
           budget_copy_text(entry->vendor, sizeof entry->vendor, from->vendor) &&
           budget_copy_text(entry->instance_type, sizeof entry->instance_type,
                            from->instance_type) &&
           budget_copy_text(entry->instance_id, sizeof entry->instance_id, from->instance_id) &&
           budget_copy_text(entry->evidence, sizeof entry->evidence, from->evidence) &&
           budget_copy_text(entry->client, sizeof entry->client, from->client);
}

budget_verdict budget_remaining(budget_client *client, const char *account, budget_chain *chain,
                                base_error *why)
{
    Ringfence__Budget__Remaining body = RINGFENCE__BUDGET__REMAINING__INIT;
    budget_wire_response *response = NULL;
    body.account = budget_wire_text(account);
    const budget_verdict verdict =
        budget_ask_service(client, &body.base, BUDGET_RESPONSE(ACCOUNTS), &response, why);
    if (verdict != BUDGET_GRANTED) {
        return verdict;
    }
    const Ringfence__Budget__Accounts *got = response->accounts;
    if (got->n_accounts == 0 || got->n_accounts > BUDGET_ACCOUNT_DEPTH_MAX ||
        got->binding >= got->n_accounts) {
        return budget_broken_answer(why);
    }
    chain->count = (int)got->n_accounts;
    chain->binding = (int)got->binding;
    for (int i = 0; i < chain->count; i++) {
        if (!budget_account_from(got->accounts[i], &chain->accounts[i])) {
            return budget_broken_answer(why);
        }
    }
    return BUDGET_GRANTED;
}

budget_verdict budget_total_spent(budget_client *client, const char *account, int64_t *usd_micro,
                                  base_error *why)
{
    Ringfence__Budget__TotalSpent body = RINGFENCE__BUDGET__TOTAL_SPENT__INIT;
    budget_wire_response *response = NULL;
    body.account = budget_wire_text(account);
    const budget_verdict verdict =
        budget_ask_service(client, &body.base, BUDGET_RESPONSE(AMOUNT), &response, why);
    if (verdict == BUDGET_GRANTED) {
        *usd_micro = response->amount->usd_micro;
    }
    return verdict;
}

budget_verdict budget_status(budget_client *client, const budget_status_sinks *sinks,
                             budget_report *report, base_error *why)
{
    Ringfence__Budget__Status body = RINGFENCE__BUDGET__STATUS__INIT;
    budget_wire_response *response = NULL;
    const budget_verdict verdict =
        budget_ask_service(client, &body.base, BUDGET_RESPONSE(STATUS), &response, why);
    if (verdict != BUDGET_GRANTED) {
        return verdict;
    }
    const Ringfence__Budget__StatusReport *got = response->status;
    *report = (budget_report){
        .accounts_total = got->accounts_total,
        .frozen_total = got->frozen_total,
        .alarms_total = got->alarms_total,
    };
    (void)snprintf(report->clock_alarm, sizeof report->clock_alarm, "%s", got->clock_alarm);
    (void)snprintf(report->audit_finding, sizeof report->audit_finding, "%s", got->audit_finding);
    for (size_t i = 0; i < got->n_accounts && sinks->account != NULL; i++) {
        budget_account account;
        if (!budget_account_from(got->accounts[i], &account)) {
            return budget_broken_answer(why);
        }
        sinks->account(sinks->user, &account);
    }
    for (size_t i = 0; i < got->n_alarms && sinks->alarm != NULL; i++) {
        budget_entry entry;
        if (!budget_entry_from(got->alarms[i], &entry)) {
            return budget_broken_answer(why);
        }
        sinks->alarm(sinks->user, &entry);
    }
    return BUDGET_GRANTED;
}

budget_verdict budget_list(budget_client *client, const char *account, budget_entry_fn entry_fn,
                           void *user, base_error *why)
{
    Ringfence__Budget__List body = RINGFENCE__BUDGET__LIST__INIT;
    budget_pages pages = {
        .body = &body.base, .after = &body.after, .answer_case = BUDGET_RESPONSE(ENTRIES)};
    body.account = budget_wire_text(account);
    while (budget_pages_next(client, &pages, why)) {
        const Ringfence__Budget__Entries *got = pages.response->entries;
        pages.next = got->next;
        for (size_t i = 0; i < got->n_entries; i++) {
            budget_entry entry;
            if (!budget_entry_from(got->entries[i], &entry)) {
                return budget_broken_answer(why);
            }
            entry_fn(user, &entry);
        }
    }
    return pages.verdict;
}

budget_verdict budget_account_list(budget_client *client, budget_account_fn account_fn, void *user,
                                   base_error *why)
{
    Ringfence__Budget__AccountList body = RINGFENCE__BUDGET__ACCOUNT_LIST__INIT;
    budget_pages pages = {
        .body = &body.base, .after = &body.after, .answer_case = BUDGET_RESPONSE(ACCOUNTS)};
    while (budget_pages_next(client, &pages, why)) {
        const Ringfence__Budget__Accounts *got = pages.response->accounts;
        pages.next = got->next;
        for (size_t i = 0; i < got->n_accounts; i++) {
            budget_account account;
            if (!budget_account_from(got->accounts[i], &account)) {
                return budget_broken_answer(why);
            }
            account_fn(user, &account);
        }
    }
    return pages.verdict;
}

budget_verdict budget_export(budget_client *client, budget_line_fn line_fn, void *user,
                             base_error *why)
{
    Ringfence__Budget__Export body = RINGFENCE__BUDGET__EXPORT__INIT;
    for (;;) {
        budget_wire_response *response = NULL;
        const budget_verdict verdict =
            budget_ask_service(client, &body.base, BUDGET_RESPONSE(EVENTS), &response, why);
        if (verdict != BUDGET_GRANTED) {
            return verdict;
        }
        const Ringfence__Budget__Events *got = response->events;
        for (size_t i = 0; i < got->n_events; i++) {
            line_fn(user, got->events[i]->line);
        }
        if (got->next == 0) {
            return BUDGET_GRANTED;
        }
        if (got->next <= body.after_sequence) { /* each page ends later, or this never would */
            return budget_broken_answer(why);
        }
        body.after_sequence = got->next;
    }
}
