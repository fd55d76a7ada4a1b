/* The tables beside what the journal makes of them: reservations, then those whose rows each belong
 * to one row of the journal, then the accounts and clients. */
#include <inttypes.h>
#include <string.h>

#include "audit_core.h"

static base_status compare_reservation(budget_audit *audit, const ledger_reservation *found)
{
    budget_rule_reservation rule;
    const budget_rule_reservation *have = &found->rule;
    if (found->id != audit->compared + 1) {
        return audit_found(audit, 0, "reservation %" PRId64 " is missing", audit->compared + 1);
    }
    if (found->id > audit->reservation_count) {
        return audit_found(audit, 0, "reservation %s is in no row of the journal", found->label);
    }
    const audit_reservation *picture = &audit->reservations[found->id - 1];
    audit_expand(picture, &rule);
    const bool key = !have->has_key || memcmp(have->job_public_key, picture->key, 8) == 0;
    if (have->amount != rule.amount || have->posted != rule.posted || have->held != rule.held ||
        have->state != rule.state || have->deadline_ms != rule.deadline_ms ||
        have->attempt != rule.attempt || found->billed != picture->billed ||
        found->account != picture->account || !key || reservation_flags(found) != picture->flags ||
        memcmp(found->evidence, picture->evidence, sizeof picture->evidence) != 0 ||
        found->started_ms / 1000 != picture->started_s ||
        found->terminated_ms / 1000 != picture->terminated_s ||
        found->actual_ms / 1000 != picture->actual_s) {
        return audit_found(audit, found->sequence,
                           "reservation %s is not what the journal makes of it", found->label);
    }
    audit->compared = found->id;
    return BASE_OK;
}

base_status audit_compare_reservations(budget_audit *audit, int64_t max, base_error *reterr)
{
    bool more = true;
    int64_t walked = 0;
    store_db *store = &audit->ledger->store;
    base_status status =
        store_query(store, reterr, SQL_AUDIT_RESERVATIONS, "ii", audit->compared, max);
    while (status == BASE_OK && more && audit->report.good) {
        status = store_next(store, SQL_AUDIT_RESERVATIONS, &more, reterr);
        if (status == BASE_OK && more) {
            ledger_reservation found;
            reservation_read(store, SQL_AUDIT_RESERVATIONS, &found);
            status = compare_reservation(audit, &found);
            if (status == BASE_OK && audit->report.good) {
                status = audit_compare_claims(audit, &found, reterr);
            }
            walked++;
        }
    }
    store_done(store, SQL_AUDIT_RESERVATIONS);
    if (status == BASE_OK && audit->report.good && walked < max) {
        if (audit->compared != audit->reservation_count) {
            return audit_found(audit, 0, "reservation %" PRId64 " is missing", audit->compared + 1);
        }
        audit->phase = AUDIT_PHASE_TABLES;
    }
    return status;
}

static const struct {
    const char *name;
    store_sql sql;
    audit_table table;
} walks[] = {
    {"request", SQL_AUDIT_REQUESTS, AUDIT_REQUESTS},
    {"redemption", SQL_AUDIT_REDEMPTIONS, AUDIT_REDEMPTIONS},
    {"line", SQL_AUDIT_LINES, AUDIT_LINES},
    {"instance", SQL_AUDIT_INSTANCES, AUDIT_INSTANCES},
};

static base_status query_table(budget_audit *audit, store_sql sql, int64_t max, base_error *reterr)
{
    store_db *store = &audit->ledger->store;
    const int64_t *cursor = audit->cursor;
    switch (sql) {
    case SQL_AUDIT_REQUESTS:
        return store_query(store, reterr, sql, "iti", cursor[0], audit->cursor_text, max);
    case SQL_AUDIT_REDEMPTIONS:
        return store_query(store, reterr, sql, "iiii", cursor[0], cursor[1], cursor[2], max);
    default:
        return store_query(store, reterr, sql, "ti", audit->cursor_text, max);
    }
}

/* Each statement gives seq first, then the columns of its key. */
static void advance_cursor(budget_audit *audit, store_sql sql)
{
    const store_db *store = &audit->ledger->store;
    if (sql == SQL_AUDIT_REDEMPTIONS) {
        for (int i = 0; i < 3; i++) {
            audit->cursor[i] = store_int(store, sql, 1 + i);
        }
        return;
    }
    const int text = sql == SQL_AUDIT_REQUESTS ? 2 : 1;
    audit->cursor[0] = store_int(store, sql, 1);
    store_copy_text(store, sql, text, audit->cursor_text, sizeof audit->cursor_text);
}

static bool take_bit(budget_audit *audit, audit_table table, int64_t sequence)
{
    const size_t byte = (size_t)(sequence / 8);
    const uint8_t bit = (uint8_t)(1U << (sequence % 8));
    if (sequence < 1 || byte >= audit->bits_bytes || (audit->bits[table][byte] & bit) == 0) {
        return false;
    }
    audit->bits[table][byte] &= (uint8_t)~bit;
    return true;
}

