/* 64 clients race for the last dollar: granted is exactly floor(remaining / amount), on every
 * account of the chain, whatever order they come in. Rounds are seeded: --rounds N (default 24). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "budget/wire.h"
#include "random.h"
#include "service_raw.h"

enum { CLIENTS = 64, ROUNDS_DEFAULT = 24, SOCKETS_MAX = 4 * CLIENTS };

static int rounds = ROUNDS_DEFAULT;

typedef struct race {
    service_fixture service;
    void *context;
    proto_arena arena;
    void *sockets[CLIENTS];
    budget_client *admin;
} race_test;

static int setup(void **state)
{
    base_error error;
    race_test *made = calloc(1, sizeof *made);
    fixture_make(&made->service);
    fixture_start(&made->service);
    made->context = zmq_ctx_new();
    (void)zmq_ctx_set(made->context, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
    assert_ok(proto_arena_init(&made->arena, BUDGET_ARENA_BYTES, &error), &error);
    made->admin = fixture_client(&made->service, "admin", 0);
    for (int i = 0; i < CLIENTS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "racer-%d", i);
        fixture_add_client(&made->service, name, "request");
        made->sockets[i] = raw_socket(&made->service, made->context, name);
        assert_int_equal(zmq_connect(made->sockets[i], made->service.endpoint), 0);
    }
    *state = made;
    return 0;
}

static int teardown(void **state)
{
    race_test *made = *state;
    for (int i = 0; i < CLIENTS; i++) {
        (void)zmq_close(made->sockets[i]);
    }
    (void)zmq_ctx_term(made->context);
    proto_arena_fini(&made->arena);
    budget_client_close(made->admin);
    fixture_remove(&made->service);
    free(made);
    return 0;
}

static void send_ask(void *socket, const budget_claims *ask)
{
    uint8_t data[4096];
    const int timeout_ms = 20000;
    Ringfence__Budget__Request request = RINGFENCE__BUDGET__REQUEST__INIT;
    Ringfence__Budget__Authorize body;
    budget_shape_write(&budget_ask_shape, ask, &body.base);
    request.body_case = RINGFENCE__BUDGET__REQUEST__BODY_AUTHORIZE;
    request.authorize = &body;
    const size_t data_bytes = raw_pack(&request, data, sizeof data);
    (void)zmq_setsockopt(socket, ZMQ_SNDTIMEO, &timeout_ms, sizeof timeout_ms);
    assert_true(zmq_send(socket, data, data_bytes, 0) >= 0);
}

/* Accounts of this round: three levels, each with caps of its own. */
static void make_accounts(race_test *race, int round, const int64_t caps[3], char names[3][64])
{
    base_error why;
    (void)snprintf(names[0], 64, "r%d", round);
    (void)snprintf(names[1], 64, "r%d/lab", round);
    (void)snprintf(names[2], 64, "r%d/lab/run", round);
    for (int i = 0; i < 3; i++) {
        assert_verdict(budget_account_create(race->admin, names[i], caps[i], &why), BUDGET_GRANTED,
                       &why);
    }
}

static void run_round(race_test *race, int round)
{
    uint64_t random = (uint64_t)round;
    char names[3][64];
    int64_t caps[3];
    base_error why;
    const int64_t amount = 1 + (int64_t)(test_random(&random) % 100000);
    int64_t least = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        caps[i] = (int64_t)(test_random(&random) % (uint64_t)(amount * (CLIENTS + 16)));
        least = caps[i] < least ? caps[i] : least;
    }
    make_accounts(race, round, caps, names);
    const unsigned first = (unsigned)test_random(&random);
    for (unsigned i = 0; i < CLIENTS; i++) {
        char label[64];
        (void)snprintf(label, sizeof label, "round-%d-%u", round, i);
        const budget_claims ask = fixture_ask(names[2], label, amount);
        send_ask(race->sockets[(first + i) % CLIENTS], &ask);
    }
    int64_t granted = 0;
    for (int i = 0; i < CLIENTS; i++) {
        const Ringfence__Budget__Verdict verdict = raw_verdict(race->sockets[i], &race->arena);
        assert_true(verdict == RINGFENCE__BUDGET__VERDICT__VERDICT_DONE ||
                    verdict == RINGFENCE__BUDGET__VERDICT__VERDICT_EXCEEDED);
        granted += verdict == RINGFENCE__BUDGET__VERDICT__VERDICT_DONE ? 1 : 0;
    }
    const int64_t expected = least / amount < CLIENTS ? least / amount : CLIENTS;
    if (granted != expected) {
        fail_msg("round %d: %" PRId64 " granted, %" PRId64 " expected", round, granted, expected);
    }
    budget_chain chain;
    assert_verdict(budget_remaining(race->admin, names[2], &chain, &why), BUDGET_GRANTED, &why);
    assert_int_equal(chain.count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(chain.accounts[i].reserved_usd_micro, expected * amount);
        assert_int_equal(chain.accounts[i].remaining_usd_micro, caps[i] - expected * amount);
    }
}

static void test_race(void **state)
{
    for (int round = 1; round <= rounds; round++) {
        run_round(*state, round);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_race)};
    if (argc == 3 && strcmp(argv[1], "--rounds") == 0) {
        rounds = (int)strtol(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
