/* A service of its own for a test: a directory with keys and ledger, the service as a process,
 * clients of every role. The process dies with the test. */
#ifndef TEST_SERVICE_FIXTURE_H
#define TEST_SERVICE_FIXTURE_H

#include <stdbool.h>
#include <sys/types.h>

#include "budget/client.h"
#include "support.h"

typedef struct service_fixture {
    test_directory directory;
    char dir[BASE_PATH_BYTES];
    budget_keyring keyring;
    pid_t pid; /* 0: not running */
    int output_fd;
    char endpoint[BASE_PATH_BYTES];
    char redeem_endpoint[BASE_PATH_BYTES];
    char failure[1024]; /* why the last start failed; empty: it did not */
} service_fixture;

/* Directory, keys, ledger; nothing runs yet. */
void fixture_make(service_fixture *fixture);

/* Starts the service and waits until it is ready. setting: "NAME=VALUE" for its environment, or
 * NULL. False: it ended instead (and pid is 0). listen: NULL for ipc. */
bool fixture_start_with(service_fixture *fixture, const char *setting, const char *listen);
void fixture_start(service_fixture *fixture);

/* SIGTERM, and its exit status as waitpid gives it. */
int fixture_stop(service_fixture *fixture);

/* Waits until it has ended by itself. */
int fixture_wait(service_fixture *fixture);

/* Ends what runs and removes the directory. */
void fixture_remove(service_fixture *fixture);

/* For cmocka: made and removed. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* A client with the key DIR/clients/NAME.key; closed by the caller. */
budget_client *fixture_client(const service_fixture *fixture, const char *name, int64_t timeout_ms);

/* Makes the key file and has the admin add it. */
void fixture_add_client(const service_fixture *fixture, const char *name, const char *role);

/* An account, by the admin. */
void fixture_account(const service_fixture *fixture, const char *name, int64_t cap_usd_micro);

/* A question for `amount`, of one local-priced instance for an hour, in every field good. */
budget_claims fixture_ask(const char *account, const char *label, int64_t amount_usd_micro);

/* policy.json of these members; the service reads it when it starts. */
void fixture_write_policy(const service_fixture *fixture, const char *members);

/* Makes a job's key, to redeem with. */
budget_redeem_options fixture_redeemer(const service_fixture *fixture, proto_keypair *key);

/* Authorizes label of phase35 for so many seconds, and redeems its rank 0. */
void fixture_begin_run(const service_fixture *fixture, const char *label, int64_t seconds);

/* $ of micro-dollars. */
#define USD(dollars) ((int64_t)((dollars)*1000000))

#define assert_verdict(call, expected, why)                                                        \
    do {                                                                                           \
        (why)->message[0] = '\0';                                                                  \
        const budget_verdict assert_verdict_got = (call);                                          \
        if (assert_verdict_got != (expected)) {                                                    \
            fail_msg("%s: %s (%s), expected %s", #call, budget_verdict_name(assert_verdict_got),   \
                     (why)->message, budget_verdict_name(expected));                               \
        }                                                                                          \
    } while (0)

#endif
