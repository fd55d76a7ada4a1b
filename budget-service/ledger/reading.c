/* Queries without effects: reservations by label or instance, overdue ones, journal rows. Called by
 * server/ and by reconcile.c. */

#include "ledger_core.h"
#include "rules/mutation.h"

base_status budget_ledger_find(budget_ledger *ledger, const char *label, budget_reservation *found,
                               base_error *reterr)
{
    const base_status status =
        reservation_load(ledger, SQL_RESERVATION_BY_LABEL, label, found, reterr);
    return status == BASE_OK ? reservation_describe(ledger, found, reterr) : status;
}

/* The reservation that has the instance; 0: none. */
static base_status owner_at(budget_ledger *ledger, const char *vendor, const char *instance,
                            int64_t *id, base_error *reterr)
{
    return store_number(&ledger->store, reterr, SQL_INSTANCE_GET, id, "id:t vendor:t", instance,
                        vendor);
}

base_status budget_ledger_find_instance(budget_ledger *ledger, const char *vendor,
                                        const char *instance, budget_reservation *found,
                                        base_error *reterr)
{
    int64_t id = 0;
    int64_t other = 0; /* a run of another vendor */
    bool certain = vendor != NULL;
    base_status status = BASE_OK;
    if (vendor == NULL || BUDGET_MUTANT(VENDOR_IGNORED)) {
        status = store_number(&ledger->store, reterr, SQL_INSTANCE_ANY, &id, "id:t", instance);
    } else {
        status = owner_at(ledger, vendor, instance, &id, reterr);
    }
    if (status == BASE_OK && id == 0 && vendor != NULL) {
        certain = false;
        status = owner_at(ledger, BUDGET_VENDOR_ANY, instance, &id, reterr);
    }
    if (status == BASE_OK && id == 0) {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "no label has the instance %.128s", instance);
    }
    status = status == BASE_OK ? reservation_load_id(ledger, id, found, reterr) : status;
    if (status == BASE_OK && !certain) {
        status = store_number(&ledger->store, reterr, SQL_VENDOR_OTHER, &other, "vendor:t",
                              found->entry.vendor);
    }
    if (status == BASE_OK && other != 0 && !BUDGET_MUTANT(VENDOR_GUESSED)) {
        return base_fail(reterr, BASE_ERR_MISMATCH,
                         "the instance %.128s may be another vendor's than %s", instance,
                         found->entry.vendor);
    }
    return status == BASE_OK ? reservation_describe(ledger, found, reterr) : status;
}

/* What a bound statement selects, up to max. */
static base_status gather(budget_ledger *ledger, store_sql sql, base_status status, size_t max,
                          budget_reservation *found, size_t *count, base_error *reterr)
{
    *count = 0;
    while (*count < max && store_next(&ledger->store, sql, &status, reterr)) {
        reservation_read(&ledger->store, sql, &found[*count]);
        status = reservation_describe(ledger, &found[*count], reterr);
        *count += status == BASE_OK;
    }
    store_done(&ledger->store, sql);
    return status;
}

base_status budget_ledger_list(budget_ledger *ledger, int64_t after_id, size_t max,
                               budget_reservation *found, size_t *count, base_error *reterr)
{
    const base_status status = store_query(&ledger->store, reterr, SQL_RESERVATION_WALK,
                                           "after:i max:i", after_id, (int64_t)max);
    return gather(ledger, SQL_RESERVATION_WALK, status, max, found, count, reterr);
}

base_status budget_ledger_running(budget_ledger *ledger, int64_t after_id, size_t max,
                                  budget_reservation *found, size_t *count, base_error *reterr)
{
    const base_status status = store_query(&ledger->store, reterr, SQL_RESERVATION_RUNNING,
                                           "after:i max:i", after_id, (int64_t)max);
    return gather(ledger, SQL_RESERVATION_RUNNING, status, max, found, count, reterr);
}

base_status budget_ledger_overdue(budget_ledger *ledger, budget_ledger_moment *after, size_t max,
                                  budget_reservation *found, size_t *count, base_error *reterr)
{
    base_status status = store_query(&ledger->store, reterr, SQL_RESERVATION_OVERDUE,
                                     "after_ms:i after:i now:i max:i", after->ms, after->id,
                                     ledger->now.ledger_ms, (int64_t)max);
    status = gather(ledger, SQL_RESERVATION_OVERDUE, status, max, found, count, reterr);
    if (status == BASE_OK && *count > 0) {
        const budget_reservation *last = &found[*count - 1];
        *after = (budget_ledger_moment){.ms = last->rule.deadline_ms, .id = last->id};
    }
    return status;
}

