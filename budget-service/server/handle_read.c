/* Requests that change nothing: accounts, reservations, status. Called by access.c once the
 * caller's role allows it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/wire.h"
#include "service.h"

typedef Ringfence__Budget__Account account_row;
typedef Ringfence__Budget__Entry entry_row;

base_status service_remaining(budget_service *service, const service_question *question,
                              service_item *item, base_error *reterr)
{
    Ringfence__Budget__Accounts accounts = RINGFENCE__BUDGET__ACCOUNTS__INIT;
    budget_account chain[BUDGET_ACCOUNT_DEPTH_MAX];
    account_row rows[BUDGET_ACCOUNT_DEPTH_MAX];
    account_row *pointers[BUDGET_ACCOUNT_DEPTH_MAX];
    size_t count = 0;
    size_t binding = 0;
    const base_status status = budget_ledger_chain(
        service->ledger, question->request->remaining->account, chain, &count, &binding, reterr);
    if (status == BASE_ERR_NOTFOUND) {
        return base_fail(reterr, BASE_ERR_INVALID, BUDGET_NO_ACCOUNT,
                         question->request->remaining->account);
    }
    if (status != BASE_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) { /* root first */
        budget_shape_write(&budget_account_shape, &chain[count - 1 - i], &rows[i].base);
        pointers[i] = &rows[i];
    }
    accounts.accounts = pointers;
    accounts.n_accounts = count;
    accounts.binding = (uint32_t)(count - 1 - binding);
    return service_item_done(item, &accounts.base, reterr);
}

base_status service_total_spent(budget_service *service, const service_question *question,
                                service_item *item, base_error *reterr)
{
    Ringfence__Budget__Amount amount = RINGFENCE__BUDGET__AMOUNT__INIT;
    const char *account = question->request->total_spent->account;
    const base_status status = budget_ledger_total_spent(
        service->ledger, account[0] != '\0' ? account : NULL, &amount.usd_micro, reterr);
    if (status == BASE_ERR_NOTFOUND) {
        return base_fail(reterr, BASE_ERR_INVALID, BUDGET_NO_ACCOUNT, account);
    }
    if (status != BASE_OK) {
        return status;
    }
    return service_item_done(item, &amount.base, reterr);
}

/* Accounts in the order of their names: some of them, and how many there are. */
typedef struct account_page {
    const char *after; /* those above this name */
    size_t total;
    size_t count;
    size_t count_max;
    budget_account *accounts; /* (count_max) */
    account_row *rows;
    account_row **pointers;
} account_page;

static bool collect_account(void *context, const budget_account *account)
{
    account_page *page = context;
    if (strcmp(account->name, page->after) > 0) {
        page->total++;
        if (page->count < page->count_max) {
            page->accounts[page->count++] = *account;
        }
    }
    return true;
}

/* What authorize would grant of the account, as remaining says it: its parents bind as well. */
static base_status set_least_left(budget_service *service, budget_account *account,
                                  base_error *reterr)
{
    budget_account chain[BUDGET_ACCOUNT_DEPTH_MAX];
    size_t count = 0;
    size_t binding = 0;
    const base_status status =
        budget_ledger_chain(service->ledger, account->name, chain, &count, &binding, reterr);
    if (status == BASE_OK) {
        account->remaining_usd_micro = chain[binding].remaining_usd_micro;
    }
    return status;
}

static base_status read_accounts(budget_service *service, account_page *page, base_error *reterr)
{
    page->accounts = calloc(page->count_max, sizeof page->accounts[0]);
    page->rows = calloc(page->count_max, sizeof page->rows[0]);
    page->pointers = calloc(page->count_max, sizeof(account_row *));
    if (page->accounts == NULL || page->rows == NULL || page->pointers == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a page of accounts");
    }
    base_status status = budget_ledger_accounts(service->ledger, collect_account, page, reterr);
    for (size_t i = 0; i < page->count && status == BASE_OK; i++) {
        status = set_least_left(service, &page->accounts[i], reterr);
        budget_shape_write(&budget_account_shape, &page->accounts[i], &page->rows[i].base);
        page->pointers[i] = &page->rows[i];
    }
    return status;
}

static void free_accounts(account_page *page)
{
    free(page->accounts);
    free(page->rows);
    free(page->pointers);
}

