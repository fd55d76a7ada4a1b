/* Makes one row of the journal again in the audit's scratch ledger, by the operation that made it.
 * All that the operation needs is in the row, except evidence, which is in a table. Called by
 * audit.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit_core.h"
#include "base/bytes.h"

base_status audit_scratch_open(budget_ledger **scratch, base_error *reterr)
{
    budget_ledger *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a ledger");
    }
    made->lock_fd = -1;
    made->checkpoint_fd = -1;
    const base_status status = store_open_scratch(&made->store, reterr);
    if (status != BASE_OK) {
        free(made);
        return status;
    }
    made->in_batch = true; /* one batch, which is never committed */
    *scratch = made;
    return BASE_OK;
}

void audit_scratch_close(budget_ledger *scratch)
{
    if (scratch != NULL) {
        store_close(&scratch->store);
        free(scratch);
    }
}

/* What making one row again takes. */
typedef struct replay {
    budget_ledger *scratch;
    store_db *store; /* of the real ledger, for evidence */
    const journal_row *row;
    budget_caller caller;
    budget_answer answer;
    base_error *reterr;
} replay;

static base_status malformed(const replay *self)
{
    return base_fail(self->reterr, BASE_ERR_INVALID, "its data is malformed");
}

/* A row that changes nothing but what it says: the same again. */
static base_status replay_note(replay *self)
{
    ledger_op op;
    const journal_row *row = self->row;
    base_status status = BASE_OK;
    if (!op_begin(&op, self->scratch, &self->caller, &self->answer, self->reterr, &status) ||
        row->reserved_delta != 0 || row->posted_delta != 0 || row->state != 0) {
        return status != BASE_OK ? status : malformed(self);
    }
    op.row = *row;
    self->answer.reason = row->reason;
    return op_end(&op, op_grant(&op));
}

static base_status replay_account(replay *self)
{
    const journal_row *row = self->row;
    const char *name = row->text != NULL ? row->text : "";
    switch (row->kind) {
    case BUDGET_KIND_ACCOUNT:
        return budget_ledger_account_create(self->scratch, &self->caller, name, row->amount,
                                            &self->answer, self->reterr);
    case BUDGET_KIND_CAP:
        return budget_ledger_set_cap(self->scratch, &self->caller, name, row->amount, &self->answer,
                                     self->reterr);
    default:
        return budget_ledger_acknowledge(self->scratch, &self->caller, name, &self->answer,
                                         self->reterr);
    }
}

static base_status replay_authorize(replay *self)
{
    static const char no_kid[] = "";
    const journal_row *row = self->row;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_authorization authorization = {0};
    if (row->data == NULL) {
        return malformed(self);
    }
    const base_status status =
        budget_claims_parse(row->data, row->data_bytes, &authorization.claims, self->reterr);
    if (status != BASE_OK) {
        return BASE_ERR_INVALID;
    }
    (void)snprintf(authorization.kid, sizeof authorization.kid, "%s",
                   row->text != NULL ? row->text : no_kid);
    return budget_ledger_authorize(self->scratch, &self->caller, &authorization, payload,
                                   &self->answer, self->reterr);
}

/* The account of the vendor, with which the data of the row ends; it may have none. */
static bool read_account(const journal_row *row, size_t offset_bytes,
                         char account[BUDGET_VENDOR_ACCOUNT_BYTES])
{
    const size_t bytes = row->data_bytes > offset_bytes ? row->data_bytes - offset_bytes : 0;
    if (bytes >= BUDGET_VENDOR_ACCOUNT_BYTES) {
        return false;
    }
    (void)snprintf(account, BUDGET_VENDOR_ACCOUNT_BYTES, "%.*s", (int)bytes,
                   bytes > 0 ? (const char *)row->data + offset_bytes : "");
    return true;
}

static base_status replay_attach(replay *self)
{
    const journal_row *row = self->row;
    char account[BUDGET_VENDOR_ACCOUNT_BYTES];
    if (!read_account(row, sizeof(uint64_t), account)) { /* a deadline is before it */
        return malformed(self);
    }
    const budget_attachment what = {
        .label = row->label, .instance_id = row->text, .vendor_account = account};
    return budget_ledger_attach(self->scratch, &self->caller, &what, &self->answer, self->reterr);
}

