/* The frame of every ledger operation: replay of a remembered request, grant or refusal, one
 * journal row, checks of texts and evidence. Called by the operations in this directory. */
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "failpoint.h"
#include "ledger_core.h"
#include "rules/mutation.h"

base_status text_check(const char *what, const char *text, size_t size_bytes, base_error *reterr)
{
    const size_t length = text != NULL ? strnlen(text, size_bytes) : 0;
    if (length == 0 || length >= size_bytes) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s must have 1 to %zu characters", what,
                         size_bytes - 1);
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\') {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "%s may hold printable ASCII without quotes and backslashes", what);
        }
    }
    return BASE_OK;
}

base_status op_replay(ledger_op *op, uint64_t sequence)
{
    journal_row row;
    base_status status =
        store_query(op->store, op->reterr, SQL_JOURNAL_GET, "seq:i", (int64_t)sequence);
    const bool there = store_next(op->store, SQL_JOURNAL_GET, &status, op->reterr);
    if (status != BASE_OK) {
        return status;
    }
    const bool good = there && journal_read(op->store, SQL_JOURNAL_GET, &row) &&
                      journal_answer_read(&row, op->answer);
    store_done(op->store, SQL_JOURNAL_GET);
    if (!good) {
        return base_fail(op->reterr, BASE_ERR_STATE,
                         "row %llu is missing or malformed; run budget-service audit",
                         (unsigned long long)sequence);
    }
    op->answer->replayed = true;
    op->replayed = true;
    return BASE_OK;
}

static base_status find_request(ledger_op *op)
{
    uint8_t body[BUDGET_DIGEST_BYTES];
    const budget_caller *caller = op->caller;
    if (!budget_name_ok(caller->request_id, BUDGET_REQUEST_ID_BYTES, false)) {
        return base_fail(op->reterr, BASE_ERR_INVALID,
                         "a request id has 1 to %d letters, digits and . _ - + @ :",
                         BUDGET_REQUEST_ID_BYTES - 1);
    }
    base_status status = store_query(op->store, op->reterr, SQL_REQUEST_GET, "client:i id:t",
                                     caller->client, caller->request_id);
    if (!store_next(op->store, SQL_REQUEST_GET, &status, op->reterr)) {
        return status;
    }
    store_copy_blob(op->store, SQL_REQUEST_GET, 0, body, sizeof body);
    const uint64_t sequence = (uint64_t)store_int(op->store, SQL_REQUEST_GET, 1);
    store_done(op->store, SQL_REQUEST_GET);
    if (BUDGET_MUTANT(RETRY_FORGOTTEN)) {
        return BASE_OK;
    }
    if (memcmp(body, caller->body_blake2b256, sizeof body) == 0) {
        return op_replay(op, sequence);
    }
    op->replayed = true;
    op->answer->reason = BUDGET_REASON_REQUEST_REUSED;
    (void)snprintf(op->answer->message, sizeof op->answer->message,
                   "the request id %s was used before, for another request", caller->request_id);
    return BASE_OK;
}

void op_about(ledger_op *op, int64_t reservation, int64_t account, const char *label)
{
    (void)snprintf(op->label, sizeof op->label, "%s", label);
    op->row.reservation = reservation;
    op->row.account = account;
    op->row.label = op->label;
}

bool op_begin(ledger_op *op, budget_ledger *ledger, const budget_caller *caller,
              budget_answer *answer, base_error *reterr, base_status *status)
{
    memset(op, 0, sizeof *op);
    memset(answer, 0, sizeof *answer);
    op->ledger = ledger;
    op->store = &ledger->store;
    op->caller = caller;
    op->answer = answer;
    op->reterr = reterr;
    if (*status == BASE_OK && (!ledger->in_batch || ledger->lost || ledger->store.broken)) {
        *status = base_fail(reterr, BASE_ERR_STATE,
                            ledger->in_batch ? "an earlier operation of this batch failed"
                                             : "no batch is open");
    }
    if (*status == BASE_OK && caller != NULL && caller->request_id != NULL) {
        *status = find_request(op);
    }
    return *status == BASE_OK && !op->replayed;
}

/* A mutant that forgets its requests overwrites nothing: it leaves the first answer in place. */
static base_status remember(ledger_op *op)
{
    if (op->row.request == NULL || BUDGET_MUTANT(RETRY_FORGOTTEN)) {
        return BASE_OK;
    }
    return store_run(op->store, op->reterr, SQL_REQUEST_INSERT, "client:i id:t body:b seq:i",
                     op->row.client, op->row.request, op->row.body, (size_t)BUDGET_DIGEST_BYTES,
                     (int64_t)op->row.sequence);
}

/* In an audit's scratch the row that was made must be the one that is replayed. */
static base_status insert(ledger_op *op)
{
    budget_ledger *ledger = op->ledger;
    if (ledger->again == NULL) {
        return journal_insert(op->store, &op->row, op->reterr);
    }
    ledger->made_again = op->row.sequence == ledger->again->sequence &&
                         memcmp(op->row.hash, ledger->again->hash, sizeof op->row.hash) == 0;
    return BASE_OK;
}

