/* budget/audit.h: an untouched ledger is good, and each edit of its file is found at its row. */
#include "budget/audit.h"

#include <stdio.h>
#include <string.h>

#include "audited_ledger.h"

static void a_good_ledger_is_found_good(void **state)
{
    ledger_fixture *fixture = *state;
    for (int64_t rows = 1; rows < 100; rows = rows * 3 + 1) {
        const budget_audit_report report = audited(fixture, rows);
        if (!report.good) {
            fail_msg("%s", report.findings[0]);
        }
        uint64_t sequence = 0;
        uint8_t head[BUDGET_DIGEST_BYTES];
        budget_ledger_head(fixture->ledger, &sequence, head);
        assert_int_equal(report.rows, sequence);
    }
}

static void rows_may_come_meanwhile(void **state)
{
    ledger_fixture *fixture = *state;
    budget_audit *made = NULL;
    bool done = false;
    assert_ok(budget_audit_begin(fixture->ledger, &made, &fixture->error), &fixture->error);
    for (int step = 0; !done && step < 1000; step++) {
        char label[32];
        (void)snprintf(label, sizeof label, "meanwhile-%d", step);
        if (step < 40) {
            assert_granted(fixture_authorize(fixture, "phase", label, 10));
            assert_granted(fixture_redeem(fixture, label, 0, 1, 1));
        }
        assert_ok(budget_audit_step(made, 5, &done, &fixture->error), &fixture->error);
    }
    assert_true(done);
    if (!budget_audit_get(made)->good) {
        fail_msg("%s", budget_audit_get(made)->findings[0]);
    }
    budget_audit_end(made);
}

