/* Every message × every role, the redeem endpoint, and a client that is revoked while connected. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "budget/ledger.h"
#include "service_raw.h"

enum { MESSAGE_BYTES_MAX = 512, ROTATIONS = 300 };

typedef struct rights {
    const char *message;
    const char *roles; /* of those who may: q request, r reconcile, a admin */
} rights;

/* Who may ask what, written down a second time: docs/WIRE.md says the same. */
static const rights table[] = {
    {"authorize", "qa"},
    {"remaining", "qra"},
    {"total_spent", "qra"},
    {"status", "qra"},
    {"list", "qra"},
    {"attach", "qa"},
    {"terminated", "qa"},
    {"void", "qa"},
    {"account_list", "qra"},
    {"record_actual", "ra"},
    {"reconcile", "ra"},
    {"export", "ra"},
    {"audit", "ra"},
    {"account_create", "a"},
    {"account_set_cap", "a"},
    {"client_add", "a"},
    {"account_acknowledge", "a"},
    {"client_revoke", "a"},
    {"client_list", "a"},
    {"clock_repair", "a"},
    {"redeem", ""},
};

static int setup(void **state)
{
    (void)fixture_setup(state);
    service_fixture *fixture = *state;
    fixture_start(fixture);
    return 0;
}

static const char *roles_of(const char *message)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].message, message) == 0) {
            return table[i].roles;
        }
    }
    fail_msg("message %s is missing in the test's table", message);
    return NULL;
}

/* Asks the message of a field of Request, with nothing in it. */
static Ringfence__Budget__Verdict ask_empty(budget_link *link,
                                            const ProtobufCFieldDescriptor *field)
{
    union {
        ProtobufCMessage base;
        uint8_t bytes[MESSAGE_BYTES_MAX];
    } body;
    const ProtobufCMessageDescriptor *descriptor = field->descriptor;
    Ringfence__Budget__Request request = RINGFENCE__BUDGET__REQUEST__INIT;
    Ringfence__Budget__Response *response = NULL;
    assert_true(descriptor->sizeof_message <= sizeof body);
    descriptor->message_init(&body.base);
    request.body_case = (Ringfence__Budget__Request__BodyCase)field->id;
    request.authorize = (void *)&body.base;
    raw_ask(link, &request, &response);
    return response->verdict;
}

static void test_roles_and_messages(void **state)
{
    const service_fixture *fixture = *state;
    static const char *const clients[] = {"request", "billing", "admin", NULL};
    static const char letters[] = {'q', 'r', 'a', '-'};
    const ProtobufCMessageDescriptor *descriptor = &ringfence__budget__request__descriptor;
    fixture_add_client(fixture, "billing", "reconcile");
    for (int role = 0; role < 4; role++) {
        budget_link link;
        raw_open(fixture, clients[role], &link);
        for (unsigned i = 0; i < descriptor->n_fields; i++) {
            const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
            if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0) {
                continue;
            }
            const bool allowed = clients[role] != NULL
                                     ? strchr(roles_of(field->name), letters[role]) != NULL
                                     : strcmp(field->name, "redeem") == 0;
            const Ringfence__Budget__Verdict got = ask_empty(&link, field);
            const bool forbidden = got == RINGFENCE__BUDGET__VERDICT__VERDICT_FORBIDDEN;
            if (forbidden == allowed) {
                fail_msg("%s by %s: verdict %d", field->name,
                         clients[role] != NULL ? clients[role] : "a redeemer", (int)got);
            }
        }
        budget_link_close(&link);
    }
}

