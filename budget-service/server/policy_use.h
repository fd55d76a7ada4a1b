/* What the service takes from the policy. Private to the server. */
#ifndef BUDGET_SERVER_POLICY_USE_H
#define BUDGET_SERVER_POLICY_USE_H

#include "service.h"

/* DIR/policy.json. */
BASE_MUST_CHECK base_status service_policy_open(budget_service *service, base_error *reterr);
void service_policy_close(budget_service *service);

/* NULL or "": none. */
const char *const *service_policy_hook(const budget_service *service);
const char *service_policy_checkpoint(const budget_service *service);
const char *service_policy_spend(const budget_service *service);

#endif
