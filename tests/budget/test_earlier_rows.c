/* Rows keep their meaning: a ledger that an earlier service wrote audits, and goes on. */
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audited_ledger.h"
#include "base/file.h"
#include "reconcile_fixture.h"

enum { SQL_BYTES_MAX = 1 << 20 };

static char *read_sql(ledger_fixture *fixture)
{
    void *data = NULL;
    size_t size_bytes = 0;
    assert_ok(base_file_read(ORACLE_DIRECTORY "/ledger_4.sql", SQL_BYTES_MAX, &data, &size_bytes,
                             &fixture->error),
              &fixture->error);
    char *text = realloc(data, size_bytes + 1);
    assert_non_null(text);
    text[size_bytes] = '\0';
    return text;
}

static int make(void **state)
{
    static ledger_fixture fixture;
    sqlite3 *db = NULL;
    fixture_make(&fixture);
    audited_close(&fixture);
    char *sql = read_sql(&fixture);
    const char *path = test_directory_path(&fixture.directory, "ledger.db");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fail_msg("ledger_4.sql: %s", sqlite3_errmsg(db));
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    free(sql);
    fixture_pass(&fixture, 200000); /* after its last row */
    fixture.jti = 100;
    fixture_reopen(&fixture);
    *state = &fixture;
    return 0;
}

static int take_down(void **state)
{
    fixture_remove(*state);
    return 0;
}

static void check_audit(ledger_fixture *fixture)
{
    const budget_audit_report report = audited(fixture, 100);
    if (!report.good) {
        fail_msg("row %lld: %s", (long long)report.bad_sequence, report.findings[0]);
    }
}

static void they_audit(void **state)
{
    check_audit(*state);
}

/* Lines that a person set right stood by hand: the next bill records them. */
static void lines_set_right_by_hand_are_corrected(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    const char *bill = "label,usd,line_id\nchanged,0.70,12\nchanged,0.10,13\n";
    assert_int_equal(fixture_find(fixture, "changed").rule.total, 450000);
    assert_granted(
        fixture_actual(fixture, "changed", 350000)); /* what had been posted too little */
    (void)reconcile(fixture, bill, &found);
    const budget_reservation run = fixture_find(fixture, "changed");
    assert_int_equal(run.rule.total, 800000);
    assert_int_equal(run.billed_usd_micro, 800000);
    check_audit(fixture);
}

/* A late line froze nothing then; the next one does. */
static void an_account_above_its_cap_freezes_from_now_on(void **state)
{
    ledger_fixture *fixture = *state;
    assert_true(fixture_balance(fixture, "phase").remaining_usd_micro < 0);
    assert_false(fixture_balance(fixture, "phase").frozen);
    assert_granted(fixture_line(fixture, "two", 10000, "t3"));
    assert_true(fixture_balance(fixture, "phase").frozen);
    check_audit(fixture);
}

/* One of two instances was proven to be gone: a row that stays, and releases nothing more. */
static void a_proof_of_some_instances_settles_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    fixture_pass(fixture, 49 * 3600);
    (void)reconcile(fixture, "label,usd,line_id\npending,0.01,p1\n", &found);
    assert_int_equal(fixture_find(fixture, "pending").rule.state, BUDGET_STATE_TERMINATED_UNBILLED);
    assert_granted(fixture_actual(fixture, "pending", 0)); /* a person: that was all */
    assert_int_equal(fixture_find(fixture, "pending").rule.state, BUDGET_STATE_POSTED);
    check_audit(fixture);
}

/* A cost started no deadline then. The next one does. */
static void a_run_without_a_deadline_gets_one(void **state)
{
    ledger_fixture *fixture = *state;
    assert_int_equal(fixture_find(fixture, "forgotten").rule.state, BUDGET_STATE_CREATED);
    assert_int_equal(fixture_find(fixture, "forgotten").rule.deadline_ms, 0);
    assert_granted(fixture_line(fixture, "forgotten", 10000, "f2"));
    fixture_pass(fixture, 3600);
    assert_int_equal(fixture_expire(fixture), 1);
    assert_int_equal(fixture_find(fixture, "forgotten").rule.state,
                     BUDGET_STATE_EXPIRED_UNCONFIRMED);
    check_audit(fixture);
}

int main(void)
{
#define EARLIER_TEST(name) cmocka_unit_test_setup_teardown(name, make, take_down)
    const struct CMUnitTest tests[] = {
        EARLIER_TEST(they_audit),
        EARLIER_TEST(lines_set_right_by_hand_are_corrected),
        EARLIER_TEST(a_run_without_a_deadline_gets_one),
        EARLIER_TEST(a_proof_of_some_instances_settles_nothing),
        EARLIER_TEST(an_account_above_its_cap_freezes_from_now_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
