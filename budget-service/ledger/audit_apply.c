/* One row's effect on the audit's picture: the rules that decided, asked again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_core.h"
#include "base/bytes.h"
#include "budget/time.h"

void audit_expand(const audit_reservation *from, budget_rule_reservation *rule)
{
    memset(rule, 0, sizeof *rule);
    rule->state = (budget_state)from->state;
    rule->amount = from->amount;
    rule->posted = from->posted;
    rule->deadline_ms = from->deadline_ms;
    rule->attempt = from->attempt;
    rule->local = (from->flags & FLAG_LOCAL) != 0;
    rule->created = (from->flags & FLAG_CREATED) != 0;
    rule->expired = (from->flags & FLAG_EXPIRED) != 0;
    rule->terminated = (from->flags & FLAG_TERMINATED) != 0;
    rule->cost_known = (from->flags & FLAG_COST_KNOWN) != 0;
    const bool released = rule->state == BUDGET_STATE_VOIDED || rule->state == BUDGET_STATE_POSTED;
    const int64_t posted = rule->posted > 0 ? rule->posted : 0;
    rule->held = released || posted >= rule->amount ? 0 : rule->amount - posted;
}

static void shrink(const budget_rule_reservation *rule, audit_reservation *to)
{
    to->posted = rule->posted;
    to->deadline_ms = rule->deadline_ms;
    to->attempt = (uint16_t)rule->attempt;
    to->state = (uint8_t)rule->state;
    to->flags = (uint8_t)((to->flags & FLAG_ATTESTED) | (rule->local ? FLAG_LOCAL : 0) |
                          (rule->created ? FLAG_CREATED : 0) | (rule->expired ? FLAG_EXPIRED : 0) |
                          (rule->terminated ? FLAG_TERMINATED : 0) |
                          (rule->cost_known ? FLAG_COST_KNOWN : 0));
}

static bool chain_of(const budget_audit *audit, int64_t account, budget_rule_chain *chain,
                     int64_t ids[BUDGET_ACCOUNT_DEPTH_MAX])
{
    memset(chain, 0, sizeof *chain);
    while (account != 0) {
        if (account < 0 || account > audit->account_count ||
            chain->count == BUDGET_ACCOUNT_DEPTH_MAX) {
            return false;
        }
        ids[chain->count] = account;
        chain->accounts[chain->count++] = audit->accounts[account - 1].rule;
        account = audit->accounts[account - 1].parent;
    }
    return chain->count > 0;
}

static void chain_put(budget_audit *audit, const budget_rule_chain *chain, const int64_t *ids)
{
    for (size_t i = 0; i < chain->count; i++) {
        audit->accounts[ids[i] - 1].rule = chain->accounts[i];
    }
}

static base_status apply_account(budget_audit *audit, const journal_row *row)
{
    int64_t parent = 0;
    const char *slash = row->text != NULL ? strrchr(row->text, '/') : NULL;
    if (row->text == NULL || row->account != audit->account_count + 1 ||
        row->account > BUDGET_ACCOUNTS_MAX || strlen(row->text) >= BUDGET_ACCOUNT_BYTES) {
        return audit_found(audit, row->sequence, "the account it makes has a wrong number or name");
    }
    for (int64_t i = 0; slash != NULL && i < audit->account_count; i++) {
        const char *name = audit->accounts[i].name;
        const size_t length = (size_t)(slash - row->text);
        if (strlen(name) == length && memcmp(name, row->text, length) == 0) {
            parent = i + 1;
        }
    }
    if (slash != NULL && parent == 0) {
        return audit_found(audit, row->sequence, "the account it makes has no parent");
    }
    audit_account *account = &audit->accounts[audit->account_count++];
    memset(account, 0, sizeof *account);
    memcpy(account->name, row->text, strlen(row->text));
    account->parent = parent;
    account->rule.cap = row->amount;
    return BASE_OK;
}

static base_status apply_to_account(budget_audit *audit, const journal_row *row)
{
    if (row->account < 1 || row->account > audit->account_count) {
        return audit_found(audit, row->sequence, "it names account %" PRId64 ", which is not there",
                           row->account);
    }
    budget_rule_account *account = &audit->accounts[row->account - 1].rule;
    if (row->kind == BUDGET_KIND_CAP) {
        account->cap = row->amount;
        return BASE_OK;
    }
    if (!account->frozen) {
        return audit_found(audit, row->sequence, "it thaws an account that was not frozen");
    }
    account->frozen = false;
    return BASE_OK;
}

static base_status grow(budget_audit *audit, base_error *reterr)
{
    if (audit->reservation_count < audit->reservation_capacity) {
        return BASE_OK;
    }
    const int64_t capacity =
        audit->reservation_capacity == 0 ? 1024 : 2 * audit->reservation_capacity;
    audit_reservation *larger =
        realloc(audit->reservations, (size_t)capacity * sizeof *audit->reservations);
    if (larger == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the audit");
    }
    audit->reservations = larger;
    audit->reservation_capacity = capacity;
    return BASE_OK;
}

static base_status apply_authorize(budget_audit *audit, const journal_row *row, base_error *reterr)
{
    budget_rule_chain chain;
    int64_t ids[BUDGET_ACCOUNT_DEPTH_MAX] = {0};
    size_t which = 0;
    if (row->reservation != audit->reservation_count + 1 ||
        !chain_of(audit, row->account, &chain, ids)) {
        return audit_found(audit, row->sequence, "its reservation or account has a wrong number");
    }
    const budget_reason reason = budget_rule_authorize(&chain, row->amount, &which);
    if (reason != BUDGET_REASON_NONE) {
        return audit_found(audit, row->sequence, "it grants what account %s refuses (%s)",
                           audit->accounts[ids[which] - 1].name, budget_reason_name(reason));
    }
    if (row->reserved_delta != row->amount || row->posted_delta != 0 ||
        row->state != BUDGET_STATE_RESERVED || row->data == NULL) {
        return audit_found(audit, row->sequence, "it does not reserve what it grants");
    }
    const base_status status = grow(audit, reterr);
    if (status != BASE_OK) {
        return status;
    }
    chain_put(audit, &chain, ids);
    audit_reservation *made = &audit->reservations[audit->reservation_count++];
    memset(made, 0, sizeof *made);
    made->amount = row->amount;
    made->account = (uint32_t)row->account;
    made->state = BUDGET_STATE_RESERVED;
    /* The claims are the canonical JSON that we wrote: keys and strings without escapes. */
    if (memmem(row->data, row->data_bytes, "\"vendor\":\"local\"", 16) != NULL) {
        made->flags = FLAG_LOCAL;
    }
    return BASE_OK;
}

