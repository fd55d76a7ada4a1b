/* Calls of role admin: accounts, clients, the ledger's clock. Called by the commands of cli/. */
#include <string.h>

#include "client_impl.h"

budget_verdict budget_account_create(budget_client *client, const char *name, int64_t cap_usd_micro,
                                     base_error *why)
{
    Ringfence__Budget__AccountCreate body = RINGFENCE__BUDGET__ACCOUNT_CREATE__INIT;
    body.name = budget_wire_text(name);
    body.cap_usd_micro = cap_usd_micro;
    return budget_tell_service(client, &body.base, why);
}

budget_verdict budget_account_set_cap(budget_client *client, const char *name,
                                      int64_t cap_usd_micro, base_error *why)
{
    Ringfence__Budget__AccountSetCap body = RINGFENCE__BUDGET__ACCOUNT_SET_CAP__INIT;
    body.name = budget_wire_text(name);
    body.cap_usd_micro = cap_usd_micro;
    return budget_tell_service(client, &body.base, why);
}

budget_verdict budget_account_acknowledge(budget_client *client, const char *name, base_error *why)
{
    Ringfence__Budget__AccountAcknowledge body = RINGFENCE__BUDGET__ACCOUNT_ACKNOWLEDGE__INIT;
    body.name = budget_wire_text(name);
    return budget_tell_service(client, &body.base, why);
}

budget_verdict budget_client_add(budget_client *client, const char *name, const char *role,
                                 const uint8_t public_key[PROTO_KEY_BYTES], base_error *why)
{
    Ringfence__Budget__ClientAdd body = RINGFENCE__BUDGET__CLIENT_ADD__INIT;
    body.name = budget_wire_text(name);
    body.role = budget_wire_text(role);
    body.public_key.data = (uint8_t *)(uintptr_t)public_key;
    body.public_key.len = PROTO_KEY_BYTES;
    return budget_tell_service(client, &body.base, why);
}

budget_verdict budget_client_revoke(budget_client *client, const char *name, base_error *why)
{
    Ringfence__Budget__ClientRevoke body = RINGFENCE__BUDGET__CLIENT_REVOKE__INIT;
    body.name = budget_wire_text(name);
    return budget_tell_service(client, &body.base, why);
}

static bool info_from(const Ringfence__Budget__Client *from, budget_client_info *info)
{
    info->revoked = from->revoked;
    if (from->public_key.len != PROTO_KEY_BYTES) {
        return false;
    }
    memcpy(info->public_key, from->public_key.data, PROTO_KEY_BYTES);
    return budget_copy_text(info->name, sizeof info->name, from->name) &&
           budget_copy_text(info->role, sizeof info->role, from->role);
}

budget_verdict budget_client_list(budget_client *client, budget_client_fn info_fn, void *user,
                                  base_error *why)
{
    Ringfence__Budget__ClientList body = RINGFENCE__BUDGET__CLIENT_LIST__INIT;
    budget_pages pages = {
        .body = &body.base, .after = &body.after, .answer_case = BUDGET_RESPONSE(CLIENTS)};
    while (budget_pages_next(client, &pages, why)) {
        const Ringfence__Budget__Clients *got = pages.response->clients;
        pages.next = got->next;
        for (size_t i = 0; i < got->n_clients; i++) {
            budget_client_info info;
            if (!info_from(got->clients[i], &info)) {
                return budget_broken_answer(why);
            }
            info_fn(user, &info);
        }
    }
    return pages.verdict;
}

budget_verdict budget_repair_clock(budget_client *client, base_error *why)
{
    Ringfence__Budget__ClockRepair body = RINGFENCE__BUDGET__CLOCK_REPAIR__INIT;
    return budget_tell_service(client, &body.base, why);
}
