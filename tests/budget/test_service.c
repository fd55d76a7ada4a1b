/* The service as a process, asked by clients: what is granted, refused, retried. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/secret_file.h"
#include "budget/token.h"
#include "proto/key.h"
#include "service_fixture.h"

static int setup(void **state)
{
    (void)fixture_setup(state);
    service_fixture *fixture = *state;
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(5));
    fixture_account(fixture, "phase35/lab02", USD(3));
    return 0;
}

static void test_authorize(void **state)
{
    const service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    budget_claims claims;
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims ask = fixture_ask("phase35/lab02", "run-1", USD(2));
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    assert_int_equal(grant.remaining_before_usd_micro, USD(3));
    assert_int_equal(grant.remaining_after_usd_micro, USD(1));
    assert_string_equal(grant.account, "phase35/lab02");
    assert_int_equal(budget_token_verify(grant.token, strlen(grant.token), &fixture->keyring,
                                         BUDGET_ANY_TIME, &claims, &why),
                     BUDGET_TOKEN_OK);
    assert_string_equal(claims.label, "run-1");
    assert_string_equal(claims.jti, grant.jti);
    assert_int_equal(claims.max_usd_micro, USD(2));

    const budget_claims more = fixture_ask("phase35/lab02", "run-2", USD(2));
    assert_verdict(budget_authorize(client, &more, &grant, &why), BUDGET_EXCEEDED, &why);
    const budget_refusal *refusal = budget_client_refusal(client);
    assert_string_equal(refusal->account, "phase35/lab02");
    assert_int_equal(refusal->left_usd_micro, USD(1));
    assert_int_equal(refusal->asked_usd_micro, USD(2));
    assert_string_equal(refusal->code, "BUDGET_EXCEEDED");

    const budget_claims again = fixture_ask("phase35", "run-1", USD(1));
    assert_verdict(budget_authorize(client, &again, &grant, &why), BUDGET_REFUSED, &why);
    assert_string_equal(budget_client_refusal(client)->code, "LABEL_USED");

    budget_chain chain;
    assert_verdict(budget_remaining(client, "phase35/lab02", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.count, 2);
    assert_string_equal(chain.accounts[0].name, "phase35");
    assert_int_equal(chain.accounts[0].remaining_usd_micro, USD(3));
    assert_int_equal(chain.accounts[1].remaining_usd_micro, USD(1));
    assert_int_equal(chain.binding, 1);
    budget_client_close(client);
}

static void test_retry_is_identical(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_grant first;
    budget_grant second;
    budget_client *client = fixture_client(fixture, "request", 0);
    budget_claims ask = fixture_ask("phase35", "run-1", USD(1));
    assert_ok(budget_client_set_request_id(client, "retry-1", &why), &why);
    assert_verdict(budget_authorize(client, &ask, &first, &why), BUDGET_GRANTED, &why);
    assert_int_equal(fixture_stop(fixture), 0);
    fixture_start(fixture);
    assert_ok(budget_client_set_request_id(client, "retry-1", &why), &why);
    assert_verdict(budget_authorize(client, &ask, &second, &why), BUDGET_GRANTED, &why);
    assert_memory_equal(&first, &second, sizeof first);

    ask.max_usd_micro = USD(2);
    assert_ok(budget_client_set_request_id(client, "retry-1", &why), &why);
    assert_verdict(budget_authorize(client, &ask, &second, &why), BUDGET_REFUSED, &why);
    assert_string_equal(budget_client_refusal(client)->code, "REQUEST_REUSED");

    /* a refused id stays refused, though the money is there now */
    ask = fixture_ask("phase35", "run-2", USD(5));
    assert_ok(budget_client_set_request_id(client, "retry-2", &why), &why);
    assert_verdict(budget_authorize(client, &ask, &second, &why), BUDGET_EXCEEDED, &why);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_account_set_cap(admin, "phase35", USD(50), &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    assert_ok(budget_client_set_request_id(client, "retry-2", &why), &why);
    assert_verdict(budget_authorize(client, &ask, &second, &why), BUDGET_EXCEEDED, &why);
    assert_verdict(budget_authorize(client, &ask, &second, &why), BUDGET_GRANTED, &why);
    budget_client_close(client);
}

