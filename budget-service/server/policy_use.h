/* What the service takes from the policy. Private to the server. */
#ifndef BUDGET_SERVER_POLICY_USE_H
#define BUDGET_SERVER_POLICY_USE_H

#include "budget/policy.h"
#include "service.h"

/* DIR/policy.json. */
BASE_MUST_CHECK base_status service_policy_open(budget_service *service, base_error *reterr);
void service_policy_close(budget_service *service);

#endif