/* Roles are about messages; whose label it is counts as well. */
static void test_a_label_is_its_clients(void **state)
{
    const service_fixture *fixture = *state;
    static budget_grant grant;
    base_error why;
    static const char evidence[] = "seen";
    fixture_account(fixture, "phase", USD(10));
    fixture_add_client(fixture, "other", "request");
    budget_client *owner = fixture_client(fixture, "request", 0);
    budget_client *other = fixture_client(fixture, "other", 0);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    const char *const labels[] = {"mine", "mine-too", "mine-as-well"};
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        const budget_claims ask = fixture_ask("phase", labels[i], USD(1));
        assert_verdict(budget_authorize(owner, &ask, &grant, &why), BUDGET_GRANTED, &why);
    }
    assert_verdict(budget_void(other, "mine", &why), BUDGET_REFUSED, &why);
    assert_string_equal(budget_client_refusal(other)->code, "FORBIDDEN");
    assert_non_null(strstr(why.message, "another client's"));
    assert_verdict(budget_attach(other, "mine", "pod-1", NULL, NULL, &why), BUDGET_REFUSED, &why);
    assert_verdict(budget_terminated(other, "mine", evidence, sizeof evidence, false, &why),
                   BUDGET_REFUSED, &why);
    assert_string_equal(budget_client_refusal(other)->code, "FORBIDDEN");
    assert_verdict(budget_attach(owner, "mine", "pod-1", NULL, NULL, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_void(owner, "mine-too", &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_void(admin, "mine-as-well", &why), BUDGET_GRANTED, &why);
    budget_client_close(owner);
    budget_client_close(other);
    budget_client_close(admin);
}

static void test_revoked_on_an_open_connection(void **state)
{
    const service_fixture *fixture = *state;
    base_error why;
    budget_report report;
    const budget_status_sinks sinks = {0};
    fixture_add_client(fixture, "leaver", "request");
    budget_client *leaver = fixture_client(fixture, "leaver", 0);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_status(leaver, &sinks, &report, &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_client_revoke(admin, "leaver", &why), BUDGET_GRANTED, &why);
    assert_verdict(budget_status(leaver, &sinks, &report, &why), BUDGET_REFUSED, &why);
    assert_string_equal(budget_client_refusal(leaver)->code, "FORBIDDEN");
    budget_client_close(leaver);
    leaver = fixture_client(fixture, "leaver", 0);
    assert_verdict(budget_status(leaver, &sinks, &report, &why), BUDGET_FAILED, &why);
    assert_int_equal(why.status, BASE_ERR_AUTH);
    budget_client_close(leaver);
    budget_client_close(admin);
    assert_alive(fixture);
}

/* Of a revoked client's tokens, those that nobody has redeemed start nothing. A run that goes on starts
 * again. Another client of that name changes nothing. */
static void test_tokens_of_a_revoked_client(void **state)
{
    const service_fixture *fixture = *state;
    static const char *const labels[] = {"begun", "unused"};
    static budget_redemption redemption;
    char key[BASE_PATH_BYTES];
    base_error why;
    budget_grant grants[2];
    proto_keypair job;
    const budget_redeem_options mine = fixture_redeemer(fixture, &job);
    budget_redeem_ranks ranks = {0, 1, 1};
    fixture_account(fixture, "phase35", USD(5));
    fixture_add_client(fixture, "leaver", "request");
    budget_client *leaver = fixture_client(fixture, "leaver", 0);
    for (int i = 0; i < 2; i++) {
        budget_claims ask = fixture_ask("phase35", labels[i], USD(1));
        ask.max_attempts = 2;
        assert_verdict(budget_authorize(leaver, &ask, &grants[i], &why), BUDGET_GRANTED, &why);
    }
    assert_verdict(budget_redeem(&mine, grants[0].token, &ranks, &redemption, &why), BUDGET_GRANTED,
                   &why);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_client_revoke(admin, "leaver", &why), BUDGET_GRANTED, &why);
    for (int again = 0; again < 2; again++) {
        assert_verdict(budget_redeem(&mine, grants[1].token, &ranks, &redemption, &why),
                       BUDGET_BAD_TOKEN, &why);
        assert_non_null(strstr(why.message, "the client leaver, which asked for this token"));
        assert_non_null(strstr(why.message, "budget-service void unused"));
        if (again == 0) {
            (void)snprintf(key, sizeof key, "%s/clients/leaver.key", fixture->dir);
            assert_int_equal(unlink(key), 0);
            fixture_add_client(fixture, "leaver", "request");
        }
    }
    ranks.attempt = 2;
    assert_verdict(budget_redeem(&mine, grants[0].token, &ranks, &redemption, &why), BUDGET_GRANTED,
                   &why);
    budget_client_close(leaver);
    budget_client_close(admin);
}

/* One name that was revoked and added again, time after time: more rows than a page has. */
static void rotate(const service_fixture *fixture)
{
    base_error error = {0};
    budget_ledger *ledger = NULL;
    budget_answer answer;
    budget_ledger_options options = {.dir = fixture->dir};
    budget_ledger_client client = {.name = "rotated", .role = BUDGET_ROLE_REQUEST};
    assert_ok(budget_clock_read(&options.clock, &error), &error);
    assert_ok(budget_ledger_open(&options, &ledger, &error), &error);
    assert_ok(budget_ledger_begin(ledger, &options.clock, &error), &error);
    for (int i = 0; i < ROTATIONS; i++) {
        memset(client.public_key, 1 + i % 250, sizeof client.public_key);
        client.public_key[0] = (uint8_t)(i / 250);
        assert_ok(budget_ledger_client_add(ledger, NULL, &client, &answer, &error), &error);
        assert_int_equal(answer.reason, BUDGET_REASON_NONE);
        assert_ok(budget_ledger_client_revoke(ledger, NULL, client.name, &answer, &error), &error);
    }
    assert_ok(budget_ledger_commit(ledger, &error), &error);
    budget_ledger_close(ledger);
}

static void count_client(void *user, const budget_client_info *info)
{
    int *count = user;
    (*count)++;
    if (*count > ROTATIONS + 2) {
        fail_msg("%s is listed again", info->name);
    }
}

static void test_clients_of_one_name_are_listed_once(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    int count = 0;
    rotate(fixture);
    fixture_start(fixture);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_client_list(admin, count_client, &count, &why), BUDGET_GRANTED, &why);
    assert_int_equal(count, ROTATIONS + 2); /* request and admin */
    budget_client_close(admin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_roles_and_messages, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_label_is_its_clients, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_clients_of_one_name_are_listed_once, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_tokens_of_a_revoked_client, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_revoked_on_an_open_connection, setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
