/* Ledger operations on clients: add, revoke, find by key, list. Called by the server's admin
 * requests, by its access checks, and by audit/replay.c. */
#include <string.h>

#include "ledger_core.h"

const char *budget_role_name(budget_role role)
{
    static const char *const names[] = {
        [BUDGET_ROLE_REQUEST] = "request",
        [BUDGET_ROLE_RECONCILE] = "reconcile",
        [BUDGET_ROLE_ADMIN] = "admin",
    };
    return role >= BUDGET_ROLE_REQUEST && role <= BUDGET_ROLE_ADMIN ? names[role] : "?";
}

static void read_client(const store_db *store, store_sql sql, budget_ledger_client *client)
{
    memset(client, 0, sizeof *client);
    client->id = store_int(store, sql, 0);
    store_copy_text(store, sql, 1, client->name, sizeof client->name);
    store_copy_blob(store, sql, 2, client->public_key, sizeof client->public_key);
    client->role = (budget_role)store_int(store, sql, 3);
    client->revoked = store_int(store, sql, 4) != 0;
}

static base_status take(budget_ledger *ledger, store_sql sql, base_status status,
                        budget_ledger_client *client, base_error *reterr)
{
    if (store_next(&ledger->store, sql, &status, reterr)) {
        read_client(&ledger->store, sql, client);
        store_done(&ledger->store, sql);
        return BASE_OK;
    }
    return status != BASE_OK ? status
                             : base_fail(reterr, BASE_ERR_NOTFOUND, "there is no such client");
}

base_status budget_ledger_client_find(budget_ledger *ledger,
                                      const uint8_t public_key[BUDGET_CLIENT_KEY_BYTES],
                                      budget_ledger_client *client, base_error *reterr)
{
    const base_status status = store_query(&ledger->store, reterr, SQL_CLIENT_BY_KEY, "key:b",
                                           public_key, (size_t)BUDGET_CLIENT_KEY_BYTES);
    return take(ledger, SQL_CLIENT_BY_KEY, status, client, reterr);
}

base_status budget_ledger_client_revoked(budget_ledger *ledger, int64_t id, bool *revoked,
                                         base_error *reterr)
{
    int64_t number = 0;
    const base_status status =
        store_number(&ledger->store, reterr, SQL_CLIENT_REVOKED, &number, "id:i", id);
    *revoked = number != 0;
    return status;
}

static base_status find_name(budget_ledger *ledger, const char *name, budget_ledger_client *client,
                             base_error *reterr)
{
    const base_status status =
        store_query(&ledger->store, reterr, SQL_CLIENT_BY_NAME, "name:t", name);
    return take(ledger, SQL_CLIENT_BY_NAME, status, client, reterr);
}

static base_status add(ledger_op *op, const budget_ledger_client *client)
{
    budget_ledger_client found;
    int64_t count = 0;
    op->row.text = client->name;
    base_status status = find_name(op->ledger, client->name, &found, op->reterr);
    if (status == BASE_ERR_NOTFOUND) {
        status = budget_ledger_client_find(op->ledger, client->public_key, &found, op->reterr);
    }
    if (status == BASE_OK) {
        return op_refuse(op, BUDGET_REASON_CLIENT_EXISTS, "%s is there already, as %s",
                         client->name, found.name);
    }
    if (status != BASE_ERR_NOTFOUND) {
        return status;
    }
    status = store_number(op->store, op->reterr, SQL_CLIENT_COUNT, &count, "");
    const int64_t id = count + 1;
    if (status == BASE_OK && id > BUDGET_CLIENTS_MAX) {
        return op_refuse(op, BUDGET_REASON_LIMIT, "there have been %d clients", BUDGET_CLIENTS_MAX);
    }
    if (status == BASE_OK) {
        status = store_run(op->store, op->reterr, SQL_CLIENT_INSERT, "id:i name:t key:b role:i", id,
                           client->name, client->public_key, sizeof client->public_key,
                           (int64_t)client->role);
    }
    memcpy(op->data, client->public_key, sizeof client->public_key);
    op->data[BUDGET_CLIENT_KEY_BYTES] = (uint8_t)client->role;
    op->row.kind = BUDGET_KIND_CLIENT_ADD;
    op->row.amount = id;
    op->row.data = op->data;
    op->row.data_bytes = BUDGET_CLIENT_KEY_BYTES + 1;
    return status == BASE_OK ? op_grant(op) : status;
}

base_status budget_ledger_client_add(budget_ledger *ledger, const budget_caller *caller,
                                     const budget_ledger_client *client, budget_answer *answer,
                                     base_error *reterr)
{
    ledger_op op;
    if (!budget_name_ok(client->name, sizeof client->name, false) ||
        client->role < BUDGET_ROLE_REQUEST || client->role > BUDGET_ROLE_ADMIN) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a client has a name of letters, digits and . _ - + @ : and a role");
    }
    base_status status = BASE_OK;
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = add(&op, client);
    }
    return op_end(&op, status);
}

/* Without an admin nobody sets a cap or adds a client, so the last one stays. A row that stands was
 * granted: an audit that makes it again does not ask. */
static base_status last_admin(ledger_op *op, const budget_ledger_client *client, bool *last)
{
    int64_t count = 0;
    *last = false;
    if (client->role != BUDGET_ROLE_ADMIN || op->ledger->again != NULL) {
        return BASE_OK;
    }
    const base_status status = store_number(op->store, op->reterr, SQL_CLIENT_COUNT_ROLE, &count,
                                            "role:i", (int64_t)BUDGET_ROLE_ADMIN);
    *last = count == 1;
    return status;
}

static base_status revoke(ledger_op *op, const char *name)
{
    budget_ledger_client found;
    bool last = false;
    op->row.text = name;
    base_status status = find_name(op->ledger, name, &found, op->reterr);
    if (status == BASE_ERR_NOTFOUND) {
        return op_refuse(op, BUDGET_REASON_CLIENT_UNKNOWN,
                         "there is no client %s: budget-service client list has them", name);
    }
    status = status == BASE_OK ? last_admin(op, &found, &last) : status;
    if (status == BASE_OK && last) {
        return op_refuse(op, BUDGET_REASON_STATE,
                         "%s is the last admin: first client add NAME --role admin", name);
    }
    if (status == BASE_OK) {
        op->row.kind = BUDGET_KIND_CLIENT_REVOKE;
        op->row.amount = found.id;
        status = store_run_one(op->store, op->reterr, SQL_CLIENT_REVOKE, "id:i", found.id);
    }
    return status == BASE_OK ? op_grant(op) : status;
}

base_status budget_ledger_client_revoke(budget_ledger *ledger, const budget_caller *caller,
                                        const char *name, budget_answer *answer, base_error *reterr)
{
    ledger_op op;
    base_status status = text_check("a client's name", name, BUDGET_NAME_BYTES, reterr);
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = revoke(&op, name);
    }
    return op_end(&op, status);
}

base_status budget_ledger_clients(budget_ledger *ledger,
                                  bool (*visit)(void *context, const budget_ledger_client *client),
                                  void *context, base_error *reterr)
{
    store_db *store = &ledger->store;
    bool more = true;
    base_status status = store_query(store, reterr, SQL_CLIENT_WALK, "");
    while (more && store_next(store, SQL_CLIENT_WALK, &status, reterr)) {
        budget_ledger_client client;
        read_client(store, SQL_CLIENT_WALK, &client);
        more = visit(context, &client);
    }
    store_done(store, SQL_CLIENT_WALK);
    return status;
}