base_status audit_compare_table(budget_audit *audit, int64_t max, base_error *reterr)
{
    bool more = true;
    int64_t walked = 0;
    store_db *store = &audit->ledger->store;
    const store_sql sql = walks[audit->table].sql;
    if (!audit->begun) {
        memset(audit->cursor, 0xff, sizeof audit->cursor); /* -1: before all */
        audit->cursor_text[0] = '\0';
        audit->begun = true;
    }
    base_status status = query_table(audit, sql, max, reterr);
    while (status == BASE_OK && more && audit->report.good) {
        status = store_next(store, sql, &more, reterr);
        if (status == BASE_OK && more) {
            const int64_t sequence = store_int(store, sql, 0);
            advance_cursor(audit, sql);
            walked++;
            if (!take_bit(audit, walks[audit->table].table, sequence)) {
                status = audit_found(audit, 0,
                                     "the table \"%s\" has an entry, for row %" PRId64
                                     ", that no row of the journal made",
                                     walks[audit->table].name, sequence);
            }
        }
    }
    store_done(store, sql);
    if (walked < max) {
        audit->begun = false;
        audit->table++;
    }
    return status;
}

/* ---- the end: accounts and clients, few enough for one slice ---- */

typedef struct audit_comparison {
    budget_audit *audit;
    int64_t count;
} audit_comparison;

static bool compare_account(void *context, const budget_account *found)
{
    audit_comparison *comparison = context;
    budget_audit *audit = comparison->audit;
    comparison->count++;
    for (int64_t i = 0; i < audit->account_count; i++) {
        const audit_account *account = &audit->accounts[i];
        if (strcmp(account->name, found->name) == 0) {
            if (account->rule.cap != found->cap_usd_micro ||
                account->rule.posted != found->posted_usd_micro ||
                account->rule.reserved != found->reserved_usd_micro ||
                account->rule.frozen != found->frozen) {
                (void)audit_found(audit, 0,
                                  "account %s: posted %" PRId64 ", reserved %" PRId64
                                  " micro-dollars, and the journal makes %" PRId64 " and %" PRId64
                                  " (or its cap or freeze differs)",
                                  found->name, found->posted_usd_micro, found->reserved_usd_micro,
                                  account->rule.posted, account->rule.reserved);
            }
            return audit->report.good;
        }
    }
    (void)audit_found(audit, 0, "account %s is in no row of the journal", found->name);
    return false;
}

static bool compare_client(void *context, const budget_client *found)
{
    audit_comparison *comparison = context;
    budget_audit *audit = comparison->audit;
    comparison->count++;
    if (found->id < 1 || found->id > audit->client_count) {
        (void)audit_found(audit, 0, "client %s is in no row of the journal", found->name);
        return false;
    }
    const audit_client *client = &audit->clients[found->id - 1];
    if (strcmp(client->name, found->name) != 0 || client->role != (uint8_t)found->role ||
        client->revoked != found->revoked ||
        memcmp(client->key, found->public_key, sizeof client->key) != 0) {
        (void)audit_found(audit, 0, "client %s is not what the journal makes of it", found->name);
    }
    return audit->report.good;
}

/* The chain that a grant reserves in follows the parents' numbers. */
static base_status compare_parents(budget_audit *audit, base_error *reterr)
{
    bool more = true;
    store_db *store = &audit->ledger->store;
    base_status status = store_query(store, reterr, SQL_ACCOUNT_WALK, "");
    while (status == BASE_OK && more && audit->report.good) {
        status = store_next(store, SQL_ACCOUNT_WALK, &more, reterr);
        if (status == BASE_OK && more) {
            const int64_t id = store_int(store, SQL_ACCOUNT_WALK, 0);
            if (id < 1 || id > audit->account_count ||
                audit->accounts[id - 1].parent != store_int(store, SQL_ACCOUNT_WALK, 2)) {
                (void)audit_found(audit, 0, "account %s has another parent or number",
                                  store_text(store, SQL_ACCOUNT_WALK, 1));
            }
        }
    }
    store_done(store, SQL_ACCOUNT_WALK);
    return status;
}

base_status audit_compare_rest(budget_audit *audit, base_error *reterr)
{
    audit_comparison accounts = {.audit = audit};
    audit_comparison clients = {.audit = audit};
    base_status status = budget_ledger_accounts(audit->ledger, compare_account, &accounts, reterr);
    if (status == BASE_OK && audit->report.good) {
        status = budget_ledger_clients(audit->ledger, compare_client, &clients, reterr);
    }
    if (status == BASE_OK && audit->report.good) {
        status = compare_parents(audit, reterr);
    }
    if (status == BASE_OK && audit->report.good &&
        audit->offset_ms != audit->ledger->anchor.offset_ms) {
        (void)audit_found(audit, 0, "the clock's offset is in no row of the journal");
    }
    if (status == BASE_OK && audit->report.good &&
        (accounts.count != audit->account_count || clients.count != audit->client_count)) {
        (void)audit_found(audit, 0, "an account or a client is missing");
    }
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    budget_ledger_head(audit->ledger, &sequence, head);
    if (status == BASE_OK && audit->report.good &&
        (sequence != audit->position || memcmp(head, audit->head, sizeof head) != 0)) {
        (void)audit_found(audit, audit->position + 1, "it is missing: the journal has been cut");
    }
    audit->phase = AUDIT_PHASE_END;
    return status;
}
