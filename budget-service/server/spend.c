#include "service.h"

base_status service_spend_open(budget_service *service, base_error *reterr)
{
    (void)service;
    (void)reterr;
    return BASE_OK;
}

void service_spend_follow(budget_service *service)
{
    (void)service;
}

void service_spend_close(budget_service *service)
{
    (void)service;
}

base_status service_export(budget_service *service, const service_question *question,
                           service_item *item, base_error *reterr)
{
    (void)service;
    (void)question;
    return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED, "no export yet",
                               reterr);
}

base_status service_reconcile(budget_service *service, const service_question *question,
                              service_item *item, base_error *reterr)
{
    (void)service;
    (void)question;
    return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED,
                               "no reconcile yet", reterr);
}