/* One for each of four ranks, of the first attempt. */
static void check_receipts(const service_fixture *fixture, const budget_redemption *redemption,
                           const proto_keypair *job)
{
    base_error why;
    for (int rank = 0; rank < 4; rank++) {
        budget_receipt receipt;
        const char *text = redemption->receipts[rank];
        assert_int_equal(budget_receipt_verify(text, strlen(text), &fixture->keyring,
                                               BUDGET_ANY_TIME, &receipt, &why),
                         BUDGET_TOKEN_OK);
        assert_int_equal(receipt.rank, rank);
        assert_int_equal(receipt.attempt, 1);
        assert_int_equal(receipt.not_after, redemption->not_after);
        assert_memory_equal(receipt.job_public_key, job->public_key, sizeof job->public_key);
    }
}

static void test_redeem(void **state)
{
    const service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    proto_keypair job;
    proto_keypair thief;
    const budget_redeem_options mine = fixture_redeemer(fixture, &job);
    const budget_redeem_options his = fixture_redeemer(fixture, &thief);
    static budget_redemption redemption;
    static budget_redemption again;
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims ask = fixture_ask("phase35", "run-1", USD(1));
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);

    assert_verdict(budget_redeem(&mine, "v4.public.nonsense", &(budget_redeem_ranks){0, 1, 1},
                                 &redemption, &why),
                   BUDGET_BAD_TOKEN, &why);
    assert_verdict(
        budget_redeem(&mine, grant.token, &(budget_redeem_ranks){0, 5, 1}, &redemption, &why),
        BUDGET_BAD_TOKEN, &why); /* five ranks of four */
    assert_verdict(
        budget_redeem(&mine, grant.token, &(budget_redeem_ranks){0, 4, 1}, &redemption, &why),
        BUDGET_GRANTED, &why);
    assert_verdict(budget_redeem(&mine, grant.token, &(budget_redeem_ranks){0, 4, 1}, &again, &why),
                   BUDGET_GRANTED, &why);
    assert_memory_equal(redemption.receipts, again.receipts, sizeof again.receipts);
    assert_in_range(redemption.seconds_left, 3600 - 60, 3600); /* of the hour that was asked */
    check_receipts(fixture, &redemption, &job);
    assert_verdict(budget_redeem(&his, grant.token, &(budget_redeem_ranks){0, 4, 1}, &again, &why),
                   BUDGET_BAD_TOKEN, &why);
    assert_verdict(budget_redeem(&his, grant.token, &(budget_redeem_ranks){0, 4, 2}, &again, &why),
                   BUDGET_BAD_TOKEN, &why);
    assert_verdict(budget_redeem(&mine, grant.token, &(budget_redeem_ranks){0, 4, 3}, &again, &why),
                   BUDGET_BAD_TOKEN, &why); /* not the last + 1 */
    assert_verdict(budget_redeem(&mine, grant.token, &(budget_redeem_ranks){0, 4, 2}, &again, &why),
                   BUDGET_GRANTED, &why);
    assert_verdict(budget_redeem(&mine, grant.token, &(budget_redeem_ranks){0, 4, 1}, &again, &why),
                   BUDGET_BAD_TOKEN, &why); /* fenced */
    assert_verdict(budget_void(client, "run-1", &why), BUDGET_REFUSED, &why);

    char forged[BUDGET_TOKEN_BYTES];
    budget_claims claims;
    uint8_t secret[BUDGET_SECRET_KEY_BYTES];
    size_t secret_bytes = 0;
    budget_permit permit = {0};
    assert_ok(budget_secret_file_read(test_directory_path(&fixture->directory, "test.key"), secret,
                                      sizeof secret, &secret_bytes, &why),
              &why);
    assert_int_equal(budget_token_verify(grant.token, strlen(grant.token), &fixture->keyring,
                                         BUDGET_ANY_TIME, &claims, &why),
                     BUDGET_TOKEN_OK);
    claims.instances = 8; /* signed with the service's own key, and never granted */
    assert_ok(budget_token_sign(&claims, secret, forged, &why), &why);
    assert_verdict(budget_redeem_create(&mine, forged, &permit, &why), BUDGET_BAD_TOKEN, &why);
    assert_non_null(strstr(why.message, "does not say what the ledger granted"));
    assert_verdict(budget_redeem_create(&mine, grant.token, &permit, &why), BUDGET_GRANTED, &why);
    assert_int_equal(permit.not_after, redemption.not_after);
    assert_in_range(permit.seconds_left, 3600 - 60, 3600);
    assert_verdict(budget_redeem_create(&mine, grant.token, &permit, &why), BUDGET_REFUSED, &why);
    budget_client_close(client);
}