static const struct {
    const char *sql;
    uint64_t row;
} edits[] = {
    {"UPDATE journal SET amount = 1 WHERE seq = 4", 4},
    {"UPDATE journal SET label = 'x' WHERE seq = 5", 5},
    {"UPDATE journal SET at_ms = at_ms - 1 WHERE seq = 6", 6},
    {"UPDATE journal SET offset_ms = 1 WHERE seq = 6", 6},
    {"UPDATE journal SET client = 3 WHERE seq = 6", 6},
    {"UPDATE journal SET reserved_delta = 0 WHERE seq = 4", 4},
    {"UPDATE journal SET data = zeroblob(length(data)) WHERE seq = 10", 10},
    {"UPDATE journal SET answer = zeroblob(length(answer)) WHERE seq = 10", 10},
    {"UPDATE journal SET hash = zeroblob(32) WHERE seq = 7", 7},
    {"UPDATE journal SET hash = zeroblob(31) WHERE seq = 7", 7},
    {"UPDATE journal SET kind = 99 WHERE seq = 7", 7},
    {"UPDATE journal SET request = NULL, body = NULL WHERE request IS NOT NULL", 15},
    {"DELETE FROM journal WHERE seq = 8", 8},
    {"DELETE FROM journal WHERE seq = 2", 2},
    {"UPDATE journal SET seq = 100 WHERE seq = 8; UPDATE journal SET seq = 8 WHERE seq = 9;"
     " UPDATE journal SET seq = 9 WHERE seq = 100",
     8},
    {"INSERT INTO journal SELECT seq + 1, at_ms, offset_ms, kind, reason, client, request, "
     "body,"
     " reservation, account, label, text, amount, reserved_delta, posted_delta, state, answer,"
     " data, hash FROM journal ORDER BY seq DESC LIMIT 1",
     20},
    {"INSERT INTO journal SELECT -1, at_ms, offset_ms, kind, reason, client, request, body,"
     " reservation, account, label, text, amount, reserved_delta, posted_delta, state, answer,"
     " data, hash FROM journal WHERE seq = 1",
     1},
    {"UPDATE account SET posted = 0 WHERE name = 'phase'", 0},
    {"UPDATE account SET cap = 1000000000 WHERE name = 'phase/lab'", 0},
    {"UPDATE account SET frozen = 0", 0},
    {"UPDATE account SET reserved = 0", 0},
    {"INSERT INTO account(id, name, parent, cap, posted, reserved, frozen)"
     " VALUES(3, 'mine', 0, 1, 0, 0, 0)",
     0},
    {"DELETE FROM account WHERE name = 'phase/lab'", 0},
    {"UPDATE reservation SET held = 0 WHERE label = 'late'", 6},
    {"UPDATE reservation SET state = 1 WHERE label = 'late'", 6},
    {"UPDATE reservation SET deadline_ms = deadline_ms + 1 WHERE label = 'late'", 6},
    {"UPDATE reservation SET flags = 0 WHERE label = 'run'", 4},
    {"UPDATE reservation SET flags = flags | 64 WHERE label = 'run'", 4},
    {"UPDATE reservation SET total = 0 WHERE label = 'run'", 4},
    {"UPDATE reservation SET ended_ms = ended_ms + 1 WHERE label = 'run'", 4},
    {"UPDATE reservation SET job_key = zeroblob(32) WHERE label = 'run'", 4},
    {"UPDATE reservation SET label = 'mine' WHERE label = 'late'", 6},
    {"UPDATE reservation SET jti = '00000000000000000000000000000009' WHERE label = 'late'", 6},
    {"UPDATE reservation SET vendor = 'local' WHERE label = 'late'", 6},
    {"UPDATE reservation SET mode = 'x' WHERE label = 'late'", 6},
    {"UPDATE reservation SET subject = 'x' WHERE label = 'late'", 6},
    {"UPDATE reservation SET instance_type = 'x' WHERE label = 'late'", 6},
    {"UPDATE reservation SET max_seconds = 36000 WHERE label = 'late'", 6},
    {"UPDATE reservation SET expires_at_s = expires_at_s + 1 WHERE label = 'late'", 6},
    {"UPDATE reservation SET world_size = 20 WHERE label = 'late'", 6},
    {"UPDATE reservation SET max_attempts = 30 WHERE label = 'late'", 6},
    {"UPDATE reservation SET instances = 10 WHERE label = 'late'", 6},
    {"UPDATE reservation SET seq = 4 WHERE label = 'late'", 6},
    {"UPDATE reservation SET authorized_ms = 0 WHERE label = 'late'", 6},
    {"UPDATE reservation SET started_ms = 0 WHERE label = 'late'", 6},
    {"UPDATE reservation SET ended_ms = 1000 WHERE label = 'late'", 6},
    {"UPDATE reservation SET evidence = zeroblob(32) WHERE label = 'run'", 4},
    {"UPDATE reservation SET flags = flags | 32 WHERE label = 'run'", 4},
    {"UPDATE account SET parent = 0 WHERE name = 'phase/lab'", 0},
    {"UPDATE reservation SET job_key = "
     "x'0101010101010101000000000000000000000000000000000000000000000000' WHERE label = 'run'",
     4},
    {"UPDATE reservation SET evidence = CAST(substr(evidence, 1, 31) || x'00' AS BLOB)"
     " WHERE label = 'run'",
     4},
    {"UPDATE reservation SET actual_ms = actual_ms + 1 WHERE label = 'run'", 4},
    {"CREATE TRIGGER t AFTER INSERT ON reservation BEGIN UPDATE account SET cap = cap + 1; END;"
     " UPDATE account SET cap = cap",
     0},
    {"CREATE VIEW v AS SELECT 1; UPDATE account SET cap = cap", 0},
    {"CREATE INDEX i ON account(cap); UPDATE account SET cap = cap", 0},
    {"DROP INDEX reservation_due; UPDATE account SET cap = cap", 0},
    {"CREATE TABLE t(x); UPDATE account SET cap = cap", 0},
    {"ALTER TABLE account ADD COLUMN x INTEGER; UPDATE account SET cap = cap", 0},
    {"UPDATE journal SET data = zeroblob(length(data)) WHERE seq = 1", 1}, /* where time began */
    {"UPDATE request SET body = randomblob(32)", 15},
    {"UPDATE line SET amount = 1 WHERE id = 'line-1'", 16},
    {"UPDATE instance SET reservation = 2", 9},
    {"DELETE FROM reservation WHERE label = 'late'", 6},
    {"DELETE FROM reservation WHERE label = 'run'", 4},
    {"DELETE FROM redemption WHERE rank = 1", 11},
    {"INSERT INTO redemption(reservation, attempt, rank, seq) VALUES(1, 3, 0, 10)", 10},
    {"DELETE FROM request", 15},
    {"UPDATE request SET id = 'other'", 15},
    {"INSERT INTO request(client, id, body, seq) VALUES(1, 'mine', zeroblob(32), 4)", 4},
    {"UPDATE line SET instance = 'pod-2' WHERE id = 'line-1'", 16},
    {"UPDATE line SET vendor = 'vast' WHERE id = 'line-1'", 16},
    {"DELETE FROM line WHERE id = 'line-1'", 16},
    {"INSERT INTO line(vendor, instance, id, reservation, amount, seq) VALUES('runpod', '', "
     "'line-9', 1, 1, 16)",
     16},
    {"DELETE FROM instance", 9},
    {"UPDATE instance SET vendor = 'vast'", 9},
    {"UPDATE evidence SET bytes = x'00'", 17},
    {"DELETE FROM evidence", 17},
    {"UPDATE client SET revoked = 1", 0},
    {"UPDATE client SET role = 3", 0},
    {"INSERT INTO client(id, name, key, role, revoked) VALUES(2, 'me', zeroblob(32), 3, 0)", 0},
};

