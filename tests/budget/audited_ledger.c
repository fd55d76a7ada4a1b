/* The ledger that test_audit.c and test_checkpoint.c look at, and edit. */
#include "audited_ledger.h"

#include <fcntl.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A signer that tests can have: the "signature" is a keyed hash. */
static base_status sign(void *context, const void *message, size_t message_bytes,
                        uint8_t signature[64], char kid[BUDGET_KID_BYTES], base_error *reterr)
{
    (void)reterr;
    (void)snprintf(kid, BUDGET_KID_BYTES, "k4.pid.test");
    return crypto_generichash(signature, 64, message, message_bytes, context, 32) == 0
               ? BASE_OK
               : BASE_ERR_AUTH;
}

static base_status verify(void *context, const void *message, size_t message_bytes,
                          const uint8_t signature[64], const char *kid, base_error *reterr)
{
    uint8_t expected[64];
    char made[BUDGET_KID_BYTES];
    (void)sign(context, message, message_bytes, expected, made, reterr);
    return strcmp(made, kid) == 0 && memcmp(expected, signature, 64) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_AUTH, "a bad signature");
}

static uint8_t signing_key[32] = "a key that only the tests have.";

/* Something of everything that a ledger can hold. */
static void fill(ledger_fixture *fixture)
{
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_ledger_client client = {.name = "laptop", .role = BUDGET_ROLE_REQUEST};
    const budget_caller caller = {.client = 1, .request_id = "refused-1"};
    memset(client.public_key, 9, sizeof client.public_key);
    assert_granted(fixture_account(fixture, "phase", 5 * USD));
    assert_granted(fixture_account(fixture, "phase/lab", 3 * USD));
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    assert_granted(fixture_authorize(fixture, "phase", "gone", USD / 2));
    assert_granted(fixture_authorize(fixture, "phase", "late", USD / 2));
    assert_granted(fixture_void(fixture, "gone"));
    assert_granted(fixture_create(fixture, "run"));
    assert_granted(fixture_attach(fixture, "run", "pod-1"));
    assert_granted(fixture_redeem(fixture, "run", 0, 1, 1));
    assert_granted(fixture_redeem(fixture, "run", 1, 1, 1));
    assert_granted(fixture_redeem(fixture, "run", 0, 2, 1));
    assert_granted(fixture_redeem(fixture, "late", 0, 1, 3));
    fixture_begin(fixture);
    budget_authorization claim = fixture_claim(fixture, "phase", "dear", 9 * USD);
    assert_ok(budget_ledger_client_add(fixture->ledger, NULL, &client, &answer, &fixture->error),
              &fixture->error);
    assert_ok(budget_ledger_authorize(fixture->ledger, &caller, &claim, payload, &answer,
                                      &fixture->error),
              &fixture->error);
    assert_reason(answer, BUDGET_REASON_EXCEEDED);
    fixture_commit(fixture);
    assert_granted(fixture_line(fixture, "run", USD / 4, "line-1"));
    assert_granted(fixture_prove(fixture, "run", "pod-1"));
    fixture_pass(fixture, 4000);
    assert_int_equal(fixture_expire(fixture), 1);
    assert_granted(fixture_line(fixture, "run", USD, "line-2")); /* above: freezes */
}

int audited_make(void **state)
{
    static ledger_fixture fixture;
    fixture_make(&fixture);
    fixture.options.signer =
        (budget_ledger_signer){.context = signing_key, .sign = sign, .verify = verify};
    fixture_reopen(&fixture);
    fill(&fixture);
    *state = &fixture;
    return 0;
}

int audited_remove(void **state)
{
    fixture_remove(*state);
    return 0;
}

budget_audit_report audited(ledger_fixture *fixture, int64_t rows)
{
    budget_audit *made = NULL;
    bool done = false;
    assert_ok(budget_audit_begin(fixture->ledger, &made, &fixture->error), &fixture->error);
    for (int step = 0; !done && step < 1000; step++) {
        assert_ok(budget_audit_step(made, rows, &done, &fixture->error), &fixture->error);
    }
    assert_true(done);
    const budget_audit_report report = *budget_audit_get(made);
    budget_audit_end(made);
    return report;
}

void audited_edit(ledger_fixture *fixture, const char *sql)
{
    sqlite3 *db = NULL;
    budget_ledger_close(fixture->ledger);
    fixture->ledger = NULL;
    assert_int_equal(sqlite3_open(test_directory_path(&fixture->directory, "ledger.db"), &db),
                     SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA synchronous=OFF", NULL, NULL, NULL), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    }
    assert_true(sqlite3_total_changes(db) > 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void audited_copy(ledger_fixture *fixture, const char *from, const char *to)
{
    char buffer[65536];
    ssize_t got = 0;
    const int in = open(test_directory_path(&fixture->directory, from), O_RDONLY | O_CLOEXEC);
    const int out = open(test_directory_path(&fixture->directory, to),
                         O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(in >= 0 && out >= 0);
    while ((got = read(in, buffer, sizeof buffer)) > 0) {
        assert_int_equal(write(out, buffer, (size_t)got), got);
    }
    (void)close(in);
    (void)close(out);
}

void audited_close(ledger_fixture *fixture)
{
    budget_ledger_close(fixture->ledger);
    fixture->ledger = NULL;
}
