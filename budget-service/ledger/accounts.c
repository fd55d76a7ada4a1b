/* Ledger operations on accounts: create, set a cap, acknowledge, list; and the chain of an account
 * and its parents, which the other operations load. Called by server/ and, to replay a journal, by
 * audit/. */
#include <string.h>

#include "budget/money.h"
#include "ledger_core.h"

typedef struct account_row {
    int64_t id;
    int64_t parent;
    budget_account account;
} account_row;

static void read_account(const store_db *store, store_sql sql, account_row *row)
{
    row->id = store_int(store, sql, 0);
    store_copy_text(store, sql, 1, row->account.name, sizeof row->account.name);
    row->parent = store_int(store, sql, 2);
    row->account.cap_usd_micro = store_int(store, sql, 3);
    row->account.posted_usd_micro = store_int(store, sql, 4);
    row->account.reserved_usd_micro = store_int(store, sql, 5);
    row->account.frozen = store_int(store, sql, 6) != 0;
    row->account.remaining_usd_micro =
        budget_rule_remaining(&(budget_rule_account){.cap = row->account.cap_usd_micro,
                                                     .posted = row->account.posted_usd_micro,
                                                     .reserved = row->account.reserved_usd_micro});
}

static base_status load_account(budget_ledger *ledger, const char *name, int64_t id,
                                account_row *found, base_error *reterr)
{
    store_db *store = &ledger->store;
    const store_sql sql = name != NULL ? SQL_ACCOUNT_BY_NAME : SQL_ACCOUNT_BY_ID;
    base_status status = name != NULL ? store_query(store, reterr, sql, "name:t", name)
                                      : store_query(store, reterr, sql, "id:i", id);
    if (store_next(store, sql, &status, reterr)) {
        read_account(store, sql, found);
        store_done(store, sql);
        return BASE_OK;
    }
    return status != BASE_OK ? status
                             : base_fail(reterr, BASE_ERR_NOTFOUND, "there is no account %s",
                                         name != NULL ? name : "of that number");
}

base_status chain_load(budget_ledger *ledger, const char *name, int64_t id, ledger_chain *chain,
                       base_error *reterr)
{
    memset(chain, 0, sizeof *chain);
    do {
        account_row row;
        const size_t i = chain->rule.count;
        if (i == BUDGET_ACCOUNT_DEPTH_MAX) {
            return base_fail(reterr, BASE_ERR_STATE, "an account's parents go in a circle");
        }
        const base_status status = load_account(ledger, name, id, &row, reterr);
        if (status != BASE_OK) {
            return i == 0 || status != BASE_ERR_NOTFOUND
                       ? status
                       : base_fail(reterr, BASE_ERR_STATE, "an account's parent is missing");
        }
        chain->ids[i] = row.id;
        memcpy(chain->names[i], row.account.name, sizeof chain->names[i]);
        chain->rule.accounts[i] = (budget_rule_account){
            .cap = row.account.cap_usd_micro,
            .posted = row.account.posted_usd_micro,
            .reserved = row.account.reserved_usd_micro,
            .frozen = row.account.frozen,
        };
        chain->rule.count++;
        name = NULL;
        id = row.parent;
    } while (id != 0);
    return BASE_OK;
}

int chain_frozen(const ledger_chain *chain)
{
    for (size_t i = 0; i < chain->rule.count; i++) {
        if (chain->rule.accounts[i].frozen) {
            return (int)i;
        }
    }
    return -1;
}

void chain_answer(const ledger_chain *before, const ledger_chain *after, size_t which,
                  budget_answer *answer)
{
    memcpy(answer->account, before->names[which], sizeof answer->account);
    answer->cap_usd_micro = after->rule.accounts[which].cap;
    answer->remaining_before_usd_micro = budget_rule_remaining(&before->rule.accounts[which]);
    answer->remaining_after_usd_micro = budget_rule_remaining(&after->rule.accounts[which]);
}

