/* Reads, writes and hashes rows of the journal. Called by operation.c for each change, and by
 * audit/ to check the chain. */
#include "journal.h"

#include <sodium.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { ABSENT = 0xffffffffu };

static void put_blob(base_writer *writer, const void *data, size_t size_bytes)
{
    if (data == NULL) {
        base_write_u32(writer, ABSENT);
        return;
    }
    base_write_u32(writer, (uint32_t)size_bytes);
    base_write_bytes(writer, data, size_bytes);
}

static void put_text(base_writer *writer, const char *text)
{
    put_blob(writer, text, text != NULL ? strlen(text) : 0);
}

base_status journal_hash(const journal_row *row, const uint8_t previous[BUDGET_DIGEST_BYTES],
                         uint8_t hash[BUDGET_DIGEST_BYTES], base_error *reterr)
{
    uint8_t bytes[JOURNAL_ROW_BYTES_MAX];
    base_writer writer = base_writer_make(bytes, sizeof bytes);
    base_write_bytes(&writer, previous, BUDGET_DIGEST_BYTES);
    base_write_u64(&writer, row->sequence);
    const int64_t numbers[] = {row->at_ms,          row->offset_ms,    row->kind,    row->reason,
                               row->client,         row->reservation,  row->account, row->amount,
                               row->reserved_delta, row->posted_delta, row->state};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        base_write_u64(&writer, (uint64_t)numbers[i]);
    }
    put_text(&writer, row->request);
    put_blob(&writer, row->body, BUDGET_DIGEST_BYTES);
    put_text(&writer, row->label);
    put_text(&writer, row->text);
    put_blob(&writer, row->answer, row->answer_bytes);
    put_blob(&writer, row->data, row->data_bytes);
    if (writer.failed) {
        return base_fail(reterr, BASE_ERR_LIMIT, "row %llu is longer than a row can be",
                         (unsigned long long)row->sequence);
    }
    (void)crypto_generichash(hash, BUDGET_DIGEST_BYTES, bytes, writer.offset_bytes, NULL, 0);
    return BASE_OK;
}

base_status journal_insert(store_db *store, const journal_row *row, base_error *reterr)
{
    return store_run(store, reterr, SQL_JOURNAL_INSERT,
                     "seq:i at_ms:i offset_ms:i kind:i reason:i client:i request:t body:b "
                     "reservation:i account:i label:t text:t amount:i reserved_delta:i "
                     "posted_delta:i state:i answer:b data:b hash:b",
                     (int64_t)row->sequence, row->at_ms, row->offset_ms, (int64_t)row->kind,
                     (int64_t)row->reason, row->client, row->request, row->body,
                     (size_t)BUDGET_DIGEST_BYTES, row->reservation, row->account, row->label,
                     row->text, row->amount, row->reserved_delta, row->posted_delta, row->state,
                     row->answer, row->answer_bytes, row->data, row->data_bytes, row->hash,
                     sizeof row->hash);
}

bool journal_read(const store_db *store, store_sql sql, journal_row *row)
{
    size_t body_bytes = 0;
    size_t hash_bytes = 0;
    memset(row, 0, sizeof *row);
    row->sequence = (uint64_t)store_int(store, sql, 0);
    row->at_ms = store_int(store, sql, 1);
    row->offset_ms = store_int(store, sql, 2);
    row->kind = (budget_kind)store_int(store, sql, 3);
    row->reason = (budget_reason)store_int(store, sql, 4);
    row->client = store_int(store, sql, 5);
    row->request = store_text(store, sql, 6);
    row->body = store_blob(store, sql, 7, &body_bytes);
    row->reservation = store_int(store, sql, 8);
    row->account = store_int(store, sql, 9);
    row->label = store_text(store, sql, 10);
    row->text = store_text(store, sql, 11);
    row->amount = store_int(store, sql, 12);
    row->reserved_delta = store_int(store, sql, 13);
    row->posted_delta = store_int(store, sql, 14);
    row->state = store_int(store, sql, 15);
    row->answer = store_blob(store, sql, 16, &row->answer_bytes);
    row->data = store_blob(store, sql, 17, &row->data_bytes);
    const void *hash = store_blob(store, sql, 18, &hash_bytes);
    const bool good = hash != NULL && hash_bytes == sizeof row->hash &&
                      (row->body == NULL || body_bytes == BUDGET_DIGEST_BYTES) &&
                      row->kind >= BUDGET_KIND_GENESIS && row->kind < BUDGET_KIND_COUNT_;
    if (good) {
        memcpy(row->hash, hash, hash_bytes);
    } else {
        row->body = NULL;
    }
    return good;
}

