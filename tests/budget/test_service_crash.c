/* kill -9 at every failpoint, and at random under load: nothing that was granted is lost, nothing
 * is granted twice, and a retry gets the same bytes. --rounds N random kills (default 12). */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "ledger/failpoint.h"
#include "service_fixture.h"

enum {
    ROUNDS_DEFAULT = 12,
    ASKS = 6,          /* per failpoint */
    OCCASIONS = 3,     /* the 1st, 2nd, 3rd time that it is reached */
    LOADERS = 4,       /* clients under load */
    LOADER_ASKS = 400, /* at most, each */
    SHORT_MS = 300,    /* an answer that will never come is waited for so long */
};

static int rounds = ROUNDS_DEFAULT;
static const char *const failpoints[] = {BUDGET_FAILPOINT_NAMES};

#define AMOUNT USD(0.01)

/* One question, its id, and what was answered to it (verdict BUDGET_UNKNOWN: nothing yet). */
typedef struct ask_record {
    char request_id[BUDGET_REQUEST_ID_BYTES];
    char label[BUDGET_LABEL_BYTES];
    budget_verdict verdict;
    budget_grant grant;
} ask_record;

static void name_record(ask_record *record, const char *prefix, int number)
{
    (void)snprintf(record->request_id, sizeof record->request_id, "%s-%d", prefix, number);
    (void)snprintf(record->label, sizeof record->label, "%s-label-%d", prefix, number);
    record->verdict = BUDGET_UNKNOWN;
}

/* Asks it, or asks it again; a grant that had been heard of must come back byte for byte. */
static void ask_record_once(budget_client *client, ask_record *record)
{
    base_error why;
    budget_grant grant = {0};
    const budget_claims ask = fixture_ask("phase35/lab02", record->label, AMOUNT);
    assert_ok(budget_client_set_request_id(client, record->request_id, &why), &why);
    const budget_verdict verdict = budget_authorize(client, &ask, &grant, &why);
    if (record->verdict == BUDGET_GRANTED && verdict == BUDGET_GRANTED) {
        assert_memory_equal(&grant, &record->grant, sizeof grant);
    }
    if (verdict == BUDGET_GRANTED) {
        record->verdict = verdict;
        record->grant = grant;
    } else if (verdict != BUDGET_UNKNOWN && verdict != BUDGET_FAILED) {
        fail_msg("%s: %s: %s", record->label, budget_verdict_name(verdict), why.message);
    }
}

/* After a restart: every question is asked again and granted,
 * and the accounts hold exactly those. */
static void settle(const service_fixture *fixture, const char *client_name, ask_record *records,
                   int count)
{
    budget_client *client = fixture_client(fixture, client_name, 0);
    for (int i = 0; i < count; i++) {
        ask_record_once(client, &records[i]);
        assert_int_equal(records[i].verdict, BUDGET_GRANTED);
    }
    budget_client_close(client);
}

static void assert_reserved(const service_fixture *fixture, int64_t expected)
{
    base_error why;
    budget_chain chain;
    budget_client *client = fixture_client(fixture, "request", 0);
    assert_verdict(budget_remaining(client, "phase35/lab02", &chain, &why), BUDGET_GRANTED, &why);
    for (int i = 0; i < chain.count; i++) {
        if (chain.accounts[i].reserved_usd_micro != expected) {
            fail_msg("%s: %" PRId64 " reserved, %" PRId64 " expected", chain.accounts[i].name,
                     chain.accounts[i].reserved_usd_micro, expected);
        }
    }
    budget_client_close(client);
}

static void make_accounts(service_fixture *fixture)
{
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(1000));
    fixture_account(fixture, "phase35/lab02", USD(1000));
}

static void crash_at(service_fixture *fixture, const char *failpoint, int occasion, int64_t *total)
{
    char setting[128];
    char prefix[96];
    ask_record records[ASKS];
    (void)snprintf(setting, sizeof setting, "BUDGET_FAILPOINT=%s:%d", failpoint, occasion);
    (void)snprintf(prefix, sizeof prefix, "%s-%d", failpoint, occasion);
    const bool started = fixture_start_with(fixture, setting, NULL);
    budget_client *client = fixture_client(fixture, "request", SHORT_MS);
    for (int i = 0; i < ASKS; i++) {
        name_record(&records[i], prefix, i);
        if (started) {
            ask_record_once(client, &records[i]);
        }
    }
    budget_client_close(client);
    if (started) {
        const int status = fixture_wait(fixture);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
            fail_msg("failpoint %s was never reached", failpoint);
        }
    }
    fixture_start(fixture);
    settle(fixture, "request", records, ASKS);
    *total += ASKS * AMOUNT;
    assert_reserved(fixture, *total);
    assert_int_equal(fixture_stop(fixture), 0);
}

