#include "policy_use.h"

base_status service_policy_open(budget_service *service, base_error *reterr)
{
    (void)service;
    (void)reterr;
    return BASE_OK;
}

void service_policy_close(budget_service *service)
{
    (void)service;
}

const char *const *service_policy_hook(const budget_service *service)
{
    (void)service;
    return NULL;
}

const char *service_policy_checkpoint(const budget_service *service)
{
    (void)service;
    return NULL;
}

const char *service_policy_spend(const budget_service *service)
{
    (void)service;
    return NULL;
}