static base_status replay_redemption(replay *self)
{
    const journal_row *row = self->row;
    base_reader reader = base_reader_make(row->data, row->data_bytes);
    budget_reservation found;
    budget_ledger_redemption redemption = {0};
    (void)base_read_u64(&reader); /* the deadline, which is made again */
    redemption.rank = (int64_t)base_read_u64(&reader);
    redemption.attempt = (int64_t)base_read_u64(&reader);
    const void *key = base_read_bytes(&reader, sizeof redemption.job_public_key);
    if (key == NULL) {
        return malformed(self);
    }
    const base_status status =
        reservation_load_id(self->scratch, row->reservation, &found, self->reterr);
    if (status != BASE_OK) {
        return status;
    }
    memcpy(redemption.job_public_key, key, sizeof redemption.job_public_key);
    if (!read_account(row, reader.offset_bytes, redemption.vendor_account)) {
        return malformed(self);
    }
    memcpy(redemption.jti, found.entry.jti, sizeof redemption.jti);
    return row->kind == BUDGET_KIND_CREATE
               ? budget_ledger_redeem_create(self->scratch, &self->caller, &redemption,
                                             &self->answer, self->reterr)
               : budget_ledger_redeem(self->scratch, &redemption, &self->answer, self->reterr);
}

/* The evidence that the row names stays in its statement until evidence_done. */
static base_status find_evidence(const replay *self, const uint8_t *digest, const void **bytes,
                                 size_t *size_bytes)
{
    base_status status = store_query(self->store, self->reterr, SQL_EVIDENCE_GET, "digest:b",
                                     digest, (size_t)BUDGET_DIGEST_BYTES);
    if (store_next(self->store, SQL_EVIDENCE_GET, &status, self->reterr)) {
        *bytes = store_blob(self->store, SQL_EVIDENCE_GET, 0, size_bytes);
        return BASE_OK;
    }
    return status != BASE_OK
               ? status
               : base_fail(self->reterr, BASE_ERR_NOTFOUND, "its evidence is missing");
}

static base_status replay_actual(replay *self)
{
    const journal_row *row = self->row;
    char instance[BUDGET_INSTANCE_BYTES];
    journal_actual data;
    if (!journal_actual_read(row, &data)) {
        return malformed(self);
    }
    (void)snprintf(instance, sizeof instance, "%.*s", (int)data.instance_bytes, data.instance);
    budget_ledger_actual actual = {
        .label = row->label,
        .usd_micro = row->amount,
        .line_id = row->text,
        .instance_id = instance,
        .billed_usd_micro = data.billed,
        .corrects = data.corrects,
        .final = data.final,
    };
    base_status status = BASE_OK;
    if (data.evidence != NULL) {
        status = find_evidence(self, data.evidence, &actual.evidence, &actual.evidence_bytes);
    }
    if (status == BASE_OK) {
        status = budget_ledger_record_actual(self->scratch, &self->caller, &actual, &self->answer,
                                             self->reterr);
    }
    store_done(self->store, SQL_EVIDENCE_GET);
    return status;
}

static base_status replay_final(replay *self)
{
    const journal_row *row = self->row;
    base_reader reader = base_reader_make(row->data, row->data_bytes);
    budget_rule_bill bill = {0};
    bill.until_ms = (int64_t)base_read_u64(&reader);
    bill.billed_until_ms = (int64_t)base_read_u64(&reader);
    bill.settling_ms = (int64_t)base_read_u64(&reader);
    return reader.failed ? malformed(self)
                         : reservation_finalize(self->scratch, &self->caller, row->reservation,
                                                &bill, self->reterr);
}

static base_status replay_terminated(replay *self)
{
    const journal_row *row = self->row;
    budget_termination termination = {.label = row->label, .attest = BUDGET_ATTEST_ANY_FILE};
    if (row->data_bytes != 1 + BUDGET_DIGEST_BYTES) {
        return malformed(self);
    }
    base_status status = find_evidence(self, (const uint8_t *)row->data + 1, &termination.evidence,
                                       &termination.evidence_bytes);
    if (status == BASE_OK) {
        status = budget_ledger_terminated(self->scratch, &self->caller, &termination, &self->answer,
                                          self->reterr);
    }
    store_done(self->store, SQL_EVIDENCE_GET);
    return status;
}

static base_status replay_expire(replay *self)
{
    budget_reservation found;
    size_t count = 0;
    return budget_ledger_expire(self->scratch, 1, &found, &count, self->reterr);
}

static base_status replay_client(replay *self)
{
    const journal_row *row = self->row;
    budget_ledger_client client = {0};
    if (row->kind == BUDGET_KIND_CLIENT_REVOKE) {
        return budget_ledger_client_revoke(self->scratch, &self->caller, row->text, &self->answer,
                                           self->reterr);
    }
    if (row->text == NULL || row->data_bytes != BUDGET_CLIENT_KEY_BYTES + 1) {
        return malformed(self);
    }
    (void)snprintf(client.name, sizeof client.name, "%s", row->text);
    memcpy(client.public_key, row->data, sizeof client.public_key);
    client.role = (budget_role)((const uint8_t *)row->data)[BUDGET_CLIENT_KEY_BYTES];
    return budget_ledger_client_add(self->scratch, &self->caller, &client, &self->answer,
                                    self->reterr);
}