base_status op_grant(ledger_op *op)
{
    uint8_t answer[JOURNAL_ANSWER_BYTES_MAX];
    budget_ledger *ledger = op->ledger;
    journal_row *row = &op->row;
    row->sequence = ledger->batch_sequence + 1;
    row->at_ms = ledger->now.ledger_ms;
    row->offset_ms = ledger->anchor.offset_ms;
    row->client = op->caller != NULL ? op->caller->client : 0;
    row->request = op->caller != NULL ? op->caller->request_id : NULL;
    row->body = row->request != NULL ? op->caller->body_blake2b256 : NULL;
    row->reason = op->answer->reason;
    row->answer_bytes = journal_answer_write(op->answer, answer);
    row->answer = answer;
    if (ledger->again != NULL) {
        /* The answer stays as it was given, with its message, and with balances that were wrong. */
        row->answer_bytes = ledger->again->answer_bytes;
        row->answer = ledger->again->answer;
    }
    BUDGET_FAILPOINT("before-update");
    base_status status = journal_hash(row, ledger->batch_head, row->hash, op->reterr);
    status = status == BASE_OK ? insert(op) : status;
    status = status == BASE_OK ? remember(op) : status;
    if (status != BASE_OK) {
        return status == BASE_ERR_INVALID ? BASE_ERR_STATE : status;
    }
    BUDGET_FAILPOINT("after-update");
    ledger->batch_sequence = row->sequence;
    memcpy(ledger->batch_head, row->hash, sizeof row->hash);
    op->answer->sequence = row->sequence;
    op->answer->at_ms = row->at_ms + row->offset_ms;
    memcpy(op->answer->head, row->hash, sizeof row->hash);
    return BASE_OK;
}

base_status op_refuse(ledger_op *op, budget_reason reason, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(op->answer->message, sizeof op->answer->message, format, args);
    va_end(args);
    op->answer->reason = reason;
    if (op->caller == NULL || op->caller->request_id == NULL) {
        return BASE_OK;
    }
    op->row.kind = BUDGET_KIND_REFUSE;
    op->row.reserved_delta = 0;
    op->row.posted_delta = 0;
    op->row.state = 0;
    op->row.data = NULL;
    op->row.data_bytes = 0;
    return op_grant(op);
}

bool op_load(ledger_op *op, const char *label, budget_reservation *found, base_status *status)
{
    *status = reservation_load(op->ledger, SQL_RESERVATION_BY_LABEL, label, found, op->reterr);
    if (*status == BASE_ERR_NOTFOUND) {
        *status = op_refuse(op, BUDGET_REASON_LABEL_UNKNOWN,
                            "there is no label %s: budget-service list has them", label);
        return false;
    }
    if (*status == BASE_OK) {
        op_about(op, found->id, found->account_id, found->entry.label);
    }
    return *status == BASE_OK;
}

base_status op_refuse_overflow(ledger_op *op)
{
    return op_refuse(op, BUDGET_REASON_OVERFLOW, "the sum would leave what money may be");
}

void op_say_refuted(ledger_op *op)
{
    (void)snprintf(
        op->answer->message, sizeof op->answer->message,
        "what proved its end was about another instance, and counts no more: end this one "
        "at the vendor, then budget-service terminated with new evidence");
}

base_status op_refuse_owned(ledger_op *op, const budget_reservation *found, int64_t owner,
                            const char *instance_id)
{
    budget_reservation other;
    const base_status status = reservation_load_id(op->ledger, owner, &other, op->reterr);
    return status == BASE_OK
               ? op_refuse(op, BUDGET_REASON_INSTANCE_USED,
                           "the instance %.80s of %.40s belongs to another label, %.80s; an admin "
                           "sets an id that was mistyped there right with --replaces",
                           instance_id, found->entry.vendor, other.entry.label)
               : status;
}

base_status op_keep_evidence(ledger_op *op, const void *bytes, size_t size_bytes,
                             uint8_t digest[BUDGET_DIGEST_BYTES])
{
    (void)crypto_generichash(digest, BUDGET_DIGEST_BYTES, bytes, size_bytes, NULL, 0);
    return store_run(op->store, op->reterr, SQL_EVIDENCE_INSERT, "digest:b bytes:b", digest,
                     (size_t)BUDGET_DIGEST_BYTES, bytes, size_bytes);
}

base_status evidence_size_check(const void *evidence, size_t size_bytes, base_error *reterr)
{
    if (evidence != NULL && (size_bytes == 0 || size_bytes > BUDGET_EVIDENCE_BYTES_MAX)) {
        return base_fail(reterr, BASE_ERR_INVALID, "evidence has 1 to %d bytes",
                         BUDGET_EVIDENCE_BYTES_MAX);
    }
    return BASE_OK;
}

base_status op_end(ledger_op *op, base_status status)
{
    if (status != BASE_OK && status != BASE_ERR_INVALID && op->ledger->in_batch) {
        op->ledger->lost = true;
    }
    return status;
}
