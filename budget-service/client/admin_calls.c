/* Calls of role admin: accounts, clients, the ledger's clock. Called by the commands of cli/. */
#include <string.h>

#include "client_impl.h"

enum { PAGES_MAX = 10000 };

budget_verdict budget_account_create(budget_client *client, const char *name, int64_t cap_usd_micro,
                                     base_error *why)
{
    Ringfence__Budget__AccountCreate body = RINGFENCE__BUDGET__ACCOUNT_CREATE__INIT;
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    budget_wire_response *response = NULL;
    body.name = budget_wire_text(name);
    body.cap_usd_micro = cap_usd_micro;
    request.body_case = BUDGET_REQUEST(ACCOUNT_CREATE);
    request.account_create = &body;
    return budget_ask_service(client, &request, BUDGET_RESPONSE(_NOT_SET), &response, why);
}

budget_verdict budget_account_set_cap(budget_client *client, const char *name,
                                      int64_t cap_usd_micro, base_error *why)
{
    Ringfence__Budget__AccountSetCap body = RINGFENCE__BUDGET__ACCOUNT_SET_CAP__INIT;
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    budget_wire_response *response = NULL;
    body.name = budget_wire_text(name);
    body.cap_usd_micro = cap_usd_micro;
    request.body_case = BUDGET_REQUEST(ACCOUNT_SET_CAP);
    request.account_set_cap = &body;
    return budget_ask_service(client, &request, BUDGET_RESPONSE(_NOT_SET), &response, why);
}

budget_verdict budget_account_acknowledge(budget_client *client, const char *name, base_error *why)
{
    Ringfence__Budget__AccountAcknowledge body = RINGFENCE__BUDGET__ACCOUNT_ACKNOWLEDGE__INIT;
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    budget_wire_response *response = NULL;
    body.name = budget_wire_text(name);
    request.body_case = BUDGET_REQUEST(ACCOUNT_ACKNOWLEDGE);
    request.account_acknowledge = &body;
    return budget_ask_service(client, &request, BUDGET_RESPONSE(_NOT_SET), &response, why);
}

budget_verdict budget_client_add(budget_client *client, const char *name, const char *role,
                                 const uint8_t public_key[BUDGET_CURVE_KEY_BYTES], base_error *why)
{
    Ringfence__Budget__ClientAdd body = RINGFENCE__BUDGET__CLIENT_ADD__INIT;
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    budget_wire_response *response = NULL;
    body.name = budget_wire_text(name);
    body.role = budget_wire_text(role);
    body.public_key.data = (uint8_t *)(uintptr_t)public_key;
    body.public_key.len = BUDGET_CURVE_KEY_BYTES;
    request.body_case = BUDGET_REQUEST(CLIENT_ADD);
    request.client_add = &body;
    return budget_ask_service(client, &request, BUDGET_RESPONSE(_NOT_SET), &response, why);
}

budget_verdict budget_client_revoke(budget_client *client, const char *name, base_error *why)
{
    Ringfence__Budget__ClientRevoke body = RINGFENCE__BUDGET__CLIENT_REVOKE__INIT;
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    budget_wire_response *response = NULL;
    body.name = budget_wire_text(name);
    request.body_case = BUDGET_REQUEST(CLIENT_REVOKE);
    request.client_revoke = &body;
    return budget_ask_service(client, &request, BUDGET_RESPONSE(_NOT_SET), &response, why);
}

static bool info_from(const Ringfence__Budget__Client *from, budget_client_info *info)
{
    info->revoked = from->revoked;
    if (from->public_key.len != BUDGET_CURVE_KEY_BYTES) {
        return false;
    }
    memcpy(info->public_key, from->public_key.data, BUDGET_CURVE_KEY_BYTES);
    return budget_copy_text(info->name, sizeof info->name, from->name) &&
           budget_copy_text(info->role, sizeof info->role, from->role);
}

budget_verdict budget_client_list(budget_client *client, budget_client_fn info_fn, void *user,
                                  base_error *why)
{
    char next[BUDGET_NAME_BYTES] = "";
    for (int page = 0; page < PAGES_MAX; page++) {
        Ringfence__Budget__ClientList body = RINGFENCE__BUDGET__CLIENT_LIST__INIT;
        budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
        budget_wire_response *response = NULL;
        body.after = next;
        request.body_case = BUDGET_REQUEST(CLIENT_LIST);
        request.client_list = &body;
        const budget_verdict verdict =
            budget_ask_service(client, &request, BUDGET_RESPONSE(CLIENTS), &response, why);
        if (verdict != BUDGET_GRANTED) {
            return verdict;
        }
        for (size_t i = 0; i < response->clients->n_clients; i++) {
            budget_client_info info;
            if (!info_from(response->clients->clients[i], &info)) {
                return budget_broken_answer(why);
            }
            info_fn(user, &info);
        }
        if (!budget_copy_text(next, sizeof next, response->clients->next)) {
            return budget_broken_answer(why);
        }
        if (next[0] == '\0') {
            return BUDGET_GRANTED;
        }
    }
    return budget_broken_answer(why);
}

budget_verdict budget_repair_clock(budget_client *client, base_error *why)
{
    Ringfence__Budget__ClockRepair body = RINGFENCE__BUDGET__CLOCK_REPAIR__INIT;
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    budget_wire_response *response = NULL;
    request.body_case = BUDGET_REQUEST(CLOCK_REPAIR);
    request.clock_repair = &body;
    return budget_ask_service(client, &request, BUDGET_RESPONSE(_NOT_SET), &response, why);
}
