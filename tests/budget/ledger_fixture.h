/* A ledger in a temporary directory, with clocks that tests set, and short ways to ask it
 * things. */
#ifndef LEDGER_FIXTURE_H
#define LEDGER_FIXTURE_H

#include "budget/ledger.h"
#include "support.h"

/* The account of the vendor in which all instances are. */
#define FIXTURE_VENDOR_ACCOUNT "user_2abc"

enum {
    FIXTURE_START_MS = 1795000000, /* times 1000 */
    USD = 1000000,
};

typedef struct ledger_fixture {
    test_directory directory;
    budget_ledger_options options;
    budget_ledger *ledger;
    budget_clock clock;
    base_error error;
    int jti; /* the next one, so that runs are the same */
} ledger_fixture;

void fixture_make(ledger_fixture *fixture);
void fixture_remove(ledger_fixture *fixture);

/* For cmocka: with the accounts phase, cap $5, and phase/lab, cap $3; and the end of any. */
int fixture_setup_phase(void **state);
int fixture_teardown(void **state);

/* Closes and opens. */
void fixture_reopen(ledger_fixture *fixture);

/* Both clocks go on. */
void fixture_pass(ledger_fixture *fixture, int64_t seconds);

void fixture_begin(ledger_fixture *fixture);
void fixture_commit(ledger_fixture *fixture);

/* Each in a batch of its own; the answer, or a failed test. */
budget_answer fixture_account(ledger_fixture *fixture, const char *name, int64_t cap);

/* A claim for label in account, for 2 ranks, 1 hour, 3 attempts, vendor "runpod". */
budget_authorization fixture_claim(ledger_fixture *fixture, const char *account, const char *label,
                                   int64_t usd_micro);
budget_answer fixture_authorize(ledger_fixture *fixture, const char *account, const char *label,
                                int64_t usd_micro);
budget_answer fixture_authorize_instances(ledger_fixture *fixture, const char *account,
                                          const char *label, int64_t usd_micro, int64_t instances);
budget_answer fixture_redeem(ledger_fixture *fixture, const char *label, int64_t rank,
                             int64_t attempt, uint8_t key);
budget_answer fixture_create(ledger_fixture *fixture, const char *label);

/* By hand, and final; a line of a bill is not. */
budget_answer fixture_actual(ledger_fixture *fixture, const char *label, int64_t usd_micro);
budget_answer fixture_line(ledger_fixture *fixture, const char *label, int64_t usd_micro,
                           const char *line);
budget_answer fixture_attest(ledger_fixture *fixture, const char *label);
budget_answer fixture_prove(ledger_fixture *fixture, const char *label, const char *instance);
budget_answer fixture_attach(ledger_fixture *fixture, const char *label, const char *instance);
budget_answer fixture_void(ledger_fixture *fixture, const char *label);
size_t fixture_expire(ledger_fixture *fixture);
budget_reservation fixture_find(ledger_fixture *fixture, const char *label);
budget_account fixture_balance(ledger_fixture *fixture, const char *account);

/* Fails unless so much is reserved and posted there. */
void fixture_check(ledger_fixture *fixture, const char *account, int64_t reserved, int64_t posted);

/* The evidence that proves it, for the reservation as it is. instance: one, or several with commas
 * between them, here and in fixture_prove. */
void fixture_evidence(ledger_fixture *fixture, const char *label, const char *instance, char *json,
                      size_t json_bytes);

budget_answer fixture_terminate(ledger_fixture *fixture, const char *label, const char *evidence,
                                budget_attest attest);

#define assert_reason(answer, expected)                                                            \
    do {                                                                                           \
        const budget_answer assert_reason_got = (answer);                                          \
        if (assert_reason_got.reason != (expected)) {                                              \
            fail_msg("%s: %s (%s), expected %s", #answer,                                          \
                     budget_reason_name(assert_reason_got.reason), assert_reason_got.message,      \
                     budget_reason_name(expected));                                                \
        }                                                                                          \
    } while (0)

#define assert_granted(answer) assert_reason(answer, BUDGET_REASON_NONE)

#endif