base_status budget_ledger_ending(budget_ledger *ledger, int64_t lead_ms,
                                 budget_ledger_moment *after, size_t max, budget_reservation *found,
                                 size_t *count, base_error *reterr)
{
    base_status status = store_query(
        &ledger->store, reterr, SQL_RESERVATION_ENDING, "now:i lead_ms:i after_ms:i after:i max:i",
        ledger->now.ledger_ms, lead_ms, after->ms, after->id, (int64_t)max);
    status = gather(ledger, SQL_RESERVATION_ENDING, status, max, found, count, reterr);
    if (status == BASE_OK && *count > 0) {
        const budget_reservation *last = &found[*count - 1];
        const int64_t tenth_ms = last->rule.max_seconds * 100;
        *after = (budget_ledger_moment){.ms = last->rule.deadline_ms -
                                              (lead_ms < tenth_ms ? lead_ms : tenth_ms),
                                        .id = last->id};
    }
    return status;
}

base_status budget_ledger_instances(budget_ledger *ledger, int64_t reservation,
                                    char ids[BUDGET_INSTANCES_MAX][BUDGET_INSTANCE_BYTES],
                                    size_t *count, base_error *reterr)
{
    store_db *store = &ledger->store;
    base_status status =
        store_query(store, reterr, SQL_INSTANCE_OF_RUN, "reservation:i", reservation);
    *count = 0;
    while (*count < BUDGET_INSTANCES_MAX &&
           store_next(store, SQL_INSTANCE_OF_RUN, &status, reterr)) {
        store_copy_text(store, SQL_INSTANCE_OF_RUN, 0, ids[*count], BUDGET_INSTANCE_BYTES);
        *count += 1;
    }
    store_done(store, SQL_INSTANCE_OF_RUN);
    return status;
}

base_status budget_ledger_attention(budget_ledger *ledger, int64_t *overdue_count,
                                    int64_t *frozen_count, base_error *reterr)
{
    store_db *store = &ledger->store;
    const base_status status = store_number(store, reterr, SQL_RESERVATION_OVERDUE_COUNT,
                                            overdue_count, "now:i", ledger->now.ledger_ms);
    return status == BASE_OK
               ? store_number(store, reterr, SQL_ACCOUNT_FROZEN_COUNT, frozen_count, "")
               : status;
}

static const uint8_t *evidence_of(const journal_row *row)
{
    if (row->kind == BUDGET_KIND_TERMINATED && row->data_bytes == 1 + BUDGET_DIGEST_BYTES) {
        return (const uint8_t *)row->data + 1;
    }
    journal_actual actual;
    return row->kind == BUDGET_KIND_ACTUAL && journal_actual_read(row, &actual) ? actual.evidence
                                                                                : NULL;
}

static base_status visit_row(budget_ledger *ledger, const journal_row *row,
                             bool (*visit)(void *context, const budget_row *row), void *context,
                             bool *more, base_error *reterr)
{
    ledger_chain chain;
    budget_row found = {
        .sequence = row->sequence,
        .at_ms = row->at_ms + row->offset_ms,
        .kind = row->kind,
        .label = row->label,
        .text = row->text,
        .usd_micro = row->amount,
        .reserved_delta = row->reserved_delta,
        .posted_delta = row->posted_delta,
        .state = (budget_state)row->state,
        .evidence_blake2b256 = evidence_of(row),
        .attested = row->kind == BUDGET_KIND_TERMINATED && row->data_bytes > 0 &&
                    *(const uint8_t *)row->data == JOURNAL_END_ATTESTED,
    };
    if (row->account != 0) {
        const base_status status = chain_load(ledger, NULL, row->account, &chain, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "row %lld", (long long)row->sequence);
        }
        found.account = chain.names[0];
    }
    *more = visit(context, &found);
    return BASE_OK;
}

base_status budget_ledger_rows(budget_ledger *ledger, uint64_t after_sequence, size_t max,
                               bool (*visit)(void *context, const budget_row *row), void *context,
                               base_error *reterr)
{
    store_db *store = &ledger->store;
    bool more = true;
    base_status status = store_query(store, reterr, SQL_JOURNAL_WALK, "after:i max:i",
                                     (int64_t)after_sequence, (int64_t)max);
    while (more && store_next(store, SQL_JOURNAL_WALK, &status, reterr)) {
        journal_row row;
        if (!journal_read(store, SQL_JOURNAL_WALK, &row)) {
            status =
                base_fail(reterr, BASE_ERR_STATE, "row %lld is malformed", (long long)row.sequence);
            break;
        }
        status = visit_row(ledger, &row, visit, context, &more, reterr);
        if (status != BASE_OK) {
            break;
        }
    }
    store_done(store, SQL_JOURNAL_WALK);
    return status;
}