/* What redeeming and leave to create change; what they demanded is in part not in the picture. */
static budget_reason redeem_again(const journal_row *row, audit_reservation *picture, bool frozen,
                                  budget_rule_reservation *rule)
{
    base_reader reader = base_reader_make(row->data, row->data_bytes);
    const int64_t deadline_ms = (int64_t)base_read_u64(&reader);
    const int64_t rank = (int64_t)base_read_u64(&reader);
    const int64_t attempt = (int64_t)base_read_u64(&reader);
    const uint8_t *key = base_read_bytes(&reader, BUDGET_CLIENT_KEY_BYTES);
    const budget_rule_now now = {.ledger_ms = row->at_ms, .wall_ms = row->at_ms + row->offset_ms};
    if (key == NULL || attempt > UINT16_MAX) {
        return BUDGET_REASON_STATE;
    }
    rule->world_size = INT64_MAX;
    rule->max_attempts = INT64_MAX;
    rule->expires_at_s = INT64_MAX;
    rule->max_seconds = (deadline_ms - row->at_ms) / 1000;
    if (row->kind == BUDGET_KIND_CREATE) {
        const budget_reason reason = budget_rule_create(rule, frozen, &now);
        return reason == BUDGET_REASON_NONE && rule->deadline_ms != deadline_ms
                   ? BUDGET_REASON_DEADLINE_PASSED
                   : reason;
    }
    rule->has_key = rule->attempt > 0;
    memcpy(rule->job_public_key, key, sizeof rule->job_public_key);
    memcpy(rule->job_public_key, picture->key, sizeof picture->key);
    const budget_rule_tuple tuple = {.rank = rank, .attempt = attempt, .job_public_key = key};
    const budget_reason reason = budget_rule_redeem(rule, &tuple, frozen, &now);
    memcpy(picture->key, key, sizeof picture->key);
    return reason == BUDGET_REASON_NONE && rule->deadline_ms != deadline_ms
               ? BUDGET_REASON_DEADLINE_PASSED
               : reason;
}

static int64_t billed_of(const journal_row *row)
{
    base_reader reader = base_reader_make(row->data, row->data_bytes);
    return (int64_t)base_read_u64(&reader);
}

