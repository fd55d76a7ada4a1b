/* The disk fails in every way it can, and nothing is granted that is not on it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "budget/audit.h"
#include "ledger_fixture.h"
#include "sim_disk.h"

static int make(void **state)
{
    static ledger_fixture fixture;
    sim_disk_reset();
    memset(&fixture, 0, sizeof fixture);
    test_directory_make(&fixture.directory);
    fixture.clock = (budget_clock){
        .wall_ms = (int64_t)FIXTURE_START_MS * 1000, .boot_ms = 5000, .boot_id = "first-boot"};
    fixture.options = (budget_ledger_options){
        .dir = fixture.directory.path, .clock = fixture.clock, .vfs = SIM_DISK_VFS};
    assert_ok(budget_ledger_create(&fixture.options, &fixture.error), &fixture.error);
    assert_ok(budget_ledger_open(&fixture.options, &fixture.ledger, &fixture.error),
              &fixture.error);
    assert_granted(fixture_account(&fixture, "phase", 500 * USD));
    assert_granted(fixture_authorize(&fixture, "phase", "first", USD));
    *state = &fixture;
    return 0;
}

/* An authorization whose batch may fail; what commit said. */
static base_status try_authorize(ledger_fixture *fixture, const char *label)
{
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_caller caller = {.client = 1, .request_id = label};
    budget_authorization claim = fixture_claim(fixture, "phase", label, USD);
    const base_status begun =
        budget_ledger_begin(fixture->ledger, &fixture->clock, &fixture->error);
    if (begun != BASE_OK) {
        return begun;
    }
    const base_status asked = budget_ledger_authorize(fixture->ledger, &caller, &claim, payload,
                                                      &answer, &fixture->error);
    const base_status committed = budget_ledger_commit(fixture->ledger, &fixture->error);
    assert_true(asked == BASE_OK || committed != BASE_OK); /* a lost operation loses its batch */
    return committed;
}

static void audit(ledger_fixture *fixture)
{
    budget_audit *made = NULL;
    bool done = false;
    assert_ok(budget_audit_begin(fixture->ledger, &made, &fixture->error), &fixture->error);
    while (!done) {
        assert_ok(budget_audit_step(made, 1000, &done, &fixture->error), &fixture->error);
    }
    if (!budget_audit_get(made)->good) {
        fail_msg("%s", budget_audit_get(made)->findings[0]);
    }
    budget_audit_end(made);
}

static void a_full_disk_refuses_nothing_for_good(void **state)
{
    ledger_fixture *fixture = *state;
    int failed = 0;
    char label[32];
    sim_disk.space_bytes = 60000;
    for (int i = 0; i < 200 && failed < 3; i++) {
        (void)snprintf(label, sizeof label, "run-%d", i);
        failed += try_authorize(fixture, label) != BASE_OK;
    }
    assert_int_equal(failed, 3);
    assert_false(budget_ledger_broken(fixture->ledger));
    const int64_t reserved = fixture_balance(fixture, "phase").reserved_usd_micro;
    sim_disk.space_bytes = -1;
    assert_status(try_authorize(fixture, label), BASE_OK); /* the same request, now granted */
    assert_int_equal(fixture_balance(fixture, "phase").reserved_usd_micro, reserved + USD);
    audit(fixture);
    fixture_reopen(fixture);
    assert_int_equal(fixture_find(fixture, label).rule.amount, USD);
    audit(fixture);
}

static void a_failed_sync_breaks_the_ledger(void **state)
{
    ledger_fixture *fixture = *state;
    sim_disk.sync_fails_after = 0;
    assert_status(try_authorize(fixture, "second"), BASE_ERR_IO);
    assert_true(budget_ledger_broken(fixture->ledger));
    assert_status(try_authorize(fixture, "third"), BASE_ERR_STATE); /* though syncs work again */
    budget_ledger_close(fixture->ledger);
    fixture->ledger = NULL;
    sim_disk_crash(0);
    assert_ok(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
              &fixture->error);
    audit(fixture);
    assert_status(try_authorize(fixture, "second"), BASE_OK);
    assert_status(try_authorize(fixture, "third"), BASE_OK);
    assert_int_equal(fixture_balance(fixture, "phase").reserved_usd_micro, 3 * USD);
}