base_status service_account_list(budget_service *service, const service_question *question,
                                 service_item *item, base_error *reterr)
{
    Ringfence__Budget__Accounts accounts = RINGFENCE__BUDGET__ACCOUNTS__INIT;
    account_page page = {.after = question->request->account_list->after,
                         .count_max = BUDGET_PAGE_MAX};
    base_status status = read_accounts(service, &page, reterr);
    if (status == BASE_OK) {
        accounts.accounts = page.pointers;
        accounts.n_accounts = page.count;
        if (page.total > page.count) {
            accounts.next = page.accounts[page.count - 1].name;
        }
        status = service_item_done(item, &accounts.base, reterr);
    }
    free_accounts(&page);
    return status;
}

/* A page of reservations, as rows. */
typedef struct entry_page {
    size_t count;
    size_t found_count;
    bool cut; /* there is more than that */
    budget_reservation *found;
    entry_row *rows;
    entry_row **pointers;
} entry_page;

static base_status entry_page_make(entry_page *page, size_t count_max, base_error *reterr)
{
    page->found = calloc(count_max, sizeof page->found[0]);
    page->rows = calloc(count_max, sizeof page->rows[0]);
    page->pointers = calloc(count_max, sizeof(entry_row *));
    return page->found != NULL && page->rows != NULL && page->pointers != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for a page of authorizations");
}

static void free_instances(budget_texts *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->texts[i]);
    }
    free(list->texts);
}

static void entry_page_free(entry_page *page)
{
    for (size_t i = 0; page->found != NULL && i < page->found_count; i++) {
        free_instances(&page->found[i].entry.instance_ids);
    }
    free(page->found);
    free(page->rows);
    free(page->pointers);
}

static bool within(const char *account, const char *name)
{
    const size_t length = strlen(account);
    return length == 0 ||
           (strncmp(name, account, length) == 0 && (name[length] == '\0' || name[length] == '/'));
}

/* The price stands in the token's claims. A ledger that was edited may have lost them: its alarms are
 * shown all the same. */
static base_status set_price(budget_service *service, budget_entry *entry, base_error *reterr)
{
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_authorization authorization;
    const base_status status =
        budget_ledger_claims(service->ledger, entry->jti, &authorization, payload, reterr);
    if (status == BASE_OK) {
        entry->max_price_usd_micro_per_hour = authorization.claims.max_price_usd_micro_per_hour;
        entry->price_derived = authorization.claims.price_derived;
    }
    return status == BASE_ERR_STATE ? BASE_OK : status;
}

/* The list of its instances, which free_instances frees. */
static base_status set_instances(budget_service *service, budget_reservation *found,
                                 base_error *reterr)
{
    static char ids[BUDGET_INSTANCES_MAX][BUDGET_INSTANCE_BYTES];
    size_t count = 0;
    budget_texts *list = &found->entry.instance_ids;
    const base_status status =
        budget_ledger_instances(service->ledger, found->id, ids, &count, reterr);
    if (status != BASE_OK || count == 0) {
        return status;
    }
    list->texts = calloc(count, sizeof(char *));
    while (list->texts != NULL && list->count < count &&
           (list->texts[list->count] = strdup(ids[list->count])) != NULL) {
        list->count++;
    }
    return list->count == count
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for the ids of instances");
}

/* Rows of those within account; the others are left out. The page ends early where many instances make
 * it large. */
static base_status entry_page_fill(budget_service *service, entry_page *page, const char *account,
                                   base_error *reterr)
{
    base_status status = BASE_OK;
    size_t instances = 0;
    for (size_t i = 0; i < page->found_count && status == BASE_OK; i++) {
        budget_reservation *found = &page->found[i];
        if (instances > SERVICE_PAGE_INSTANCES_MAX) {
            page->found_count = i;
            page->cut = true;
            break;
        }
        if (!within(account, found->entry.account)) {
            continue;
        }
        status = set_price(service, &found->entry, reterr);
        if (status == BASE_OK) {
            status = set_instances(service, found, reterr);
        }
        if (status == BASE_OK) {
            entry_row *row = &page->rows[page->count];
            budget_shape_write(&budget_entry_shape, &found->entry, &row->base);
            page->pointers[page->count++] = row;
            instances += found->entry.instance_ids.count;
        }
    }
    return status;
}

/* Accounts are named by hand: a misspelt one is none without runs. */
static base_status check_account(budget_service *service, const char *account, base_error *reterr)
{
    int64_t spent = 0;
    if (account[0] == '\0') {
        return BASE_OK;
    }
    const base_status status = budget_ledger_total_spent(service->ledger, account, &spent, reterr);
    return status == BASE_ERR_NOTFOUND
               ? base_fail(reterr, BASE_ERR_INVALID, BUDGET_NO_ACCOUNT, account)
               : status;
}