/* Each edit of the file is found, and the row it was done to is named (0: it is a table's). */
static void every_edit_is_found(void **state)
{
    ledger_fixture *fixture = *state;
    audited_close(fixture);
    audited_copy(fixture, "ledger.db", "good.db");
    audited_copy(fixture, "checkpoints", "good.checkpoints");
    fixture->options.any_checkpoint = true;
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        audited_copy(fixture, "good.db", "ledger.db");
        audited_copy(fixture, "good.checkpoints", "checkpoints");
        audited_edit(fixture, edits[i].sql);
        fixture_reopen(fixture);
        const budget_audit_report report = audited(fixture, 7);
        if (report.good || report.bad_sequence != edits[i].row || report.findings[0][0] == '\0') {
            fail_msg("%s: %s, row %d (%s), expected row %d", edits[i].sql,
                     report.good ? "found good" : "found", (int)report.bad_sequence,
                     report.findings[0], (int)edits[i].row);
        }
        audited_close(fixture);
    }
}

/* The ledger as `make` left it, with one more edit or two; what the audit says. */
static budget_audit_report edited(ledger_fixture *fixture, const char *sql, const char *more)
{
    audited_copy(fixture, "good.db", "ledger.db");
    audited_copy(fixture, "good.checkpoints", "checkpoints");
    audited_edit(fixture, sql);
    if (more != NULL) {
        audited_edit(fixture, more);
    }
    fixture_reopen(fixture);
    const budget_audit_report report = audited(fixture, 7);
    audited_close(fixture);
    return report;
}

/* What an admin accepts is the digest. Whatever is edited besides must change it. */
static void an_edit_beside_another_changes_the_digest(void **state)
{
    static const char first[] = "UPDATE account SET cap = cap + 1000000 WHERE name = 'phase'";
    ledger_fixture *fixture = *state;
    audited_close(fixture);
    audited_copy(fixture, "ledger.db", "good.db");
    audited_copy(fixture, "checkpoints", "good.checkpoints");
    fixture->options.any_checkpoint = true;
    const budget_audit_report alone = edited(fixture, first, NULL);
    assert_int_equal(alone.finding_count, 1);
    assert_int_equal(strlen(alone.digest), BUDGET_AUDIT_DIGEST_BYTES - 1);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        const budget_audit_report both = edited(fixture, first, edits[i].sql);
        if (both.finding_count < 2 || strcmp(both.digest, alone.digest) == 0) {
            fail_msg("%s: %d findings, digest %s", edits[i].sql, (int)both.finding_count,
                     both.digest);
        }
    }
    const budget_audit_report again =
        edited(fixture, "UPDATE account SET cap = cap + 2000000 WHERE name = 'phase'", NULL);
    assert_int_equal(again.finding_count, 1);
    assert_string_not_equal(again.digest, alone.digest);
}

static bool count_row(void *context, const budget_row *row)
{
    *(int *)context += row->sequence > 0;
    return true;
}

/* Rows are not shown without their account. */
static void a_row_of_no_account_is_an_error(void **state)
{
    ledger_fixture *fixture = *state;
    int count = 0;
    audited_edit(fixture, "UPDATE account SET id = 99 WHERE name = 'phase'");
    fixture_reopen(fixture);
    assert_status(budget_ledger_rows(fixture->ledger, 0, 1000, count_row, &count, &fixture->error),
                  BASE_ERR_NOTFOUND);
    assert_non_null(strstr(fixture->error.message, "row "));
}