static budget_reason change_again(const journal_row *row, audit_reservation *picture, bool frozen,
                                  budget_rule_reservation *rule, bool *freeze)
{
    const budget_rule_now now = {.ledger_ms = row->at_ms};
    switch (row->kind) {
    case BUDGET_KIND_REDEEM:
    case BUDGET_KIND_CREATE:
        return redeem_again(row, picture, frozen, rule);
    case BUDGET_KIND_ACTUAL:
        picture->billed += billed_of(row);
        return budget_rule_actual(rule, row->amount, freeze);
    case BUDGET_KIND_TERMINATED:
        return budget_rule_terminated(rule);
    case BUDGET_KIND_VOID:
        return budget_rule_void(rule);
    case BUDGET_KIND_EXPIRE:
        return budget_rule_expire(rule, &now) ? BUDGET_REASON_NONE : BUDGET_REASON_STATE;
    default:
        return BUDGET_REASON_NONE; /* an instance attached: nothing changes */
    }
}

/* Times and evidence, which the rules do not look at. */
static void note_facts(const journal_row *row, const budget_rule_reservation *before,
                       const budget_rule_reservation *after, audit_reservation *picture)
{
    const uint32_t at_s = (uint32_t)((row->at_ms + row->offset_ms) / 1000);
    const uint8_t *data = row->data;
    if (row->kind == BUDGET_KIND_REDEEM || row->kind == BUDGET_KIND_CREATE) {
        picture->started_s = at_s;
    } else if (row->kind == BUDGET_KIND_ACTUAL) {
        picture->actual_s = at_s;
        if (row->data_bytes == 8 + BUDGET_DIGEST_BYTES && !before->terminated) {
            memcpy(picture->evidence, data + 8, sizeof picture->evidence);
        }
    } else if (row->kind == BUDGET_KIND_TERMINATED && row->data_bytes > 8) {
        const bool attested =
            data[0] != 0 && ((picture->flags & FLAG_ATTESTED) != 0 || !before->terminated);
        picture->flags =
            (uint8_t)((picture->flags & ~FLAG_ATTESTED) | (attested ? FLAG_ATTESTED : 0));
        memcpy(picture->evidence, data + 1, sizeof picture->evidence);
    }
    if (!before->terminated && after->terminated) {
        picture->terminated_s = at_s;
    }
}

static base_status apply_change(budget_audit *audit, const journal_row *row)
{
    budget_rule_chain chain;
    int64_t ids[BUDGET_ACCOUNT_DEPTH_MAX] = {0};
    budget_rule_reservation before = {0};
    bool frozen = false;
    bool freeze = false;
    if (row->reservation < 1 || row->reservation > audit->reservation_count) {
        return audit_found(audit, row->sequence, "it changes a reservation that was never made");
    }
    audit_reservation *picture = &audit->reservations[row->reservation - 1];
    if (row->account != picture->account || !chain_of(audit, picture->account, &chain, ids)) {
        return audit_found(audit, row->sequence, "it names another account than its reservation");
    }
    for (size_t i = 0; i < chain.count; i++) {
        frozen = frozen || chain.accounts[i].frozen;
    }
    audit_expand(picture, &before);
    budget_rule_reservation after = before;
    const budget_reason reason = change_again(row, picture, frozen, &after, &freeze);
    if (reason != BUDGET_REASON_NONE) {
        return audit_found(audit, row->sequence, "a \"%s\" that the rules refuse (%s)",
                           budget_kind_name(row->kind), budget_reason_name(reason));
    }
    if (row->reserved_delta != after.held - before.held ||
        row->posted_delta != after.posted - before.posted || row->state != (int64_t)after.state) {
        return audit_found(audit, row->sequence,
                           "a \"%s\" that moves other money than the rules do",
                           budget_kind_name(row->kind));
    }
    if (!budget_rule_effect(&chain, &before, &after, freeze)) {
        return audit_found(audit, row->sequence, "its sums leave what money may be");
    }
    chain_put(audit, &chain, ids);
    shrink(&after, picture);
    note_facts(row, &before, &after, picture);
    return BASE_OK;
}