static void find_state(void *user, const budget_entry *entry)
{
    (void)snprintf(user, BUDGET_STATE_BYTES, "%s", entry->state);
}

/* Ranks beyond the job's are refused before any rank of the question is redeemed. */
static void test_refused_redeem_changes_nothing(void **state)
{
    const service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    proto_keypair job;
    char found[BUDGET_STATE_BYTES] = "";
    static budget_redemption redemption;
    const budget_redeem_ranks beyond[] = {
        {0, 5, 1}, {0, 64, 1}, {3, 2, 1}, {4, 1, 1}, {1024, 64, 1}};
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims ask = fixture_ask("phase35", "run-1", USD(1)); /* 4 ranks */
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        const budget_redeem_options another = fixture_redeemer(fixture, &job);
        assert_verdict(budget_redeem(&another, grant.token, &beyond[i], &redemption, &why),
                       BUDGET_BAD_TOKEN, &why);
        assert_non_null(strstr(why.message, "run-1 is for ranks 0 to 3, not "));
    }
    assert_verdict(budget_list(client, NULL, find_state, found, &why), BUDGET_GRANTED, &why);
    assert_string_equal(found, "reserved");
    assert_verdict(budget_void(client, "run-1", &why), BUDGET_GRANTED, &why);
    budget_client_close(client);
}

