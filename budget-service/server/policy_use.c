/* Loads policy.json of the service's directory, and releases it. Called by service.c at start and
 * end. */
#include "policy_use.h"

#include <stdio.h>

base_status service_policy_open(budget_service *service, base_error *reterr)
{
    char path[BASE_PATH_BYTES + 16];
    (void)snprintf(path, sizeof path, "%s/policy.json", service->dir);
    return budget_policy_read(path, &service->policy, reterr);
}

void service_policy_close(budget_service *service)
{
    budget_policy_destroy(service->policy);
    service->policy = NULL;
}
