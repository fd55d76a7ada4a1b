/* A ledger in a temporary directory, with clocks that tests set. Used by the tests of the ledger
 * and its audit. */
#include "ledger_fixture.h"

#include <stdio.h>
#include <string.h>

#include "budget/time.h"

void fixture_make(ledger_fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    test_directory_make(&fixture->directory);
    fixture->clock = (budget_clock){
        .wall_ms = (int64_t)FIXTURE_START_MS * 1000,
        .boot_ms = 5000,
        .boot_id = "first-boot",
    };
    fixture->options = (budget_ledger_options){
        .dir = fixture->directory.path,
        .clock = fixture->clock,
    };
    assert_ok(budget_ledger_create(&fixture->options, &fixture->error), &fixture->error);
    assert_ok(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
              &fixture->error);
}

void fixture_remove(ledger_fixture *fixture)
{
    budget_ledger_close(fixture->ledger);
    test_directory_remove(&fixture->directory);
}

void fixture_reopen(ledger_fixture *fixture)
{
    budget_ledger_close(fixture->ledger);
    fixture->ledger = NULL;
    fixture->options.clock = fixture->clock;
    assert_ok(budget_ledger_open(&fixture->options, &fixture->ledger, &fixture->error),
              &fixture->error);
}

void fixture_pass(ledger_fixture *fixture, int64_t seconds)
{
    fixture->clock.wall_ms += seconds * 1000;
    fixture->clock.boot_ms += seconds * 1000;
}

void fixture_begin(ledger_fixture *fixture)
{
    assert_ok(budget_ledger_begin(fixture->ledger, &fixture->clock, &fixture->error),
              &fixture->error);
}

void fixture_commit(ledger_fixture *fixture)
{
    assert_ok(budget_ledger_commit(fixture->ledger, &fixture->error), &fixture->error);
}

#define IN_BATCH(fixture, call)                                                                    \
    do {                                                                                           \
        fixture_begin(fixture);                                                                    \
        assert_ok(call, &(fixture)->error);                                                        \
        fixture_commit(fixture);                                                                   \
    } while (0)

budget_answer fixture_account(ledger_fixture *fixture, const char *name, int64_t cap)
{
    budget_answer answer;
    IN_BATCH(fixture, budget_ledger_account_create(fixture->ledger, NULL, name, cap, &answer,
                                                   &fixture->error));
    return answer;
}

budget_authorization fixture_claim(ledger_fixture *fixture, const char *account, const char *label,
                                   int64_t usd_micro)
{
    budget_authorization made = {
        .claims =
            {
                .issuer = BUDGET_ISSUER,
                .audience = BUDGET_AUDIENCE,
                .subject = "tester",
                .issued_at = fixture->clock.wall_ms / 1000,
                .not_before = fixture->clock.wall_ms / 1000,
                .expires_at = fixture->clock.wall_ms / 1000 + 900,
                .mode = "ddp-nccl",
                .world_size = 2,
                .vendor = "runpod",
                .instance_type = "A100",
                .instances = 1,
                .gpus = 2,
                .tier = "spot",
                .max_usd_micro = usd_micro,
                .max_price_usd_micro_per_hour = 1,
                .max_seconds = 3600,
                .max_attempts = 3,
            },
        .kid = "k4.pid.test",
    };
    (void)snprintf(made.claims.account, sizeof made.claims.account, "%s", account);
    (void)snprintf(made.claims.label, sizeof made.claims.label, "%s", label);
    (void)snprintf(made.claims.jti, sizeof made.claims.jti, "%032x", ++fixture->jti);
    return made;
}

budget_answer fixture_authorize(ledger_fixture *fixture, const char *account, const char *label,
                                int64_t usd_micro)
{
    return fixture_authorize_instances(fixture, account, label, usd_micro, 1);
}

budget_answer fixture_authorize_instances(ledger_fixture *fixture, const char *account,
                                          const char *label, int64_t usd_micro, int64_t instances)
{
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_authorization claim = fixture_claim(fixture, account, label, usd_micro);
    claim.claims.instances = instances;
    IN_BATCH(fixture, budget_ledger_authorize(fixture->ledger, NULL, &claim, payload, &answer,
                                              &fixture->error));
    return answer;
}

budget_reservation fixture_find(ledger_fixture *fixture, const char *label)
{
    budget_reservation found;
    assert_ok(budget_ledger_find(fixture->ledger, label, &found, &fixture->error), &fixture->error);
    return found;
}

budget_answer fixture_redeem(ledger_fixture *fixture, const char *label, int64_t rank,
                             int64_t attempt, uint8_t key)
{
    budget_answer answer;
    budget_ledger_redemption redemption = {.rank = rank, .attempt = attempt};
    const budget_reservation found = fixture_find(fixture, label);
    memcpy(redemption.jti, found.entry.jti, sizeof redemption.jti);
    memset(redemption.job_public_key, key, sizeof redemption.job_public_key);
    IN_BATCH(fixture, budget_ledger_redeem(fixture->ledger, &redemption, &answer, &fixture->error));
    return answer;
}

