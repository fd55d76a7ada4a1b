/* Calls that change nothing: accounts, reservations, status, exports. Called by the commands of
 * cli/. */
#include <stdio.h>

#include "client_impl.h"

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
        if (!budget_shape_read(&budget_account_shape, &got->accounts[i]->base,
                               &chain->accounts[i])) {
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
    (void)snprintf(report->hook_failure, sizeof report->hook_failure, "%s", got->hook_failure);
    for (size_t i = 0; i < got->n_accounts && sinks->account != NULL; i++) {
        budget_account account;
        if (!budget_shape_read(&budget_account_shape, &got->accounts[i]->base, &account)) {
            return budget_broken_answer(why);
        }
        sinks->account(sinks->user, &account);
    }
    for (size_t i = 0; i < got->n_alarms && sinks->alarm != NULL; i++) {
        budget_entry entry;
        if (!budget_shape_read(&budget_entry_shape, &got->alarms[i]->base, &entry)) {
            return budget_broken_answer(why);
        }
        sinks->alarm(sinks->user, &entry);
    }
    return BUDGET_GRANTED;
}

budget_verdict budget_list(budget_client *client, const budget_selection *selection,
                           budget_entry_fn entry_fn, void *user, base_error *why)
{
    Ringfence__Budget__List body = RINGFENCE__BUDGET__LIST__INIT;
    budget_pages pages = {
        .body = &body.base, .after = &body.after, .answer_case = BUDGET_RESPONSE(ENTRIES)};
    if (selection != NULL) {
        body.account = budget_wire_text(selection->account);
        body.running = selection->running;
    }
    while (budget_pages_next(client, &pages, why)) {
        const Ringfence__Budget__Entries *got = pages.response->entries;
        pages.next = got->next;
        for (size_t i = 0; i < got->n_entries; i++) {
            budget_entry entry;
            if (!budget_shape_read(&budget_entry_shape, &got->entries[i]->base, &entry)) {
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
            if (!budget_shape_read(&budget_account_shape, &got->accounts[i]->base, &account)) {
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
