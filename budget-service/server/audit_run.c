#include "service.h"

bool service_audit_runs(const budget_service *service)
{
    return service->audit != NULL;
}

base_status service_audit_slice(budget_service *service, base_error *reterr)
{
    (void)service;
    (void)reterr;
    return BASE_OK;
}

void service_audit_free(budget_service *service)
{
    (void)service;
}

base_status service_audit_begin(budget_service *service, const service_question *question,
                                service_item *item, base_error *reterr)
{
    (void)service;
    (void)question;
    return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED, "no audit yet",
                               reterr);
}