budget_answer fixture_create(ledger_fixture *fixture, const char *label)
{
    budget_answer answer;
    budget_ledger_redemption redemption = {.vendor_account = FIXTURE_VENDOR_ACCOUNT};
    const budget_reservation found = fixture_find(fixture, label);
    memcpy(redemption.jti, found.entry.jti, sizeof redemption.jti);
    IN_BATCH(fixture, budget_ledger_redeem_create(fixture->ledger, NULL, &redemption, &answer,
                                                  &fixture->error));
    return answer;
}

budget_answer fixture_actual(ledger_fixture *fixture, const char *label, int64_t usd_micro)
{
    return fixture_line(fixture, label, usd_micro, NULL);
}

budget_answer fixture_line(ledger_fixture *fixture, const char *label, int64_t usd_micro,
                           const char *line)
{
    budget_answer answer;
    const budget_ledger_actual actual = {
        .label = label,
        .usd_micro = usd_micro,
        .line_id = line,
        .billed_usd_micro = usd_micro,
        .final = line == NULL,
    };
    IN_BATCH(fixture,
             budget_ledger_record_actual(fixture->ledger, NULL, &actual, &answer, &fixture->error));
    return answer;
}

budget_answer fixture_terminate(ledger_fixture *fixture, const char *label, const char *evidence,
                                budget_attest attest)
{
    budget_answer answer;
    budget_termination termination = {
        .label = label,
        .evidence = evidence,
        .evidence_bytes = strlen(evidence),
        .attest = attest,
    };
    IN_BATCH(fixture, budget_ledger_terminated(fixture->ledger, NULL, &termination, &answer,
                                               &fixture->error));
    return answer;
}

budget_answer fixture_attest(ledger_fixture *fixture, const char *label)
{
    return fixture_terminate(fixture, label, "I looked at the console", BUDGET_ATTEST_OTHER_FILES);
}

void fixture_evidence(ledger_fixture *fixture, const char *label, const char *instance, char *json,
                      size_t json_bytes)
{
    char at[BUDGET_TIME_BYTES];
    char described[1024] = "";
    const budget_reservation found = fixture_find(fixture, label);
    budget_time_format(fixture->clock.wall_ms / 1000, at);
    for (size_t bytes = 0, length = 0; *instance != '\0'; instance += length) {
        instance += *instance == ',';
        length = strcspn(instance, ",");
        bytes += (size_t)snprintf(described + bytes, sizeof described - bytes,
                                  "%s{\"at\":\"%s\",\"instance_id\":\"%.*s\","
                                  "\"name\":\"rf-%s\",\"status\":\"terminated\"}",
                                  bytes > 0 ? "," : "", at, (int)length, instance, found.entry.jti);
    }
    (void)snprintf(json, json_bytes,
                   "{\"evidence\":\"ringfence/termination/v1\",\"vendor\":\"runpod\","
                   "\"vendor_account\":\"" FIXTURE_VENDOR_ACCOUNT "\","
                   "\"jti\":\"%s\",\"describe\":[%s],\"list\":{\"at\":\"%s\","
                   "\"instances\":[{\"instance_id\":\"other\",\"name\":\"x\"}]}}",
                   found.entry.jti, described, at);
}

budget_answer fixture_prove(ledger_fixture *fixture, const char *label, const char *instance)
{
    char json[2048];
    fixture_evidence(fixture, label, instance, json, sizeof json);
    return fixture_terminate(fixture, label, json, BUDGET_ATTEST_NOTHING);
}

budget_answer fixture_attach(ledger_fixture *fixture, const char *label, const char *instance)
{
    budget_answer answer;
    const budget_attachment what = {
        .label = label, .instance_id = instance, .vendor_account = FIXTURE_VENDOR_ACCOUNT};
    IN_BATCH(fixture, budget_ledger_attach(fixture->ledger, NULL, &what, &answer, &fixture->error));
    return answer;
}

budget_answer fixture_void(ledger_fixture *fixture, const char *label)
{
    budget_answer answer;
    IN_BATCH(fixture, budget_ledger_void(fixture->ledger, NULL, label, &answer, &fixture->error));
    return answer;
}

size_t fixture_expire(ledger_fixture *fixture)
{
    budget_reservation found[16];
    size_t count = 0;
    IN_BATCH(fixture, budget_ledger_expire(fixture->ledger, 16, found, &count, &fixture->error));
    return count;
}

budget_account fixture_balance(ledger_fixture *fixture, const char *account)
{
    budget_account chain[BUDGET_ACCOUNT_DEPTH_MAX];
    size_t count = 0;
    assert_ok(budget_ledger_chain(fixture->ledger, account, chain, &count, NULL, &fixture->error),
              &fixture->error);
    return chain[0];
}

void fixture_check(ledger_fixture *fixture, const char *account, int64_t reserved, int64_t posted)
{
    const budget_account found = fixture_balance(fixture, account);
    assert_int_equal(found.reserved_usd_micro, reserved);
    assert_int_equal(found.posted_usd_micro, posted);
}

int fixture_setup_phase(void **state)
{
    static ledger_fixture fixture;
    fixture_make(&fixture);
    assert_granted(fixture_account(&fixture, "phase", 5 * USD));
    assert_granted(fixture_account(&fixture, "phase/lab", 3 * USD));
    *state = &fixture;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_remove(*state);
    return 0;
}
