/* The journal's hash: what it is over, by an answer that another implementation gave, and that
 * every field counts. tests/oracle has nothing of this: the answer is Python's hashlib.blake2b over
 * the fields as journal.h has them, little-endian, texts and blobs behind their 32-bit lengths. */
#include "journal.h"

#include <sodium.h>
#include <string.h>

#include "support.h"

static uint8_t previous[BUDGET_DIGEST_BYTES];
static uint8_t body[BUDGET_DIGEST_BYTES];

static journal_row sample(void)
{
    for (size_t i = 0; i < sizeof previous; i++) {
        previous[i] = (uint8_t)i;
    }
    memset(body, 0x42, sizeof body);
    return (journal_row){
        .sequence = 7,
        .at_ms = 1000,
        .offset_ms = -5,
        .kind = BUDGET_KIND_ACTUAL,
        .reason = BUDGET_REASON_NONE,
        .client = 3,
        .request = "request-1",
        .body = body,
        .reservation = 4,
        .account = 2,
        .label = "run",
        .text = "line-1",
        .amount = 250000,
        .reserved_delta = -250000,
        .posted_delta = 250000,
        .state = 5,
        .answer = "answer",
        .answer_bytes = 6,
        .data = "\x01\x02\x03",
        .data_bytes = 3,
    };
}

static void hash_of(const journal_row *row, uint8_t hash[BUDGET_DIGEST_BYTES])
{
    base_error error = {0};
    assert_ok(journal_hash(row, previous, hash, &error), &error);
}

static void the_hash_is_the_known_one(void **state)
{
    (void)state;
    static const char known[] = "c1226d815d93742cd4ace5b57fee98ac59c9f863f14492a27cf31fc74a30ebb4";
    char hex[2 * BUDGET_DIGEST_BYTES + 1];
    uint8_t hash[BUDGET_DIGEST_BYTES];
    const journal_row row = sample();
    hash_of(&row, hash);
    assert_string_equal(sodium_bin2hex(hex, sizeof hex, hash, sizeof hash), known);
}

/* Each of these differs from the sample in one thing; no two may have one hash. */
static size_t variants(journal_row rows[32])
{
    static uint8_t other_body[BUDGET_DIGEST_BYTES];
    size_t count = 0;
    for (size_t i = 0; i < 32; i++) {
        rows[i] = sample();
    }
    memset(other_body, 0x43, sizeof other_body);
    rows[count++].sequence ^= 1;
    rows[count++].at_ms ^= 1;
    rows[count++].offset_ms ^= 1;
    rows[count++].kind = BUDGET_KIND_VOID;
    rows[count++].reason = BUDGET_REASON_EXCEEDED;
    rows[count++].client ^= 1;
    rows[count++].request = "request-2";
    rows[count++].request = NULL;
    rows[count++].body = other_body;
    rows[count++].body = NULL;
    rows[count++].reservation ^= 1;
    rows[count++].account ^= 1;
    rows[count++].label = "ruN";
    rows[count++].label = NULL;
    rows[count++].label = "";
    rows[count++].text = "line-2";
    rows[count++].text = NULL;
    rows[count++].amount ^= 1;
    rows[count++].reserved_delta ^= 1;
    rows[count++].posted_delta ^= 1;
    rows[count++].state ^= 1;
    rows[count++].answer = "answeR";
    rows[count++].answer_bytes = 5;
    rows[count++].data = "\x01\x02\x07";
    rows[count++].data_bytes = 2;
    rows[count++].data = NULL;
    rows[count].label = "runline-1"; /* bytes move from one field to the next */
    rows[count++].text = "";
    return count;
}

static void every_field_counts(void **state)
{
    (void)state;
    journal_row rows[32];
    uint8_t hashes[33][BUDGET_DIGEST_BYTES];
    const journal_row row = sample();
    const size_t count = variants(rows);
    hash_of(&row, hashes[count]);
    for (size_t i = 0; i < count; i++) {
        hash_of(&rows[i], hashes[i]);
    }
    for (size_t i = 0; i <= count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (memcmp(hashes[i], hashes[j], sizeof hashes[i]) == 0) {
                fail_msg("variants %zu and %zu (%zu: the sample) have one hash", j, i, count);
            }
        }
    }
    previous[31] ^= 1;
    uint8_t hash[BUDGET_DIGEST_BYTES];
    base_error error = {0};
    assert_ok(journal_hash(&row, previous, hash, &error), &error);
    assert_memory_not_equal(hash, hashes[count], sizeof hash);
}

/* Texts and blobs of any length, to their last byte. */
static void every_byte_counts(void **state)
{
    (void)state;
    char bytes[200];
    uint8_t expected[BUDGET_DIGEST_BYTES];
    uint8_t hash[BUDGET_DIGEST_BYTES];
    memset(bytes, 'x', sizeof bytes - 1);
    bytes[sizeof bytes - 1] = '\0';
    for (int field = 0; field < 5; field++) {
        journal_row row = sample();
        const char **texts[] = {&row.request, &row.label, &row.text};
        if (field < 3) {
            *texts[field] = bytes;
        } else if (field == 3) {
            row.answer = bytes;
            row.answer_bytes = sizeof bytes - 1;
        } else {
            row.data = bytes;
            row.data_bytes = sizeof bytes - 1;
        }
        hash_of(&row, expected);
        for (size_t i = 0; i < sizeof bytes - 1; i++) {
            bytes[i] = 'y';
            hash_of(&row, hash);
            bytes[i] = 'x';
            if (memcmp(hash, expected, sizeof hash) == 0) {
                fail_msg("byte %zu of field %d does not count", i, field);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_the_known_one),
        cmocka_unit_test(every_field_counts),
        cmocka_unit_test(every_byte_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