base_status service_list(budget_service *service, const service_question *question,
                         service_item *item, base_error *reterr)
{
    Ringfence__Budget__Entries entries = RINGFENCE__BUDGET__ENTRIES__INIT;
    char next[24] = "";
    const Ringfence__Budget__List *body = question->request->list;
    char *end = NULL;
    const long long after = strtoll(body->after[0] != '\0' ? body->after : "0", &end, 10);
    entry_page page = {0};
    if (end == NULL || *end != '\0' || after < 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "a page that does not exist");
    }
    base_status status = check_account(service, body->account, reterr);
    if (status == BASE_OK) {
        status = entry_page_make(&page, BUDGET_PAGE_MAX, reterr);
    }
    if (status == BASE_OK) {
        status = (body->running ? budget_ledger_running : budget_ledger_list)(
            service->ledger, after, BUDGET_PAGE_MAX, page.found, &page.found_count, reterr);
    }
    if (status == BASE_OK) {
        status = entry_page_fill(service, &page, body->account, reterr);
    }
    if (status == BASE_OK) {
        if (page.cut || page.found_count == BUDGET_PAGE_MAX) {
            (void)snprintf(next, sizeof next, "%lld",
                           (long long)page.found[page.found_count - 1].id);
        }
        entries.entries = page.pointers;
        entries.n_entries = page.count;
        entries.next = next;
        status = service_item_done(item, &entries.base, reterr);
    }
    entry_page_free(&page);
    return status;
}

/* Empty: the hook has heard all, as far as is known. */
static void hook_failure(const budget_service *service, char text[BASE_ERROR_MESSAGE_BYTES])
{
    const size_t count = service_unheard_count(service);
    (void)snprintf(text, BASE_ERROR_MESSAGE_BYTES, "%s", service->hook.failure);
    if (text[0] == '\0' && count > 0) {
        (void)snprintf(text, BASE_ERROR_MESSAGE_BYTES,
                       "the policy's hook has not heard of %zu findings on bills; their alarms are "
                       "raised again",
                       count);
    }
}

static base_status put_status(budget_service *service, const account_page *accounts,
                              const entry_page *alarms, service_item *item, base_error *reterr)
{
    Ringfence__Budget__StatusReport report = RINGFENCE__BUDGET__STATUS_REPORT__INIT;
    char clock_alarm[BUDGET_ANSWER_MESSAGE_BYTES] = "";
    char unheard[BASE_ERROR_MESSAGE_BYTES];
    int64_t overdue = 0;
    int64_t frozen = 0;
    base_status status = budget_ledger_attention(service->ledger, &overdue, &frozen, reterr);
    if (status == BASE_OK) {
        status = service_clock_text(service, clock_alarm, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    service_alarm_look(service);
    hook_failure(service, unheard);
    report.accounts = accounts->pointers;
    report.n_accounts = accounts->count;
    report.accounts_total = accounts->total;
    report.alarms = alarms->pointers;
    report.n_alarms = alarms->count;
    report.alarms_total = (uint64_t)overdue;
    report.frozen_total = (uint64_t)frozen;
    report.clock_alarm = clock_alarm;
    report.audit_finding = service->finding;
    report.hook_failure = unheard;
    return service_item_done(item, &report.base, reterr);
}

base_status service_status(budget_service *service, const service_question *question,
                           service_item *item, base_error *reterr)
{
    account_page accounts = {.after = "", .count_max = SERVICE_STATUS_ACCOUNTS_MAX};
    entry_page alarms = {0};
    budget_ledger_moment after = {0};
    (void)question;
    base_status status = read_accounts(service, &accounts, reterr);
    if (status == BASE_OK) {
        status = entry_page_make(&alarms, SERVICE_STATUS_ALARMS_MAX, reterr);
    }
    if (status == BASE_OK) {
        status = budget_ledger_overdue(service->ledger, &after, SERVICE_STATUS_ALARMS_MAX,
                                       alarms.found, &alarms.found_count, reterr);
    }
    if (status == BASE_OK) {
        status = entry_page_fill(service, &alarms, "", reterr);
    }
    if (status == BASE_OK) {
        status = put_status(service, &accounts, &alarms, item, reterr);
    }
    entry_page_free(&alarms);
    free_accounts(&accounts);
    return status;
}
