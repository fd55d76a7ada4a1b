/* Handles requests of role admin: accounts, clients and the clock. Called by access.c once the
 * caller's role allows it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/wire.h"
#include "service.h"

enum { ID_BYTES = 24 }; /* an int64_t in decimal, with NUL */

base_status service_account_create(budget_service *service, const service_question *question,
                                   service_item *item, base_error *reterr)
{
    const Ringfence__Budget__AccountCreate *body = question->request->account_create;
    const base_status status = budget_ledger_account_create(
        service->ledger, &question->caller, body->name, body->cap_usd_micro, &item->answer, reterr);
    return service_item_answer(item, status, reterr);
}

base_status service_account_set_cap(budget_service *service, const service_question *question,
                                    service_item *item, base_error *reterr)
{
    const Ringfence__Budget__AccountSetCap *body = question->request->account_set_cap;
    const base_status status = budget_ledger_set_cap(service->ledger, &question->caller, body->name,
                                                     body->cap_usd_micro, &item->answer, reterr);
    return service_item_answer(item, status, reterr);
}

base_status service_account_acknowledge(budget_service *service, const service_question *question,
                                        service_item *item, base_error *reterr)
{
    const base_status status = budget_ledger_acknowledge(
        service->ledger, &question->caller, question->request->account_acknowledge->name,
        &item->answer, reterr);
    return service_item_answer(item, status, reterr);
}

static bool role_of(const char *name, budget_role *role)
{
    for (int i = BUDGET_ROLE_REQUEST; i <= BUDGET_ROLE_ADMIN; i++) {
        if (strcmp(name, budget_role_name((budget_role)i)) == 0) {
            *role = (budget_role)i;
            return true;
        }
    }
    return false;
}

base_status service_client_add(budget_service *service, const service_question *question,
                               service_item *item, base_error *reterr)
{
    const Ringfence__Budget__ClientAdd *body = question->request->client_add;
    budget_ledger_client client = {0};
    if (!role_of(body->role, &client.role)) {
        return base_fail(reterr, BASE_ERR_INVALID, "role '%s': must be request, reconcile or admin",
                         body->role);
    }
    if (!budget_name_ok(body->name, sizeof client.name, false) ||
        body->public_key.len != BUDGET_CLIENT_KEY_BYTES) {
        return base_fail(reterr, BASE_ERR_INVALID, "a client needs a plain name and a CURVE key");
    }
    memcpy(client.name, body->name, strlen(body->name) + 1);
    memcpy(client.public_key, body->public_key.data, sizeof client.public_key);
    const base_status status = budget_ledger_client_add(service->ledger, &question->caller, &client,
                                                        &item->answer, reterr);
    service->clients_changed = true;
    return service_item_answer(item, status, reterr);
}

base_status service_client_revoke(budget_service *service, const service_question *question,
                                  service_item *item, base_error *reterr)
{
    const base_status status =
        budget_ledger_client_revoke(service->ledger, &question->caller,
                                    question->request->client_revoke->name, &item->answer, reterr);
    service->clients_changed = true;
    return service_item_answer(item, status, reterr);
}

base_status service_clock_repair(budget_service *service, const service_question *question,
                                 service_item *item, base_error *reterr)
{
    const base_status status =
        budget_ledger_clock_repair(service->ledger, &question->caller, &item->answer, reterr);
    return service_item_answer(item, status, reterr);
}

/* A page of clients by id: a name that was revoked and added again has several rows. */
typedef struct client_page {
    int64_t after;
    size_t count;
    bool more;
    budget_ledger_client clients[BUDGET_PAGE_MAX];
} client_page;

static bool collect_client(void *context, const budget_ledger_client *client)
{
    client_page *page = context;
    if (client->id <= page->after) {
        return true;
    }
    if (page->count == BUDGET_PAGE_MAX) {
        page->more = true;
        return false;
    }
    page->clients[page->count++] = *client;
    return true;
}

base_status service_client_list(budget_service *service, const service_question *question,
                                service_item *item, base_error *reterr)
{
    Ringfence__Budget__Clients clients = RINGFENCE__BUDGET__CLIENTS__INIT;
    Ringfence__Budget__Client rows[BUDGET_PAGE_MAX];
    Ringfence__Budget__Client *pointers[BUDGET_PAGE_MAX];
    const char *after = question->request->client_list->after;
    char *end = NULL;
    char next[ID_BYTES];
    client_page page = {.after = strtoll(after, &end, 10)};
    if (*end != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "'%.32s' is no place in the list of clients",
                         after);
    }
    const base_status status =
        budget_ledger_clients(service->ledger, collect_client, &page, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (size_t i = 0; i < page.count; i++) {
        ringfence__budget__client__init(&rows[i]);
        rows[i].name = page.clients[i].name;
        rows[i].role = (char *)(uintptr_t)budget_role_name(page.clients[i].role);
        rows[i].public_key.data = page.clients[i].public_key;
        rows[i].public_key.len = sizeof page.clients[i].public_key;
        rows[i].revoked = page.clients[i].revoked;
        pointers[i] = &rows[i];
    }
    clients.clients = pointers;
    clients.n_clients = page.count;
    if (page.more) {
        (void)snprintf(next, sizeof next, "%" PRId64, page.clients[page.count - 1].id);
        clients.next = next;
    }
    return service_item_done(item, &clients.base, reterr);
}