static base_status check_account(const char *account, int64_t cap_usd_micro, base_error *reterr)
{
    if (!budget_name_ok(account, BUDGET_ACCOUNT_BYTES, true)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "an account has letters, digits and . _ - + @ : in at most %d parts with "
                         "/ between them",
                         BUDGET_ACCOUNT_DEPTH_MAX);
    }
    if (cap_usd_micro < 0 || cap_usd_micro > BUDGET_MONEY_MICRO_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "a cap is between 0 and a billion dollars");
    }
    return BASE_OK;
}

static base_status insert_account(ledger_op *op, const char *account, int64_t parent, int64_t cap)
{
    int64_t count = 0;
    base_status status = store_number(op->store, op->reterr, SQL_ACCOUNT_COUNT, &count, "");
    if (status != BASE_OK) {
        return status;
    }
    const int64_t id = count + 1;
    if (id > BUDGET_ACCOUNTS_MAX) {
        return op_refuse(op, BUDGET_REASON_LIMIT, "there are %d accounts already",
                         BUDGET_ACCOUNTS_MAX);
    }
    status = store_run(op->store, op->reterr, SQL_ACCOUNT_INSERT, "id:i name:t parent:i cap:i", id,
                       account, parent, cap);
    if (status != BASE_OK) {
        return status;
    }
    op->row.kind = BUDGET_KIND_ACCOUNT;
    op->row.account = id;
    op->row.amount = cap;
    op->row.reserved_delta = 0;
    return op_grant(op);
}

static base_status create(ledger_op *op, const char *account, int64_t cap_usd_micro)
{
    account_row row = {0};
    const char *slash = strrchr(account, '/');
    op->row.text = account;
    op->answer->cap_usd_micro = cap_usd_micro;
    (void)strncpy(op->answer->account, account, sizeof op->answer->account - 1);
    base_status status = load_account(op->ledger, account, 0, &row, op->reterr);
    if (status == BASE_OK) {
        return op_refuse(op, BUDGET_REASON_ACCOUNT_EXISTS,
                         "there is an account %.64s already: budget-service account "
                         "set-cap %.64s --cap USD gives it another cap",
                         account, account);
    }
    if (status == BASE_ERR_NOTFOUND && slash != NULL) {
        char name[BUDGET_ACCOUNT_BYTES] = "";
        memcpy(name, account, (size_t)(slash - account));
        status = load_account(op->ledger, name, 0, &row, op->reterr);
        if (status == BASE_ERR_NOTFOUND) {
            return op_refuse(op, BUDGET_REASON_ACCOUNT_UNKNOWN,
                             "there is no account %.64s for it to be a part of: first "
                             "budget-service account create %.64s --cap USD",
                             name, name);
        }
    } else if (status == BASE_ERR_NOTFOUND) {
        status = BASE_OK;
    }
    /* row is its parent's, or zero */
    return status == BASE_OK ? insert_account(op, account, row.id, cap_usd_micro) : status;
}

base_status budget_ledger_account_create(budget_ledger *ledger, const budget_caller *caller,
                                         const char *account, int64_t cap_usd_micro,
                                         budget_answer *answer, base_error *reterr)
{
    ledger_op op;
    base_status status = check_account(account, cap_usd_micro, reterr);
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = create(&op, account, cap_usd_micro);
    }
    return op_end(&op, status);
}

/* The chain of the account that an operation is about. False: *status says why, or there is no such
 * account and that is refused. */
static bool find_chain(ledger_op *op, const char *account, ledger_chain *chain, base_status *status)
{
    op->row.text = account;
    *status = chain_load(op->ledger, account, 0, chain, op->reterr);
    if (*status == BASE_ERR_NOTFOUND) {
        *status = op_refuse(op, BUDGET_REASON_ACCOUNT_UNKNOWN, BUDGET_NO_ACCOUNT, account);
        return false;
    }
    return *status == BASE_OK;
}