static base_status apply_client(budget_audit *audit, const journal_row *row)
{
    if (row->kind == BUDGET_KIND_CLIENT_REVOKE) {
        if (row->amount < 1 || row->amount > audit->client_count) {
            return audit_found(audit, row->sequence, "it revokes a client that is not there");
        }
        audit->clients[row->amount - 1].revoked = true;
        return BASE_OK;
    }
    if (row->amount != audit->client_count + 1 || row->amount > BUDGET_CLIENTS_MAX ||
        row->text == NULL || strlen(row->text) >= BUDGET_NAME_BYTES ||
        row->data_bytes != BUDGET_CLIENT_KEY_BYTES + 1) {
        return audit_found(audit, row->sequence, "the client it adds has a wrong number or name");
    }
    audit_client *client = &audit->clients[audit->client_count++];
    memset(client, 0, sizeof *client);
    memcpy(client->name, row->text, strlen(row->text));
    memcpy(client->key, row->data, sizeof client->key);
    client->role = ((const uint8_t *)row->data)[BUDGET_CLIENT_KEY_BYTES];
    return BASE_OK;
}

base_status audit_apply(budget_audit *audit, const journal_row *row, base_error *reterr)
{
    const bool change = row->kind >= BUDGET_KIND_AUTHORIZE && row->kind <= BUDGET_KIND_EXPIRE &&
                        row->kind != BUDGET_KIND_REFUSE;
    if (!change && (row->reserved_delta != 0 || row->posted_delta != 0)) {
        return audit_found(audit, row->sequence, "a \"%s\" that moves money",
                           budget_kind_name(row->kind));
    }
    if ((row->reason != BUDGET_REASON_NONE) != (row->kind == BUDGET_KIND_REFUSE)) {
        return audit_found(audit, row->sequence, "a \"%s\" with the verdict %s",
                           budget_kind_name(row->kind), budget_reason_name(row->reason));
    }
    switch (row->kind) {
    case BUDGET_KIND_ACCOUNT:
        return apply_account(audit, row);
    case BUDGET_KIND_CAP:
    case BUDGET_KIND_ACKNOWLEDGE:
        return apply_to_account(audit, row);
    case BUDGET_KIND_AUTHORIZE:
        return apply_authorize(audit, row, reterr);
    case BUDGET_KIND_CLIENT_ADD:
    case BUDGET_KIND_CLIENT_REVOKE:
        return apply_client(audit, row);
    default:
        return change ? apply_change(audit, row) : BASE_OK;
    }
}

/* The claims are the canonical JSON that we wrote, so a value stands there in one way only. */
static bool says(const journal_row *row, const char *key, const char *text, int64_t number)
{
    char wanted[BUDGET_LABEL_BYTES + 64];
    const char *end = strcmp(key, "world_size") == 0 ? "}" : ",";
    const int length =
        text != NULL ? snprintf(wanted, sizeof wanted, "\"%s\":\"%s\"", key, text)
                     : snprintf(wanted, sizeof wanted, "\"%s\":%" PRId64 "%s", key, number, end);
    return memmem(row->data, row->data_bytes, wanted, (size_t)length) != NULL;
}

static bool claims_agree(const journal_row *row, const ledger_reservation *found)
{
    char exp[BUDGET_TIME_BYTES];
    const budget_rule_reservation *rule = &found->rule;
    budget_time_format(rule->expires_at_s, exp);
    return says(row, "label", found->label, 0) && says(row, "jti", found->jti, 0) &&
           says(row, "vendor", found->vendor, 0) && says(row, "mode", found->mode, 0) &&
           says(row, "sub", found->subject, 0) &&
           says(row, "instance_type", found->instance_type, 0) && says(row, "exp", exp, 0) &&
           says(row, "max_seconds", NULL, rule->max_seconds) &&
           says(row, "max_attempts", NULL, rule->max_attempts) &&
           says(row, "instances", NULL, found->instances) &&
           says(row, "world_size", NULL, rule->world_size) &&
           found->authorized_ms == row->at_ms + row->offset_ms;
}

base_status audit_compare_claims(budget_audit *audit, const ledger_reservation *found,
                                 base_error *reterr)
{
    bool there = false;
    journal_row row;
    store_db *store = &audit->ledger->store;
    base_status status = store_query(store, reterr, SQL_JOURNAL_GET, "i", (int64_t)found->sequence);
    status = status == BASE_OK ? store_next(store, SQL_JOURNAL_GET, &there, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    const bool good = there && journal_read(store, SQL_JOURNAL_GET, &row) &&
                      row.kind == BUDGET_KIND_AUTHORIZE && row.reservation == found->id &&
                      row.data != NULL && claims_agree(&row, found);
    store_done(store, SQL_JOURNAL_GET);
    return good ? BASE_OK
                : audit_found(audit, found->sequence, "reservation %s is not what its claims say",
                              found->label);
}
