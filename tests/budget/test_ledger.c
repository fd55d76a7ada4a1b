/* budget/ledger.h: every operation and its refusals, one scenario per test; but for those of time, which
 * are in test_ledger_time.c. */
#include "budget/ledger.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audited_ledger.h"
#include "ledger_fixture.h"

static void a_grant_reserves_in_the_whole_chain(void **state)
{
    ledger_fixture *fixture = *state;
    const budget_answer answer = fixture_authorize(fixture, "phase/lab", "run", 2 * USD);
    assert_granted(answer);
    assert_string_equal(answer.account, "phase/lab");
    assert_int_equal(answer.remaining_before_usd_micro, 3 * USD);
    assert_int_equal(answer.remaining_after_usd_micro, 1 * USD);
    fixture_check(fixture, "phase", 2 * USD, 0);
    fixture_check(fixture, "phase/lab", 2 * USD, 0);
}

static void the_account_that_binds_refuses(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase", "other", 3 * USD));
    const budget_answer answer = fixture_authorize(fixture, "phase/lab", "run", 2 * USD + 1);
    assert_reason(answer, BUDGET_REASON_EXCEEDED);
    assert_string_equal(answer.account, "phase");
    assert_int_equal(answer.remaining_before_usd_micro, 2 * USD);
    assert_int_equal(answer.remaining_after_usd_micro, 2 * USD);
    assert_int_equal(answer.asked_usd_micro, 2 * USD + 1);
    assert_non_null(strstr(answer.message, "over the cap of phase ($5.00): $2.00 left"));
    fixture_check(fixture, "phase/lab", 0, 0);
}

static void a_label_is_used_once(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    const budget_answer answer = fixture_authorize(fixture, "phase", "run", USD);
    assert_reason(answer, BUDGET_REASON_LABEL_USED);
    assert_non_null(strstr(answer.message, "$1.00 in row"));
    assert_reason(fixture_authorize(fixture, "nowhere", "new", USD), BUDGET_REASON_ACCOUNT_UNKNOWN);
}

static void ask(ledger_fixture *fixture, const char *id, uint8_t body, int64_t usd_micro,
                char *payload, budget_answer *answer)
{
    budget_caller caller = {.client = 7, .request_id = id};
    caller.body_blake2b256[0] = body;
    budget_authorization claim = fixture_claim(fixture, "phase/lab", "run", usd_micro);
    fixture_begin(fixture);
    assert_ok(
        budget_ledger_authorize(fixture->ledger, &caller, &claim, payload, answer, &fixture->error),
        &fixture->error);
    fixture_commit(fixture);
}

static void a_retry_gets_the_same_bytes(void **state)
{
    ledger_fixture *fixture = *state;
    char first[BUDGET_CLAIMS_JSON_BYTES];
    char again[BUDGET_CLAIMS_JSON_BYTES];
    budget_answer answer;
    budget_answer replay;
    ask(fixture, "request-1", 1, USD, first, &answer);
    assert_granted(answer);
    fixture_pass(fixture, 60);
    fixture_reopen(fixture);
    ask(fixture, "request-1", 1, USD, again, &replay);
    assert_true(replay.replayed);
    replay.replayed = false;
    assert_memory_equal(&answer, &replay, sizeof answer);
    assert_string_equal(first, again);
    fixture_check(fixture, "phase", USD, 0);
    ask(fixture, "request-1", 2, USD, again, &replay);
    assert_reason(replay, BUDGET_REASON_REQUEST_REUSED);
}

