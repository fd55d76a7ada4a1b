/* Any bytes are a policy or refused; one that is read can be asked. */

#include "base/assert.h"
#include "budget/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    budget_policy *policy = NULL;
    if (budget_policy_parse(data, size_bytes, &policy, NULL) == BASE_OK) {
        char message[BUDGET_POLICY_MESSAGE_BYTES];
        budget_claims claims = {.account = "phase35/lab02", .max_seconds = 3600};
        budget_policy_fill(policy, &claims);
        BASE_ASSERT(claims.vendor[0] != '\0');
        BASE_ASSERT(claims.instances >= 1);
        const budget_reason reason = budget_policy_check(policy, &claims, message);
        BASE_ASSERT((reason == BUDGET_REASON_NONE) == (message[0] == '\0'));
        BASE_ASSERT(budget_policy_token_seconds(policy) > 0);
    }
    budget_policy_destroy(policy);
    return 0;
}