static void test_life_of_an_authorization(void **state)
{
    const service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    proto_keypair job;
    static budget_redemption redemption;
    const budget_redeem_options mine = fixture_redeemer(fixture, &job);
    budget_client *client = fixture_client(fixture, "request", 0);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const budget_claims ask = fixture_ask("phase35/lab02", "run-1", USD(2));
    const budget_claims other = fixture_ask("phase35/lab02", "run-2", USD(1));
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    assert_verdict(
        budget_redeem(&mine, grant.token, &(budget_redeem_ranks){0, 1, 1}, &redemption, &why),
        BUDGET_GRANTED, &why);
    assert_verdict(budget_attach(client, "run-1", "i-1", NULL, NULL, &why), BUDGET_GRANTED, &why);
    const budget_actual actual = {.label = "run-1", .usd_micro = USD(0.5), .line_id = "line-1"};
    assert_verdict(budget_record_actual(admin, &actual, &why), BUDGET_GRANTED, &why);
    budget_chain chain;
    assert_verdict(budget_remaining(client, "phase35/lab02", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[1].remaining_usd_micro, USD(1)); /* nothing came back yet */
    assert_verdict(budget_terminated(client, "run-1", "gone", 4, false, &why), BUDGET_REFUSED,
                   &why);
    assert_verdict(budget_terminated(admin, "run-1", "gone", 4, false, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_remaining(client, "phase35/lab02", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[1].remaining_usd_micro, USD(1)); /* more of it may come */
    const budget_actual part = {.label = "run-1", .usd_micro = 0, .partial = true};
    assert_verdict(budget_record_actual(admin, &part, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_remaining(client, "phase35/lab02", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[1].remaining_usd_micro, USD(1));
    const budget_actual all = {.label = "run-1", .usd_micro = 0};
    assert_verdict(budget_record_actual(admin, &all, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_remaining(client, "phase35/lab02", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[1].remaining_usd_micro, USD(2.5));
    int64_t spent = 0;
    assert_verdict(budget_total_spent(client, NULL, &spent, &why), BUDGET_GRANTED, &why);
    assert_int_equal(spent, USD(0.5));
    assert_verdict(budget_authorize(client, &other, &grant, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_void(client, "run-2", &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_remaining(client, "phase35/lab02", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[1].remaining_usd_micro, USD(2.5));
    budget_client_close(admin);
    budget_client_close(client);
}

static void count_entry(void *user, const budget_entry *entry)
{
    assert_string_equal(entry->mode, "ddp-nccl");
    assert_string_equal(entry->client, "request");
    *(int *)user += 1;
}

static void count_account(void *user, const budget_account *account)
{
    (void)account;
    *(int *)user += 1;
}

static void test_lists(void **state)
{
    enum { RUNS = 300 };
    const service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    int entries = 0;
    int accounts = 0;
    budget_report report;
    budget_client *client = fixture_client(fixture, "request", 0);
    for (int i = 0; i < RUNS; i++) {
        char label[32];
        (void)snprintf(label, sizeof label, "run-%d", i);
        const budget_claims ask = fixture_ask("phase35", label, 1000);
        assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    }
    assert_verdict(budget_list(client, NULL, count_entry, &entries, &why), BUDGET_GRANTED, &why);
    assert_int_equal(entries, RUNS);
    entries = 0;
    assert_verdict(budget_list(client, &(budget_selection){.account = "phase35/lab02"}, count_entry,
                               &entries, &why),
                   BUDGET_GRANTED, &why);
    assert_int_equal(entries, 0);
    assert_verdict(budget_list(client, &(budget_selection){.account = "phase35/lab20"}, count_entry,
                               &entries, &why),
                   BUDGET_REFUSED, &why);
    assert_non_null(strstr(why.message, "there is no account phase35/lab20"));
    assert_verdict(budget_account_list(client, count_account, &accounts, &why), BUDGET_GRANTED,
                   &why);
    assert_int_equal(accounts, 2);
    const budget_status_sinks sinks = {.account = count_account, .user = &accounts};
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_int_equal(accounts, 4);
    assert_int_equal(report.accounts_total, 2);
    assert_int_equal(report.alarms_total, 0);
    budget_client_close(client);
}

static void check_least_left(void *user, const budget_account *account)
{
    const bool wide = strcmp(account->name, "phase35/wide") == 0;
    const bool lab = strcmp(account->name, "phase35/lab02") == 0;
    assert_int_equal(account->cap_usd_micro, wide ? USD(9) : (lab ? USD(3) : USD(5)));
    assert_int_equal(account->reserved_usd_micro, lab ? 0 : USD(1));
    assert_int_equal(account->remaining_usd_micro, lab ? USD(3) : USD(4));
    *(int *)user += 1;
}

/* A parent's cap binds: lists say what would be granted, as remaining does. */
static void test_lists_say_the_least_left(void **state)
{
    const service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    budget_report report;
    int accounts = 0;
    fixture_account(fixture, "phase35/wide", USD(9));
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims ask = fixture_ask("phase35/wide", "run-1", USD(1));
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_account_list(client, check_least_left, &accounts, &why), BUDGET_GRANTED,
                   &why);
    const budget_status_sinks sinks = {.account = check_least_left, .user = &accounts};
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_int_equal(accounts, 6);
    budget_client_close(client);
}

/* The ledger is put back to an older copy: the client that knows more refuses the service. */
static void test_service_behind_client(void **state)
{
    service_fixture *fixture = *state;
    char command[3 * BASE_PATH_BYTES];
    base_error why;
    budget_grant grant;
    assert_int_equal(fixture_stop(fixture), 0);
    (void)snprintf(command, sizeof command,
                   "mkdir %s/old && cd %s && cp ledger.db* checkpoints* old/", fixture->dir,
                   fixture->dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
    fixture_start(fixture);
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims ask = fixture_ask("phase35", "run-1", USD(1));
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    assert_int_equal(fixture_stop(fixture), 0);
    (void)snprintf(command, sizeof command, "cd %s && rm ledger.db* && cp old/* .", fixture->dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
    fixture_start(fixture);
    const budget_claims other = fixture_ask("phase35", "run-2", USD(1));
    assert_verdict(budget_authorize(client, &other, &grant, &why), BUDGET_BEHIND, &why);
    budget_report report;
    const budget_status_sinks sinks = {0};
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_BEHIND, &why);
    assert_non_null(
        strstr(why.message, "checkpoints that you keep; to go on with this ledger, remove "));
    assert_non_null(strstr(why.message, "request.key.seen"));
    budget_client_close(client);
}

static void test_no_service(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_report report;
    const budget_status_sinks sinks = {0};
    budget_client *client = fixture_client(fixture, "request", 0);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_int_equal(fixture_stop(fixture), 0);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_FAILED, &why);
    assert_non_null(strstr(why.message, "budget-service serve"));
    budget_client_close(client);
}

/* Asked, and never answered, since the service is stopped: nobody knows. */
static void test_unknown(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    budget_report report;
    char request_id[BUDGET_REQUEST_ID_BYTES];
    const budget_status_sinks sinks = {0};
    budget_client *client = fixture_client(fixture, "request", 500);
    const budget_claims ask = fixture_ask("phase35", "run-1", USD(1));
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_int_equal(kill(fixture->pid, SIGSTOP), 0);
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_UNKNOWN, &why);
    (void)snprintf(request_id, sizeof request_id, "%s", budget_client_request_id(client));
    assert_int_equal(kill(fixture->pid, SIGCONT), 0);
    budget_client_close(client);
    client = fixture_client(fixture, "request", 0);
    assert_ok(budget_client_set_request_id(client, request_id, &why), &why);
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    assert_string_equal(grant.label, "run-1");
    budget_client_close(client);
}

static void test_second_service_is_refused(void **state)
{
    service_fixture *fixture = *state;
    service_fixture second = *fixture;
    second.pid = 0;
    assert_false(fixture_start_with(&second, NULL, NULL));
    base_error why;
    budget_report report;
    const budget_status_sinks sinks = {0};
    budget_client *client = fixture_client(fixture, "request", 0);
    assert_verdict(budget_status(client, &sinks, &report, &why), BUDGET_GRANTED, &why);
    budget_client_close(client);
}

/* Nobody would accept what a revoked key signs, so nothing is reserved for it. */
static void test_key_revoked_while_it_runs(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    budget_chain chain;
    budget_keyring *keyring = &fixture->keyring;
    const char *path = test_directory_path(&fixture->directory, "keyring.json");
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims ask = fixture_ask("phase35", "run-1", USD(1));
    keyring->keys[0].revoked_at = 2;
    assert_ok(budget_keyring_write(path, keyring, &why), &why);
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_REFUSED, &why);
    assert_non_null(strstr(why.message, "is revoked: stop the service"));
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_REFUSED, &why);
    assert_verdict(budget_remaining(client, "phase35", &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.accounts[0].reserved_usd_micro, 0);
    keyring->keys[0].revoked_at = 0;
    assert_ok(budget_keyring_write(path, keyring, &why), &why);
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    budget_client_close(client);
}

static void test_tcp(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    budget_grant grant;
    assert_int_equal(fixture_stop(fixture), 0);
    assert_true(fixture_start_with(fixture, NULL, "tcp://127.0.0.1:*"));
    budget_client *client = fixture_client(fixture, "request", 0);
    const budget_claims ask = fixture_ask("phase35", "run-1", USD(1));
    assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    budget_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_authorize, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_retry_is_identical, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_redeem, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_redeem_changes_nothing, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_life_of_an_authorization, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lists, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_lists_say_the_least_left, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_service_behind_client, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_no_service, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unknown, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_second_service_is_refused, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_key_revoked_while_it_runs, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_tcp, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