enum actual_flag {
    ACTUAL_FINAL = 1,
    ACTUAL_EVIDENCE = 2,
    ACTUAL_CORRECTS = 4,
    ACTUAL_PASSES_CAP = 8,
    ACTUAL_STARTS = 16,
    ACTUAL_FLAGS = 31, /* all of them */
};

size_t journal_actual_write(const journal_actual *actual, uint8_t data[JOURNAL_ACTUAL_BYTES_MAX])
{
    const uint8_t flags = (uint8_t)((actual->final ? ACTUAL_FINAL : 0) |
                                    (actual->evidence != NULL ? ACTUAL_EVIDENCE : 0) |
                                    (actual->corrects ? ACTUAL_CORRECTS : 0) |
                                    (actual->passes_cap ? ACTUAL_PASSES_CAP : 0) |
                                    (actual->starts ? ACTUAL_STARTS : 0));
    base_writer writer = base_writer_make(data, JOURNAL_ACTUAL_BYTES_MAX);
    base_write_u64(&writer, (uint64_t)actual->billed);
    base_write_bytes(&writer, &flags, 1);
    if (actual->evidence != NULL) {
        base_write_bytes(&writer, actual->evidence, BUDGET_DIGEST_BYTES);
    }
    base_write_bytes(&writer, actual->instance, actual->instance_bytes);
    BASE_ASSERT(!writer.failed);
    return writer.offset_bytes;
}

bool journal_actual_read(const journal_row *row, journal_actual *actual)
{
    base_reader reader = base_reader_make(row->data, row->data_bytes);
    memset(actual, 0, sizeof *actual);
    actual->billed = (int64_t)base_read_u64(&reader);
    const uint8_t *flags = base_read_bytes(&reader, 1);
    if (flags == NULL || (*flags & ~ACTUAL_FLAGS) != 0) {
        return false;
    }
    actual->final = (*flags & ACTUAL_FINAL) != 0;
    actual->corrects = (*flags & ACTUAL_CORRECTS) != 0;
    actual->passes_cap = (*flags & ACTUAL_PASSES_CAP) != 0;
    actual->starts = (*flags & ACTUAL_STARTS) != 0;
    if ((*flags & ACTUAL_EVIDENCE) != 0) {
        actual->evidence = base_read_bytes(&reader, BUDGET_DIGEST_BYTES);
    }
    const size_t used = 8 + 1 + (actual->evidence != NULL ? BUDGET_DIGEST_BYTES : 0);
    actual->instance = (const char *)row->data + used;
    actual->instance_bytes = row->data_bytes - used;
    return !reader.failed && actual->instance_bytes < BUDGET_INSTANCE_BYTES;
}

size_t journal_answer_write(const budget_answer *answer, uint8_t data[JOURNAL_ANSWER_BYTES_MAX])
{
    base_writer writer = base_writer_make(data, JOURNAL_ANSWER_BYTES_MAX);
    base_write_u64(&writer, (uint64_t)answer->asked_usd_micro);
    base_write_u64(&writer, (uint64_t)answer->cap_usd_micro);
    base_write_u64(&writer, (uint64_t)answer->remaining_before_usd_micro);
    base_write_u64(&writer, (uint64_t)answer->remaining_after_usd_micro);
    put_text(&writer, answer->account);
    put_text(&writer, answer->message);
    BASE_ASSERT(!writer.failed);
    return writer.offset_bytes;
}

static bool get_text(base_reader *reader, char *text, size_t text_bytes)
{
    const uint32_t length = base_read_u32(reader);
    if (length >= text_bytes) {
        return false;
    }
    const void *data = base_read_bytes(reader, length);
    if (data == NULL) {
        return length == 0 && !reader->failed;
    }
    memcpy(text, data, length);
    text[length] = '\0';
    return true;
}

bool journal_answer_read(const journal_row *row, budget_answer *answer)
{
    base_reader reader = base_reader_make(row->answer, row->answer_bytes);
    memset(answer, 0, sizeof *answer);
    answer->reason = row->reason;
    answer->sequence = row->sequence;
    answer->at_ms = row->at_ms + row->offset_ms;
    memcpy(answer->head, row->hash, sizeof answer->head);
    answer->asked_usd_micro = (int64_t)base_read_u64(&reader);
    answer->cap_usd_micro = (int64_t)base_read_u64(&reader);
    answer->remaining_before_usd_micro = (int64_t)base_read_u64(&reader);
    answer->remaining_after_usd_micro = (int64_t)base_read_u64(&reader);
    return get_text(&reader, answer->account, sizeof answer->account) &&
           get_text(&reader, answer->message, sizeof answer->message) && !reader.failed;
}
