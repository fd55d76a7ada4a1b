/* Calls that change nothing: accounts, reservations, status, exports. Called by the commands of
 * cli/. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client_impl.h"

enum { PAGES_MAX = 1000000, NEXT_BYTES = BUDGET_LABEL_BYTES };

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
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    budget_wire_response *response = NULL;
    body.account = budget_wire_text(account);
    request.body_case = BUDGET_REQUEST(REMAINING);
    request.remaining = &body;
    const budget_verdict verdict =
        budget_ask_service(client, &request, BUDGET_RESPONSE(ACCOUNTS), &response, why);
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
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    budget_wire_response *response = NULL;
    body.account = budget_wire_text(account);
    request.body_case = BUDGET_REQUEST(TOTAL_SPENT);
    request.total_spent = &body;
    const budget_verdict verdict =
        budget_ask_service(client, &request, BUDGET_RESPONSE(AMOUNT), &response, why);
    if (verdict == BUDGET_GRANTED) {
        *usd_micro = response->amount->usd_micro;
    }
    return verdict;
}

budget_verdict budget_status(budget_client *client, const budget_status_sinks *sinks,
                             budget_report *report, base_error *why)
{
    Ringfence__Budget__Status body = RINGFENCE__BUDGET__STATUS__INIT;
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    budget_wire_response *response = NULL;
    request.body_case = BUDGET_REQUEST(STATUS);
    request.status = &body;
    const budget_verdict verdict =
        budget_ask_service(client, &request, BUDGET_RESPONSE(STATUS), &response, why);
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
    char next[NEXT_BYTES] = "";
    for (int page = 0; page < PAGES_MAX; page++) {
        Ringfence__Budget__List body = RINGFENCE__BUDGET__LIST__INIT;
        budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
        budget_wire_response *response = NULL;
        body.account = budget_wire_text(account);
        body.after = next;
        request.body_case = BUDGET_REQUEST(LIST);
        request.list = &body;
        const budget_verdict verdict =
            budget_ask_service(client, &request, BUDGET_RESPONSE(ENTRIES), &response, why);
        if (verdict != BUDGET_GRANTED) {
            return verdict;
        }
        for (size_t i = 0; i < response->entries->n_entries; i++) {
            budget_entry entry;
            if (!budget_entry_from(response->entries->entries[i], &entry)) {
                return budget_broken_answer(why);
            }
            entry_fn(user, &entry);
        }
        if (!budget_copy_text(next, sizeof next, response->entries->next)) {
            return budget_broken_answer(why);
        }
        if (next[0] == '\0') {
            return BUDGET_GRANTED;
        }
    }
    return budget_broken_answer(why);
}

budget_verdict budget_account_list(budget_client *client, budget_account_fn account_fn, void *user,
                                   base_error *why)
{
    char next[NEXT_BYTES] = "";
    for (int page = 0; page < PAGES_MAX; page++) {
        Ringfence__Budget__AccountList body = RINGFENCE__BUDGET__ACCOUNT_LIST__INIT;
        budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
        budget_wire_response *response = NULL;
        body.after = next;
        request.body_case = BUDGET_REQUEST(ACCOUNT_LIST);
        request.account_list = &body;
        const budget_verdict verdict =
            budget_ask_service(client, &request, BUDGET_RESPONSE(ACCOUNTS), &response, why);
        if (verdict != BUDGET_GRANTED) {
            return verdict;
        }
        for (size_t i = 0; i < response->accounts->n_accounts; i++) {
            budget_account account;
            if (!budget_account_from(response->accounts->accounts[i], &account)) {
                return budget_broken_answer(why);
            }
            account_fn(user, &account);
        }
        if (!budget_copy_text(next, sizeof next, response->accounts->next)) {
            return budget_broken_answer(why);
        }
        if (next[0] == '\0') {
            return BUDGET_GRANTED;
        }
    }
    return budget_broken_answer(why);
}

budget_verdict budget_export(budget_client *client, budget_line_fn line_fn, void *user,
                             base_error *why)
{
    uint64_t after = 0;
    for (int page = 0; page < PAGES_MAX; page++) {
        Ringfence__Budget__Export body = RINGFENCE__BUDGET__EXPORT__INIT;
        budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
        budget_wire_response *response = NULL;
        body.after_sequence = after;
        request.body_case = BUDGET_REQUEST(EXPORT);
        request.export = &body;
        const budget_verdict verdict =
            budget_ask_service(client, &request, BUDGET_RESPONSE(EVENTS), &response, why);
        if (verdict != BUDGET_GRANTED) {
            return verdict;
        }
        for (size_t i = 0; i < response->events->n_events; i++) {
            line_fn(user, response->events->events[i]->line);
        }
        if (response->events->next == 0) {
            return BUDGET_GRANTED;
        }
        if (response->events->next <= after) {
            return budget_broken_answer(why);
        }
        after = response->events->next;
    }
    return budget_broken_answer(why);
}
