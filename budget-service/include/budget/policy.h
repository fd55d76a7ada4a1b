/* The policy: what an authorization gets where it says nothing, and what it may ask for at most.
 *
 * A JSON file beside the ledger, read strictly (unknown and duplicate keys are refused), so that a
 * misspelt limit is not a missing one:
 *
 *   {"version": 1,
 *    "account": "phase35",              pays where a request names none
 *    "hook": ["/usr/local/bin/tell-me", "budget"],   run at an alarm, given on its stdin
 *    "reminder_seconds": 600,           so long before a deadline the hook is told, or a tenth of
 *                                       the run's time, if that is shorter; 0: it is not
 *    "token_seconds": 900,              exp - iat
 *    "vendors": {"runpod": {
 *      "granularity_seconds": 60,       what the vendor bills at least
 *      "settling_hours": "48"}},        so long after a run's end it may still send lines
 *    "accounts": {
 *      "*":             {"defaults": {…}, "limits": {…}},      every account
 *      "phase35/lab02": {"defaults": {"vendor": "runpod", "tier": "spot", "max_hours": "2"}}}}
 *
 * defaults, what an account's authorizations get where a request says nothing:
 *   mode, vendor, instance_type, tier             texts
 *   world_size, instances, gpus, max_attempts     numbers
 *   max_price, max_hours                          decimal texts: USD per hour and instance, hours
 *
 * limits, what a request may ask for at most:
 *   vendors, tiers, modes                         lists of texts
 *   instances, world_size, max_attempts           numbers
 *   max_price, max_hours, max_usd                 decimal texts
 *
 * An account's own entry comes first, then its parents', then "*"; the strictest limit holds.
 * Everything may be absent.
 *
 * Immutable after parsing; thread safe then. */
#ifndef BUDGET_POLICY_H
#define BUDGET_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/claims.h"
#include "budget/rules.h"

enum {
    BUDGET_POLICY_BYTES_MAX = 256 * 1024,
    BUDGET_POLICY_ACCOUNTS_MAX = 256,
    BUDGET_POLICY_VENDORS_MAX = 32,
    BUDGET_POLICY_HOOK_ARGUMENTS_MAX = 16,
    BUDGET_POLICY_GRANULARITY_S = 3600,      /* of a vendor that the policy does not name */
    BUDGET_POLICY_SETTLING_S = 48 * 3600,    /* the same */
    BUDGET_POLICY_REMINDER_S = 600,          /* reminder_seconds where it is absent */
    BUDGET_POLICY_TOKEN_S = 900,             /* token_seconds where it is absent */
    BUDGET_POLICY_SECONDS = 3600,            /* of a job, where neither it nor a default says */
    BUDGET_POLICY_LOCAL_SECONDS = 24 * 3600, /* the same for vendor local, within its limits */
    BUDGET_POLICY_MESSAGE_BYTES = 256,
};

typedef struct budget_policy budget_policy;

/* BASE_ERR_INVALID: what is wrong, and where. The caller destroys *policy. */
BASE_MUST_CHECK base_status budget_policy_parse(const void *text, size_t text_bytes,
                                                budget_policy **policy, base_error *reterr);

/* BASE_ERR_NOTFOUND, BASE_ERR_IO, BASE_ERR_LIMIT as well. */
BASE_MUST_CHECK base_status budget_policy_read(const char *path, budget_policy **policy,
                                               base_error *reterr);
void budget_policy_destroy(budget_policy *policy);

/* What `init` writes: a policy that limits nothing and says where things are put. */
const char *budget_policy_initial(void);

/* NULL: none. The second ends with NULL. Owned by the policy. */
const char *budget_policy_account(const budget_policy *policy);
const char *const *budget_policy_hook(const budget_policy *policy);
int64_t budget_policy_token_seconds(const budget_policy *policy);
int64_t budget_policy_reminder_seconds(const budget_policy *policy);

/* policy NULL: the default, of both. */
int64_t budget_policy_granularity_seconds(const budget_policy *policy, const char *vendor);
int64_t budget_policy_settling_seconds(const budget_policy *policy, const char *vendor);

/* Fills what is empty (texts) or 0 (numbers) in the claims from the defaults of claims->account.
 * What stays empty then gets: vendor "local" for an amount of 0, else "cloud" (any vendor),
 * instances 1, max_attempts 1, BUDGET_POLICY_SECONDS (local: BUDGET_POLICY_LOCAL_SECONDS), and the
 * price that the amount pays for: price_derived then. */
void budget_policy_fill(const budget_policy *policy, budget_claims *claims);

/* What the policy says of full claims: BUDGET_REASON_NONE, POLICY (a limit; the message says
 * which), or UNDERFUNDED: for a vendor other than "local", max_usd_micro is less than instances ×
 * price × (max_seconds + the vendor's granularity), or there is no price. "local" costs nothing:
 * an amount is refused. message is empty when granted. */
budget_reason budget_policy_check(const budget_policy *policy, const budget_claims *claims,
                                  char message[BUDGET_POLICY_MESSAGE_BYTES]);

#endif