/* Honest operations, and the size of the slices, leave the digest as it is. */
static void honest_operations_keep_the_digest(void **state)
{
    ledger_fixture *fixture = *state;
    audited_edit(fixture, "UPDATE account SET posted = posted - 1000000 WHERE name = 'phase';"
                          "UPDATE reservation SET held = held + 5 WHERE label = 'late';"
                          "INSERT INTO account(id, name, parent, cap, posted, reserved, frozen)"
                          " VALUES(3, 'mine', 0, 1, 0, 0, 0)");
    fixture_reopen(fixture);
    const budget_audit_report before = audited(fixture, 100);
    assert_int_equal(before.finding_count, 3);
    for (int64_t rows = 1; rows < 30; rows = rows * 3 + 1) {
        assert_string_equal(audited(fixture, rows).digest, before.digest);
    }
    assert_granted(fixture_authorize(fixture, "phase", "newer", 10));
    assert_granted(fixture_redeem(fixture, "newer", 0, 1, 1));
    assert_granted(fixture_line(fixture, "newer", 4, "line-7"));
    const budget_audit_report after = audited(fixture, 3);
    assert_int_equal(after.finding_count, 3);
    assert_string_equal(after.digest, before.digest);
    assert_string_not_equal(after.findings[0], before.findings[0]); /* posted, as it is now */
}

static void all_findings_are_counted_and_some_kept(void **state)
{
    ledger_fixture *fixture = *state;
    for (int i = 0; i < BUDGET_AUDIT_FINDINGS_KEPT + 5; i++) {
        char label[32];
        (void)snprintf(label, sizeof label, "many-%d", i);
        assert_granted(fixture_authorize(fixture, "phase", label, 10));
    }
    audited_edit(fixture, "UPDATE reservation SET world_size = 1000 WHERE label LIKE 'many-%'");
    fixture_reopen(fixture);
    const budget_audit_report report = audited(fixture, 3);
    assert_int_equal(report.finding_count, BUDGET_AUDIT_FINDINGS_KEPT + 5);
    for (int i = 0; i < BUDGET_AUDIT_FINDINGS_KEPT; i++) {
        assert_non_null(strstr(report.findings[i], "world_size is 1000, and the journal makes it"));
    }
    audited_edit(fixture, "UPDATE reservation SET world_size = 1001 WHERE label = 'many-20'");
    fixture_reopen(fixture);
    const budget_audit_report other = audited(fixture, 3);
    assert_int_equal(other.finding_count, report.finding_count);
    assert_memory_equal(other.findings, report.findings, sizeof report.findings);
    assert_string_not_equal(other.digest, report.digest);
}

static void a_cut_journal_is_refused_and_named(void **state)
{
    ledger_fixture *fixture = *state;
    audited_edit(fixture, "DELETE FROM journal WHERE seq > 17");
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_MISMATCH);
    assert_non_null(strstr(fixture->error.message, "is at row 17, and row 19 was seen"));
    fixture->options.any_checkpoint = true;
    fixture_reopen(fixture);
    const budget_audit_report report = audited(fixture, 100);
    assert_false(report.good);
    assert_string_equal(report.findings[0],
                        "account, id 1: posted is 1250000, and the journal makes "
                        "it 250000");
}

/* One that somebody puts into the file never runs, even where its finding was accepted. */
static void a_foreign_trigger_does_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    audited_edit(fixture, "CREATE TRIGGER t AFTER UPDATE OF reserved ON account BEGIN"
                          " UPDATE account SET cap = 999000000 WHERE id = new.id; END;"
                          "UPDATE account SET cap = cap");
    fixture_reopen(fixture);
    assert_granted(fixture_authorize(fixture, "phase", "newer", 10));
    assert_int_equal(fixture_balance(fixture, "phase").cap_usd_micro, 5 * USD);
}

static void a_ledger_without_its_beginning_is_refused(void **state)
{
    ledger_fixture *fixture = *state;
    audited_edit(fixture, "DELETE FROM journal WHERE seq = 1");
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_INVALID);
    assert_non_null(strstr(fixture->error.message, "does not say when it was begun"));
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, audited_make, audited_remove)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(a_good_ledger_is_found_good),
        LEDGER_TEST(rows_may_come_meanwhile),
        LEDGER_TEST(every_edit_is_found),
        LEDGER_TEST(an_edit_beside_another_changes_the_digest),
        LEDGER_TEST(a_row_of_no_account_is_an_error),
        LEDGER_TEST(honest_operations_keep_the_digest),
        LEDGER_TEST(all_findings_are_counted_and_some_kept),
        LEDGER_TEST(a_cut_journal_is_refused_and_named),
        LEDGER_TEST(a_foreign_trigger_does_nothing),
        LEDGER_TEST(a_ledger_without_its_beginning_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