static base_status replay_replace(replay *self)
{
    const journal_row *row = self->row;
    char replaces[BUDGET_INSTANCE_BYTES];
    if (row->text == NULL || row->data_bytes == 0 || row->data_bytes >= sizeof replaces) {
        return malformed(self);
    }
    (void)snprintf(replaces, sizeof replaces, "%.*s", (int)row->data_bytes,
                   (const char *)row->data);
    const budget_replacement what = {
        .label = row->label, .instance_id = row->text, .replaces = replaces};
    return budget_ledger_replace(self->scratch, &self->caller, &what, &self->answer, self->reterr);
}

static base_status replay_row(replay *self)
{
    const journal_row *row = self->row;
    switch (row->kind) {
    case BUDGET_KIND_ACCOUNT:
    case BUDGET_KIND_CAP:
    case BUDGET_KIND_ACKNOWLEDGE:
        return replay_account(self);
    case BUDGET_KIND_AUTHORIZE:
        return replay_authorize(self);
    case BUDGET_KIND_REDEEM:
    case BUDGET_KIND_CREATE:
        return replay_redemption(self);
    case BUDGET_KIND_ATTACH:
        return replay_attach(self);
    case BUDGET_KIND_REPLACE:
        return replay_replace(self);
    case BUDGET_KIND_ACTUAL:
        return replay_actual(self);
    case BUDGET_KIND_FINAL:
        return replay_final(self);
    case BUDGET_KIND_REFUTED:
        return reservation_refute(self->scratch, &self->caller, row->reservation, self->reterr);
    case BUDGET_KIND_TERMINATED:
        return replay_terminated(self);
    case BUDGET_KIND_VOID:
        return budget_ledger_void(self->scratch, &self->caller, row->label, &self->answer,
                                  self->reterr);
    case BUDGET_KIND_EXPIRE:
        return replay_expire(self);
    case BUDGET_KIND_CLOCK:
        return budget_ledger_clock_repair(self->scratch, &self->caller, &self->answer,
                                          self->reterr);
    case BUDGET_KIND_CLIENT_ADD:
    case BUDGET_KIND_CLIENT_REVOKE:
        return replay_client(self);
    case BUDGET_KIND_GENESIS:
    case BUDGET_KIND_REFUSE:
    case BUDGET_KIND_CHECKPOINT_ACCEPTED:
    case BUDGET_KIND_BOOT:
    case BUDGET_KIND_AUDIT_ACCEPTED:
    case BUDGET_KIND_COUNT_:
        break;
    }
    return replay_note(self);
}

/* The scratch's clock stands where the row's stood. Its offset is the scratch's own: only a row
 * that takes the wall clock over changes it. */
static void set_clock(budget_ledger *scratch, const journal_row *row)
{
    budget_clock_anchor *anchor = &scratch->anchor;
    anchor->ledger_ms = row->at_ms;
    anchor->clock.wall_ms = row->at_ms + row->offset_ms;
    scratch->now.ledger_ms = row->at_ms;
    scratch->now.wall_ms = wall_of(scratch, row->at_ms);
}

base_status audit_replay(budget_audit *audit, const journal_row *row, base_error *reterr)
{
    base_error why = {0};
    budget_ledger *scratch = audit->scratch;
    const char *kind = budget_kind_name(row->kind);
    replay self = {
        .scratch = scratch,
        .store = &audit->ledger->store,
        .row = row,
        .caller = {.client = row->client, .request_id = row->request},
        .reterr = &why,
    };
    if (row->body != NULL) {
        memcpy(self.caller.body_blake2b256, row->body, sizeof self.caller.body_blake2b256);
    }
    set_clock(scratch, row);
    scratch->again = row;
    scratch->made_again = false;
    const base_status status = replay_row(&self);
    scratch->again = NULL;
    scratch->lost = false;
    scratch->batch_sequence = row->sequence;
    memcpy(scratch->batch_head, row->hash, sizeof scratch->batch_head);
    if (status == BASE_ERR_MEMORY || status == BASE_ERR_IO) {
        return base_fail(reterr, status, "audit: row %" PRIu64 ": %s", row->sequence, why.message);
    }
    if (status != BASE_OK) {
        audit_found(audit, row->sequence, "a \"%s\" that cannot be made again: %s", kind,
                    why.message);
    } else if (self.answer.reason != row->reason) {
        audit_found(audit, row->sequence, "a \"%s\" that the rules refuse (%s: %s)", kind,
                    budget_reason_name(self.answer.reason), self.answer.message);
    } else if (!scratch->made_again) {
        audit_found(audit, row->sequence, "a \"%s\" that the rules make otherwise", kind);
    }
    return BASE_OK;
}