static void a_disk_that_became_read_only_grants_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    sim_disk.read_only = true;
    assert_true(try_authorize(fixture, "second") != BASE_OK);
    sim_disk.read_only = false;
    assert_int_equal(fixture_balance(fixture, "phase").reserved_usd_micro, USD);
}

/* A crash at every single write and sync of an authorization. */
static void a_crash_anywhere_keeps_what_was_answered(void **state)
{
    ledger_fixture *fixture = *state;
    int granted = 1;
    bool survived = false;
    for (int64_t at = 0; !survived && at < 200; at++) {
        char label[32];
        (void)snprintf(label, sizeof label, "at-%d", (int)at);
        sim_disk.crash_after = at;
        const base_status status = try_authorize(fixture, label);
        survived = !sim_disk_stopped();
        budget_ledger_close(fixture->ledger);
        fixture->ledger = NULL;
        sim_disk_crash((uint64_t)at * 7);
        assert_ok(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  &fixture->error);
        if (status == BASE_OK) {
            assert_int_equal(fixture_find(fixture, label).rule.amount, USD);
        }
        assert_status(try_authorize(fixture, label), BASE_OK); /* retried: once in all */
        granted++;
        assert_int_equal(fixture_balance(fixture, "phase").reserved_usd_micro,
                         (int64_t)granted * USD);
        audit(fixture);
    }
    assert_true(survived);
}

/* ---- on a real directory ---- */

static int make_real(void **state)
{
    static ledger_fixture fixture;
    fixture_make(&fixture);
    assert_granted(fixture_account(&fixture, "phase", 500 * USD));
    *state = &fixture;
    return 0;
}

static void a_file_taken_away_is_noticed_before_the_answer(void **state)
{
    ledger_fixture *fixture = *state;
    assert_int_equal(unlink(test_directory_path(&fixture->directory, "ledger.db")), 0);
    assert_status(try_authorize(fixture, "second"), BASE_ERR_IO);
    assert_non_null(strstr(fixture->error.message, "taken away"));
    assert_true(budget_ledger_broken(fixture->ledger));
    budget_ledger_close(fixture->ledger);
    fixture->ledger = NULL;
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_NOTFOUND);
}

static void a_log_taken_away_is_noticed_before_the_answer(void **state)
{
    ledger_fixture *fixture = *state;
    assert_int_equal(unlink(test_directory_path(&fixture->directory, "ledger.db-wal")), 0);
    assert_status(try_authorize(fixture, "second"), BASE_ERR_IO);
    assert_true(budget_ledger_broken(fixture->ledger));
}

static void what_is_no_ledger_is_refused(void **state)
{
    ledger_fixture *fixture = *state;
    const char *path = test_directory_path(&fixture->directory, "ledger.db");
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(stat(test_directory_path(&fixture->directory, "checkpoints"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    budget_ledger_close(fixture->ledger);
    fixture->ledger = NULL;
    assert_status(budget_ledger_create(&fixture->options, NULL), BASE_ERR_STATE);
    assert_int_equal(truncate(path, 4096), 0);
    assert_true(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error) !=
                BASE_OK);
    assert_int_equal(truncate(path, 0), 0);
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_INVALID);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 5000; i++) {
        assert_true(fputs("no ledger", file) >= 0);
    }
    assert_int_equal(fclose(file), 0);
    assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                  BASE_ERR_INVALID);
}

int main(void)
{
#define SIM_TEST(name)  cmocka_unit_test_setup_teardown(name, make, fixture_teardown)
#define REAL_TEST(name) cmocka_unit_test_setup_teardown(name, make_real, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SIM_TEST(a_full_disk_refuses_nothing_for_good),
        SIM_TEST(a_failed_sync_breaks_the_ledger),
        SIM_TEST(a_disk_that_became_read_only_grants_nothing),
        SIM_TEST(a_crash_anywhere_keeps_what_was_answered),
        REAL_TEST(a_file_taken_away_is_noticed_before_the_answer),
        REAL_TEST(a_log_taken_away_is_noticed_before_the_answer),
        REAL_TEST(what_is_no_ledger_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