static base_status set_cap(ledger_op *op, const char *account, int64_t cap_usd_micro)
{
    ledger_chain chain;
    base_status status = BASE_OK;
    if (!find_chain(op, account, &chain, &status)) {
        return status;
    }
    ledger_chain after = chain;
    after.rule.accounts[0].cap = cap_usd_micro;
    chain_answer(&chain, &after, 0, op->answer);
    op->row.kind = BUDGET_KIND_CAP;
    op->row.account = chain.ids[0];
    op->row.amount = cap_usd_micro;
    status = store_run_one(op->store, op->reterr, SQL_ACCOUNT_SET, "cap:i frozen:i id:i",
                           cap_usd_micro, (int64_t)chain.rule.accounts[0].frozen, chain.ids[0]);
    return status == BASE_OK ? op_grant(op) : status;
}

base_status budget_ledger_set_cap(budget_ledger *ledger, const budget_caller *caller,
                                  const char *account, int64_t cap_usd_micro, budget_answer *answer,
                                  base_error *reterr)
{
    ledger_op op;
    base_status status = check_account(account, cap_usd_micro, reterr);
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = set_cap(&op, account, cap_usd_micro);
    }
    return op_end(&op, status);
}

static base_status acknowledge(ledger_op *op, const char *account)
{
    ledger_chain chain;
    base_status status = BASE_OK;
    if (!find_chain(op, account, &chain, &status)) {
        return status;
    }
    chain_answer(&chain, &chain, 0, op->answer);
    if (!chain.rule.accounts[0].frozen) {
        return op_refuse(op, BUDGET_REASON_STATE, "%s is not frozen", account);
    }
    op->row.kind = BUDGET_KIND_ACKNOWLEDGE;
    op->row.account = chain.ids[0];
    status = store_run_one(op->store, op->reterr, SQL_ACCOUNT_SET, "cap:i frozen:i id:i",
                           chain.rule.accounts[0].cap, (int64_t)0, chain.ids[0]);
    return status == BASE_OK ? op_grant(op) : status;
}

base_status budget_ledger_acknowledge(budget_ledger *ledger, const budget_caller *caller,
                                      const char *account, budget_answer *answer,
                                      base_error *reterr)
{
    ledger_op op;
    base_status status = check_account(account, 0, reterr);
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = acknowledge(&op, account);
    }
    return op_end(&op, status);
}

base_status budget_ledger_chain(budget_ledger *ledger, const char *account,
                                budget_account chain[BUDGET_ACCOUNT_DEPTH_MAX], size_t *count,
                                size_t *binding, base_error *reterr)
{
    ledger_chain loaded;
    const base_status status = chain_load(ledger, account, 0, &loaded, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (size_t i = 0; i < loaded.rule.count; i++) {
        const budget_rule_account *from = &loaded.rule.accounts[i];
        chain[i] = (budget_account){
            .cap_usd_micro = from->cap,
            .posted_usd_micro = from->posted,
            .reserved_usd_micro = from->reserved,
            .remaining_usd_micro = budget_rule_remaining(from),
            .frozen = from->frozen,
        };
        memcpy(chain[i].name, loaded.names[i], sizeof chain[i].name);
    }
    *count = loaded.rule.count;
    if (binding != NULL) {
        *binding = budget_rule_binding(&loaded.rule);
    }
    return BASE_OK;
}

base_status budget_ledger_accounts(budget_ledger *ledger,
                                   bool (*visit)(void *context, const budget_account *account),
                                   void *context, base_error *reterr)
{
    store_db *store = &ledger->store;
    bool more = true;
    base_status status = store_query(store, reterr, SQL_ACCOUNT_WALK, "");
    while (more && store_next(store, SQL_ACCOUNT_WALK, &status, reterr)) {
        account_row found;
        read_account(store, SQL_ACCOUNT_WALK, &found);
        more = visit(context, &found.account);
    }
    store_done(store, SQL_ACCOUNT_WALK);
    return status;
}

base_status budget_ledger_total_spent(budget_ledger *ledger, const char *account,
                                      int64_t *usd_micro, base_error *reterr)
{
    account_row found;
    if (account == NULL) {
        return store_number(&ledger->store, reterr, SQL_TOTAL_SPENT, usd_micro, "");
    }
    const base_status status = load_account(ledger, account, 0, &found, reterr);
    if (status == BASE_OK) {
        *usd_micro = found.account.posted_usd_micro;
    }
    return status;
}