static void a_refused_request_stays_refused(void **state)
{
    ledger_fixture *fixture = *state;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_answer answer;
    budget_answer replay;
    ask(fixture, "request-1", 1, 4 * USD, payload, &answer);
    assert_reason(answer, BUDGET_REASON_EXCEEDED);
    fixture_begin(fixture);
    assert_ok(budget_ledger_set_cap(fixture->ledger, NULL, "phase/lab", 5 * USD, &replay,
                                    &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    ask(fixture, "request-1", 1, 4 * USD, payload, &replay);
    assert_true(replay.replayed);
    replay.replayed = false;
    assert_memory_equal(&answer, &replay, sizeof answer);
    ask(fixture, "request-2", 1, 4 * USD, payload, &replay);
    assert_granted(replay);
}

static void money_returns_after_proof_and_cost(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", 2 * USD));
    assert_granted(fixture_create(fixture, "run"));
    assert_granted(fixture_attach(fixture, "run", "pod-1"));
    assert_granted(fixture_actual(fixture, "run", 0));
    fixture_check(fixture, "phase", 2 * USD, 0);
    assert_granted(fixture_actual(fixture, "run", USD / 2));
    fixture_check(fixture, "phase", 3 * USD / 2, USD / 2);
    assert_reason(fixture_prove(fixture, "run", "pod-2"), BUDGET_REASON_EVIDENCE);
    assert_granted(fixture_prove(fixture, "run", "pod-1"));
    fixture_check(fixture, "phase", 3 * USD / 2,
                  USD / 2); /* said while it ran: not the whole cost */
    assert_int_equal(fixture_find(fixture, "run").rule.state, BUDGET_STATE_TERMINATED_UNBILLED);
    assert_granted(fixture_actual(fixture, "run", 0));
    fixture_check(fixture, "phase", 0, USD / 2);
    fixture_check(fixture, "phase/lab", 0, USD / 2);
    assert_int_equal(fixture_find(fixture, "run").rule.state, BUDGET_STATE_POSTED);
    assert_granted(fixture_line(fixture, "run", USD / 4, "line-7"));
    assert_granted(fixture_line(fixture, "run", USD / 4, "line-7"));
    assert_reason(fixture_line(fixture, "run", USD / 8, "line-7"), BUDGET_REASON_LINE_USED);
    fixture_check(fixture, "phase", 0, 3 * USD / 4);
}

/* What is said of one instance says nothing of the other that the token allows. */
static void all_instances_are_proven_to_be_gone(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize_instances(fixture, "phase", "unknown", USD, 2));
    assert_granted(fixture_create(fixture, "unknown"));
    assert_reason(fixture_prove(fixture, "unknown", "pod-1"), BUDGET_REASON_EVIDENCE);
    assert_reason(fixture_prove(fixture, "unknown", "pod-1,pod-1"), BUDGET_REASON_EVIDENCE);
    assert_granted(fixture_prove(fixture, "unknown", "pod-1,pod-2"));
    assert_granted(fixture_authorize_instances(fixture, "phase", "run", USD, 2));
    assert_granted(fixture_create(fixture, "run"));
    assert_granted(fixture_attach(fixture, "run", "pod-3"));
    const budget_answer answer = fixture_prove(fixture, "run", "pod-3");
    assert_reason(answer, BUDGET_REASON_EVIDENCE);
    assert_non_null(strstr(answer.message, "1 of the 2 instances that the token allows"));
    assert_non_null(strstr(answer.message, "--attested"));
    assert_reason(fixture_prove(fixture, "run", "pod-3,pod-4"), BUDGET_REASON_EVIDENCE);
    assert_granted(fixture_attach(fixture, "run", "pod-4"));
    assert_reason(fixture_prove(fixture, "run", "pod-3"), BUDGET_REASON_EVIDENCE);
    assert_granted(fixture_prove(fixture, "run", "pod-3,pod-4"));
    assert_false(fixture_find(fixture, "run").entry.attested);
    assert_granted(fixture_authorize_instances(fixture, "phase", "one", USD, 2));
    assert_granted(fixture_attach(fixture, "one", "pod-5"));
    assert_granted(fixture_attest(fixture, "one")); /* an admin: there was no other */
    assert_true(fixture_find(fixture, "one").entry.attested);
}

static void a_partial_cost_gives_nothing_back(void **state)
{
    ledger_fixture *fixture = *state;
    budget_answer answer;
    const budget_ledger_actual partial = {.label = "run", .usd_micro = USD / 2};
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", 2 * USD));
    assert_granted(fixture_create(fixture, "run"));
    assert_granted(fixture_attest(fixture, "run"));
    fixture_begin(fixture);
    assert_ok(
        budget_ledger_record_actual(fixture->ledger, NULL, &partial, &answer, &fixture->error),
        &fixture->error);
    fixture_commit(fixture);
    fixture_check(fixture, "phase", 3 * USD / 2, USD / 2);
    assert_granted(fixture_actual(fixture, "run", USD / 2));
    fixture_check(fixture, "phase", 0, USD);
}

/* A ledger whose rows were made by other rules is refused, and not read by these. */
static void a_ledger_of_another_version_is_refused(void **state)
{
    ledger_fixture *fixture = *state;
    sqlite3 *db = NULL;
    budget_ledger_close(fixture->ledger);
    fixture->ledger = NULL;
    for (int version = 0; version < 10; version++) {
        char sql[64];
        char wanted[64];
        if (version == 6) {
            continue;
        }
        (void)snprintf(sql, sizeof sql, "PRAGMA user_version = %d", version);
        (void)snprintf(wanted, sizeof wanted, "a ledger of version %d, and this is for version 6",
                       version);
        assert_int_equal(sqlite3_open(test_directory_path(&fixture->directory, "ledger.db"), &db),
                         SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        assert_status(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
                      BASE_ERR_INVALID);
        assert_non_null(strstr(fixture->error.message, wanted));
    }
}

/* Attaches an instance as one that is in that account of the vendor; "": nobody says where. */
static budget_answer attach_in(ledger_fixture *fixture, const char *account, const char *instance)
{
    budget_answer answer;
    const budget_attachment what = {
        .label = "run", .instance_id = instance, .vendor_account = account};
    fixture_begin(fixture);
    assert_ok(budget_ledger_attach(fixture->ledger, NULL, &what, &answer, &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    return answer;
}

/* "Not found" proves an end only if the account says it that has the instance. */
static void only_the_account_that_has_it_proves_its_end(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", 2 * USD));
    assert_granted(attach_in(fixture, "", "pod-1"));
    budget_answer answer = fixture_prove(fixture, "run", "pod-1");
    assert_reason(answer, BUDGET_REASON_EVIDENCE);
    assert_non_null(strstr(answer.message, "nobody has said in which account"));
    assert_granted(attach_in(fixture, "user_other", "pod-1"));
    assert_true(attach_in(fixture, "user_other", "pod-1").replayed);
    assert_true(attach_in(fixture, "", "pod-1").replayed);
    answer = fixture_prove(fixture, "run", "pod-1");
    assert_reason(answer, BUDGET_REASON_EVIDENCE);
    assert_non_null(strstr(answer.message, "vendor_account is " FIXTURE_VENDOR_ACCOUNT
                                           ", and the instances are in user_other"));
    assert_reason(attach_in(fixture, FIXTURE_VENDOR_ACCOUNT, "pod-1"), BUDGET_REASON_STATE);
    assert_reason(fixture_create(fixture, "run"), BUDGET_REASON_STATE);
    assert_string_equal(fixture_find(fixture, "run").entry.vendor_account, "user_other");
    fixture_check(fixture, "phase", 2 * USD, 0);
    char json[2048];
    char other[2048];
    fixture_evidence(fixture, "run", "pod-1", json, sizeof json);
    const char *at = strstr(json, FIXTURE_VENDOR_ACCOUNT);
    (void)snprintf(other, sizeof other, "%.*suser_other%s", (int)(at - json), json,
                   at + strlen(FIXTURE_VENDOR_ACCOUNT));
    assert_granted(fixture_terminate(fixture, "run", other, BUDGET_ATTEST_NOTHING));
    assert_granted(fixture_actual(fixture, "run", 0));
    fixture_check(fixture, "phase", 0, 0);
    const budget_audit_report report = audited(fixture, 100);
    assert_true(report.good);
}

static void nothing_comes_back_for_a_cost_of_nothing_while_it_runs(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", 2 * USD));
    assert_granted(fixture_create(fixture, "run"));
    assert_granted(fixture_actual(fixture, "run", 0));
    assert_granted(fixture_attest(fixture, "run"));
    fixture_check(fixture, "phase", 2 * USD, 0);
    assert_int_equal(fixture_find(fixture, "run").rule.state, BUDGET_STATE_TERMINATED_UNBILLED);
    assert_true(fixture_find(fixture, "run").entry.attested);
    assert_granted(fixture_actual(fixture, "run", 0));
    fixture_check(fixture, "phase", 0, 0);
    assert_int_equal(fixture_find(fixture, "run").rule.state, BUDGET_STATE_POSTED);
}

static void an_overrun_freezes_until_acknowledged(void **state)
{
    ledger_fixture *fixture = *state;
    budget_answer answer;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    assert_granted(fixture_authorize(fixture, "phase/lab", "next", USD / 2));
    assert_granted(fixture_create(fixture, "run"));
    answer = fixture_actual(fixture, "run", USD + 1);
    assert_granted(answer);
    assert_non_null(strstr(answer.message, "frozen"));
    assert_true(fixture_balance(fixture, "phase/lab").frozen);
    assert_reason(fixture_authorize(fixture, "phase/lab", "more", 1), BUDGET_REASON_ACCOUNT_FROZEN);
    assert_reason(fixture_redeem(fixture, "next", 0, 1, 1), BUDGET_REASON_ACCOUNT_FROZEN);
    assert_reason(fixture_create(fixture, "next"), BUDGET_REASON_ACCOUNT_FROZEN);
    assert_granted(fixture_authorize(fixture, "phase", "above", 1));
    fixture_begin(fixture);
    assert_ok(
        budget_ledger_acknowledge(fixture->ledger, NULL, "phase/lab", &answer, &fixture->error),
        &fixture->error);
    fixture_commit(fixture);
    assert_granted(answer);
    assert_granted(fixture_redeem(fixture, "next", 0, 1, 1));
}

static void a_redeemed_token_cannot_be_voided(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    assert_granted(fixture_authorize(fixture, "phase/lab", "unused", USD));
    assert_granted(fixture_redeem(fixture, "run", 0, 1, 1));
    assert_reason(fixture_void(fixture, "run"), BUDGET_REASON_REDEEMED);
    fixture_check(fixture, "phase", 2 * USD, 0);
    assert_granted(fixture_void(fixture, "unused"));
    fixture_check(fixture, "phase", USD, 0);
    assert_reason(fixture_redeem(fixture, "unused", 0, 1, 1), BUDGET_REASON_STATE);
    assert_reason(fixture_void(fixture, "nothing"), BUDGET_REASON_LABEL_UNKNOWN);
}

static void a_label_with_an_instance_cannot_be_voided(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", 3 * USD));
    assert_granted(fixture_attach(fixture, "run", "pod-1"));
    assert_reason(fixture_void(fixture, "run"), BUDGET_REASON_STATE);
    fixture_check(fixture, "phase", 3 * USD, 0);
    assert_granted(fixture_prove(fixture, "run", "pod-1"));
    assert_granted(fixture_actual(fixture, "run", USD));
    fixture_check(fixture, "phase", 0, USD);
}

static void attempts_go_in_order_and_fence(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    assert_reason(fixture_redeem(fixture, "run", 0, 2, 1), BUDGET_REASON_ATTEMPT_ORDER);
    assert_reason(fixture_redeem(fixture, "run", 2, 1, 1), BUDGET_REASON_RANK_RANGE);
    const budget_answer first = fixture_redeem(fixture, "run", 0, 1, 1);
    assert_granted(first);
    budget_answer again = fixture_redeem(fixture, "run", 0, 1, 1);
    assert_true(again.replayed);
    again.replayed = false;
    assert_memory_equal(&first, &again, sizeof first);
    assert_reason(fixture_redeem(fixture, "run", 0, 1, 2), BUDGET_REASON_JOB_KEY);
    assert_reason(fixture_redeem(fixture, "run", 1, 1, 2), BUDGET_REASON_JOB_KEY);
    assert_granted(fixture_redeem(fixture, "run", 1, 1, 1));
    assert_granted(fixture_redeem(fixture, "run", 1, 2, 1));
    assert_reason(fixture_redeem(fixture, "run", 0, 1, 1), BUDGET_REASON_FENCED);
    assert_granted(fixture_redeem(fixture, "run", 0, 2, 1));
    assert_granted(fixture_redeem(fixture, "run", 0, 3, 1));
    assert_reason(fixture_redeem(fixture, "run", 0, 4, 1), BUDGET_REASON_ATTEMPT_RANGE);
    assert_granted(fixture_create(fixture, "run"));
    assert_reason(fixture_create(fixture, "run"), BUDGET_REASON_CREATED);
}

static void a_second_service_is_refused(void **state)
{
    ledger_fixture *fixture = *state;
    budget_ledger *second = NULL;
    assert_status(budget_ledger_open(&fixture->options, &second, NULL), BASE_ERR_BUSY);
    assert_status(budget_ledger_create(&fixture->options, NULL), BASE_ERR_BUSY);
    (void)unlink(test_directory_path(&fixture->directory, "ledger.lock"));
    assert_status(budget_ledger_open(&fixture->options, &second, NULL), BASE_ERR_BUSY);
}

static void clients_come_and_go(void **state)
{
    ledger_fixture *fixture = *state;
    budget_answer answer;
    budget_ledger_client found;
    budget_ledger_client client = {.name = "laptop", .role = BUDGET_ROLE_REQUEST};
    memset(client.public_key, 9, sizeof client.public_key);
    fixture_begin(fixture);
    assert_ok(budget_ledger_client_add(fixture->ledger, NULL, &client, &answer, &fixture->error),
              &fixture->error);
    assert_granted(answer);
    assert_ok(budget_ledger_client_add(fixture->ledger, NULL, &client, &answer, &fixture->error),
              &fixture->error);
    assert_reason(answer, BUDGET_REASON_CLIENT_EXISTS);
    assert_ok(
        budget_ledger_client_revoke(fixture->ledger, NULL, "laptop", &answer, &fixture->error),
        &fixture->error);
    assert_granted(answer);
    assert_ok(budget_ledger_client_add(fixture->ledger, NULL, &client, &answer, &fixture->error),
              &fixture->error);
    assert_reason(answer, BUDGET_REASON_CLIENT_EXISTS); /* the key was used before */
    fixture_commit(fixture);
    assert_ok(
        budget_ledger_client_find(fixture->ledger, client.public_key, &found, &fixture->error),
        &fixture->error);
    assert_true(found.revoked);
    assert_int_equal(found.id, 1);
}

static budget_reason revoke_client(ledger_fixture *fixture, const char *name)
{
    budget_answer answer;
    assert_ok(budget_ledger_client_revoke(fixture->ledger, NULL, name, &answer, &fixture->error),
              &fixture->error);
    return answer.reason;
}

static void the_last_admin_stays(void **state)
{
    ledger_fixture *fixture = *state;
    budget_answer answer;
    static const char *const names[] = {"first", "second"};
    fixture_begin(fixture);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        budget_ledger_client client = {.role = BUDGET_ROLE_ADMIN};
        (void)snprintf(client.name, sizeof client.name, "%s", names[i]);
        memset(client.public_key, (int)i + 1, sizeof client.public_key);
        assert_ok(
            budget_ledger_client_add(fixture->ledger, NULL, &client, &answer, &fixture->error),
            &fixture->error);
        assert_granted(answer);
    }
    assert_int_equal(revoke_client(fixture, "first"), BUDGET_REASON_NONE);
    assert_int_equal(revoke_client(fixture, "second"), BUDGET_REASON_STATE);
    fixture_commit(fixture);
}

static void what_is_rolled_back_never_was(void **state)
{
    ledger_fixture *fixture = *state;
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    uint64_t before = 0;
    uint64_t after = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    budget_ledger_head(fixture->ledger, &before, head);
    budget_authorization claim = fixture_claim(fixture, "phase/lab", "run", USD);
    fixture_begin(fixture);
    assert_ok(
        budget_ledger_authorize(fixture->ledger, NULL, &claim, payload, &answer, &fixture->error),
        &fixture->error);
    budget_ledger_rollback(fixture->ledger);
    budget_ledger_head(fixture->ledger, &after, head);
    assert_int_equal(before, after);
    fixture_check(fixture, "phase", 0, 0);
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
}

int main(void)
{
#define LEDGER_TEST(name)                                                                          \
    cmocka_unit_test_setup_teardown(name, fixture_setup_phase, fixture_teardown)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(a_grant_reserves_in_the_whole_chain),
        LEDGER_TEST(the_account_that_binds_refuses),
        LEDGER_TEST(a_label_is_used_once),
        LEDGER_TEST(a_retry_gets_the_same_bytes),
        LEDGER_TEST(a_refused_request_stays_refused),
        LEDGER_TEST(money_returns_after_proof_and_cost),
        LEDGER_TEST(all_instances_are_proven_to_be_gone),
        LEDGER_TEST(only_the_account_that_has_it_proves_its_end),
        LEDGER_TEST(a_partial_cost_gives_nothing_back),
        LEDGER_TEST(a_ledger_of_another_version_is_refused),
        LEDGER_TEST(nothing_comes_back_for_a_cost_of_nothing_while_it_runs),
        LEDGER_TEST(an_overrun_freezes_until_acknowledged),
        LEDGER_TEST(a_redeemed_token_cannot_be_voided),
        LEDGER_TEST(a_label_with_an_instance_cannot_be_voided),
        LEDGER_TEST(attempts_go_in_order_and_fence),
        LEDGER_TEST(a_second_service_is_refused),
        LEDGER_TEST(clients_come_and_go),
        LEDGER_TEST(the_last_admin_stays),
        LEDGER_TEST(what_is_rolled_back_never_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
