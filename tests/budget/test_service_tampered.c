/* A ledger that somebody has edited: the service does not start on it, and one that finds it out
 * while it runs grants nothing more, until an admin has accepted what was found. What is edited
 * afterwards is not accepted. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "proto/key.h"
#include "service_fixture.h"

static int setup(void **state)
{
    (void)fixture_setup(state);
    service_fixture *fixture = *state;
    fixture_start(fixture);
    fixture_account(fixture, "phase", USD(10));
    fixture_account(fixture, "other", USD(10));
    return 0;
}

/* Between two runs of the service. */
static void edit(service_fixture *fixture, const char *sql)
{
    sqlite3 *db = NULL;
    if (fixture->pid != 0) {
        assert_int_equal(fixture_stop(fixture), 0);
    }
    assert_int_equal(sqlite3_open(test_directory_path(&fixture->directory, "ledger.db"), &db),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static budget_verdict ask(const service_fixture *fixture, const char *account, const char *label,
                          int64_t usd_micro, base_error *why)
{
    static budget_grant grant;
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims asked = fixture_ask(account, label, usd_micro);
    const budget_verdict verdict = budget_authorize(client, &asked, &grant, why);
    budget_client_close(client);
    return verdict;
}

static budget_report status_of(const service_fixture *fixture)
{
    budget_report report;
    base_error why;
    const budget_status_sinks sinks = {0};
    budget_client *client = fixture_client(fixture, "request", 0);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    budget_client_close(client);
    return report;
}

/* The setting that accepts what the service did not start on. */
static const char *acceptance(const service_fixture *fixture)
{
    static const char before[] = "--accept-audit ";
    static char setting[128];
    const char *digest = strstr(fixture->failure, before);
    if (digest == NULL) {
        fail_msg("no digest: %s", fixture->failure);
        return NULL;
    }
    (void)snprintf(setting, sizeof setting, "BUDGET_ACCEPT_AUDIT=%s", digest + sizeof before - 1);
    return setting;
}

static void test_it_does_not_start(void **state)
{
    static const char *const edits[] = {
        "UPDATE account SET cap = 500000000 WHERE name = 'phase'",
        "UPDATE account SET reserved = 0 WHERE name = 'phase'",
        "CREATE TRIGGER t AFTER UPDATE ON account BEGIN UPDATE account SET posted = 0; END",
    };
    static const char *const undo[] = {
        "UPDATE account SET cap = 10000000 WHERE name = 'phase'",
        "UPDATE account SET reserved = 1000000 WHERE name = 'phase'",
        "DROP TRIGGER t",
    };
    service_fixture *fixture = *state;
    base_error why;
    assert_verdict(ask(fixture, "phase", "first", USD(1), &why), BUDGET_GRANTED, &why);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        edit(fixture, edits[i]);
        if (fixture_start_with(fixture, NULL, NULL)) {
            fail_msg("%s: the service started", edits[i]);
        }
        assert_false(fixture_start_with(fixture, "BUDGET_ACCEPT_AUDIT=1", NULL));
        assert_true(fixture_start_with(fixture, acceptance(fixture), NULL));
        edit(fixture, undo[i]);
        fixture_start(fixture);
    }
    assert_verdict(ask(fixture, "phase", "second", USD(1), &why), BUDGET_GRANTED, &why);
    assert_string_equal(status_of(fixture).audit_finding, "");
}

/* What was accepted at the start is accepted; the next finding is not. */
static void test_a_bad_audit_ends_all_grants(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_audit_report audit = {0};
    static budget_redemption redemption;
    static budget_grant grant;
    proto_keypair job;
    edit(fixture, "UPDATE account SET cap = cap * 50");
    assert_false(fixture_start_with(fixture, NULL, NULL));
    assert_true(fixture_start_with(fixture, acceptance(fixture), NULL));
    assert_non_null(strstr(status_of(fixture).audit_finding, "account, id 1: cap is 500000000"));
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const budget_claims asked = fixture_ask("phase", "first", USD(1));
    assert_verdict(budget_authorize(admin, &asked, &grant, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_account_set_cap(admin, "phase", USD(10), &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_audit(admin, &audit, &why), BUDGET_GRANTED, &why);
    assert_false(audit.good);
    assert_int_equal(audit.finding_count, 1);
    assert_non_null(strstr(audit.findings[0], "account, id 2: cap is 500000000"));
    assert_non_null(strstr(status_of(fixture).audit_finding, "account, id 2"));
    assert_verdict(ask(fixture, "phase", "second", USD(1), &why), BUDGET_REFUSED, &why);
    assert_non_null(strstr(why.message, "does not audit"));
    const budget_redeem_options options = fixture_redeemer(fixture, &job);
    assert_verdict(
        budget_redeem(&options, grant.token, &(budget_redeem_ranks){0, 1, 1}, &redemption, &why),
        BUDGET_REFUSED, &why);
    assert_verdict(budget_account_set_cap(admin, "other", USD(10), &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_audit(admin, &audit, &why), BUDGET_GRANTED, &why);
    assert_true(audit.good);
    assert_verdict(ask(fixture, "phase", "second", USD(1), &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
}

/* The first finding stays the same, and hides the second one. */
static void test_later_edits_are_not_accepted(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    char accepted[128];
    assert_verdict(ask(fixture, "other", "first", USD(1), &why), BUDGET_GRANTED, &why);
    edit(fixture, "UPDATE account SET cap = cap + 1 WHERE name = 'phase'");
    assert_false(fixture_start_with(fixture, NULL, NULL));
    (void)snprintf(accepted, sizeof accepted, "%s", acceptance(fixture));
    assert_true(fixture_start_with(fixture, accepted, NULL));
    assert_verdict(ask(fixture, "other", "second", USD(1), &why), BUDGET_GRANTED, &why);
    assert_int_equal(fixture_stop(fixture), 0);
    assert_true(fixture_start_with(fixture, accepted, NULL)); /* nothing but what was accepted */
    edit(fixture, "UPDATE account SET reserved = 0, cap = 500000000 WHERE name = 'other'");
    assert_false(fixture_start_with(fixture, accepted, NULL));
    assert_non_null(strstr(fixture->failure, "account, id 1: cap is 10000001"));
    assert_non_null(strstr(fixture->failure, "(and 2 more)"));
    assert_non_null(strstr(fixture->failure, "not what was accepted"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_does_not_start, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_later_edits_are_not_accepted, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_bad_audit_ends_all_grants, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