static void test_every_failpoint(void **state)
{
    service_fixture fixture;
    int64_t total = 0;
    (void)state;
    fixture_make(&fixture);
    make_accounts(&fixture);
    assert_int_equal(fixture_stop(&fixture), 0);
    for (size_t i = 0; i < sizeof failpoints / sizeof failpoints[0]; i++) {
        for (int occasion = 1; occasion <= OCCASIONS; occasion++) {
            crash_at(&fixture, failpoints[i], occasion, &total);
        }
    }
    fixture_remove(&fixture);
}

typedef struct loader {
    pthread_t thread;
    const service_fixture *fixture;
    char name[32];
    ask_record *records; /* (LOADER_ASKS) */
    int count;
    _Atomic int *answers; /* of all loaders */
} loader;

/* Asks until the service is gone. */
static void *load(void *user)
{
    loader *mine = user;
    budget_client *client = fixture_client(mine->fixture, mine->name, SHORT_MS);
    for (mine->count = 0; mine->count < LOADER_ASKS; mine->count++) {
        ask_record *record = &mine->records[mine->count];
        ask_record_once(client, record);
        if (record->verdict != BUDGET_GRANTED) {
            mine->count++;
            break;
        }
        *mine->answers += 1;
    }
    budget_client_close(client);
    return NULL;
}

/* The service is killed while it serves: at its Nth commit, sign or reply, by a seed. */
static void random_kill(service_fixture *fixture, int round, loader *loaders, int64_t *total)
{
    char setting[128];
    _Atomic int answers = 0;
    const unsigned seed = (unsigned)round * 2654435761u;
    const char *failpoint = failpoints[(seed >> 8) % (sizeof failpoints / sizeof failpoints[0])];
    (void)snprintf(setting, sizeof setting, "BUDGET_FAILPOINT=%s:%u", failpoint,
                   1 + (seed >> 16) % 60);
    if (!fixture_start_with(fixture, setting, NULL)) {
        return; /* it was reached while starting */
    }
    for (int i = 0; i < LOADERS; i++) {
        loader *one = &loaders[i];
        char prefix[64];
        (void)snprintf(prefix, sizeof prefix, "round%d-%d", round, i);
        for (int ask = 0; ask < LOADER_ASKS; ask++) {
            name_record(&one->records[ask], prefix, ask);
        }
        one->fixture = fixture;
        one->answers = &answers;
        assert_int_equal(pthread_create(&one->thread, NULL, load, one), 0);
    }
    for (int i = 0; i < LOADERS; i++) {
        (void)pthread_join(loaders[i].thread, NULL);
    }
    (void)kill(fixture->pid, SIGKILL);
    (void)fixture_wait(fixture);
    fixture_start(fixture);
    for (int i = 0; i < LOADERS; i++) {
        settle(fixture, loaders[i].name, loaders[i].records, loaders[i].count);
        *total += loaders[i].count * AMOUNT;
    }
    assert_reserved(fixture, *total);
    assert_int_equal(fixture_stop(fixture), 0);
}

static void test_random_kills(void **state)
{
    service_fixture fixture;
    loader loaders[LOADERS];
    int64_t total = 0;
    (void)state;
    fixture_make(&fixture);
    make_accounts(&fixture);
    for (int i = 0; i < LOADERS; i++) {
        loaders[i] = (loader){.records = calloc(LOADER_ASKS, sizeof(ask_record))};
        (void)snprintf(loaders[i].name, sizeof loaders[i].name, "loader-%d", i);
        fixture_add_client(&fixture, loaders[i].name, "request");
    }
    assert_int_equal(fixture_stop(&fixture), 0);
    for (int round = 1; round <= rounds; round++) {
        random_kill(&fixture, round, loaders, &total);
    }
    for (int i = 0; i < LOADERS; i++) {
        free(loaders[i].records);
    }
    fixture_remove(&fixture);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_failpoint),
        cmocka_unit_test(test_random_kills),
    };
    if (argc == 3 && strcmp(argv[1], "--rounds") == 0) {
        rounds = (int)strtol(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
