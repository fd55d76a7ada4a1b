/* Runs an audit in slices between batches. Clients that ask for one while it runs wait for the
 * same one. Called by service.c before the first grant and once a round, and by access.c for a
 * request. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "budget/audit.h"
#include "service.h"

struct service_audit {
    budget_audit *audit;
    size_t memory_bytes; /* that it has taken; not to be mistaken for a flood of messages */
    int count;
    service_asker waiters[SERVICE_AUDITS_WAITING_MAX];
};

bool service_audit_runs(const budget_service *service)
{
    return service->audit != NULL;
}

void service_audit_free(budget_service *service)
{
    if (service->audit != NULL) {
        budget_audit_end(service->audit->audit);
        service->memory_base_bytes -= service->audit->memory_bytes;
        free(service->audit);
        service->audit = NULL;
    }
}

static base_status begin(budget_service *service, base_error *reterr)
{
    struct service_audit *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for an audit");
    }
    const base_status status = budget_audit_begin(service->ledger, &made->audit, reterr);
    if (status != BASE_OK) {
        free(made);
        return status;
    }
    service->audit = made;
    return BASE_OK;
}

/* The one that asks again, over a new connection; else a free place; else NULL. */
static service_asker *find_waiter(struct service_audit *running, const char *request_id)
{
    for (int i = 0; i < running->count; i++) {
        if (strcmp(running->waiters[i].request_id, request_id) == 0) {
            return &running->waiters[i];
        }
    }
    return running->count < SERVICE_AUDITS_WAITING_MAX ? &running->waiters[running->count++] : NULL;
}

/* A slice; what memory it has taken is the audit's. */
static base_status step(budget_service *service, bool *done, base_error *reterr)
{
    struct service_audit *running = service->audit;
    const size_t before_bytes = service_memory_bytes();
    const base_status status =
        budget_audit_step(running->audit, SERVICE_AUDIT_SLICE_ROWS, done, reterr);
    const size_t after_bytes = service_memory_bytes();
    const size_t taken_bytes = after_bytes > before_bytes ? after_bytes - before_bytes : 0;
    if (running->memory_bytes + taken_bytes <= SERVICE_AUDIT_BYTES_MAX) {
        running->memory_bytes += taken_bytes;
        service->memory_base_bytes += taken_bytes;
    }
    return status;
}

base_status service_audit_begin(budget_service *service, const service_question *question,
                                service_item *item, base_error *reterr)
{
    (void)question;
    if (service->audit == NULL) {
        const base_status status = begin(service, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    struct service_audit *running = service->audit;
    service_asker *waiter = find_waiter(running, item->asker.request_id);
    if (waiter == NULL) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_TRANSIENT,
                                   "an audit is running, and others wait for it already", reterr);
    }
    *waiter = item->asker;
    item->stage = SERVICE_LATER;
    return BASE_OK;
}

static base_status answer(budget_service *service, const service_asker *waiter,
                          const budget_audit_report *report, base_error *reterr)
{
    Ringfence__Budget__Audited audited;
    char *findings[BUDGET_AUDIT_FINDINGS_KEPT];
    service_item *item = &service->items[0]; /* no batch is under way */
    service_item_reset(item);
    item->asker = *waiter;
    budget_audit_report_write(report, &audited, findings);
    const base_status status = service_item_done(item, &audited.base, reterr);
    return status == BASE_OK ? service_reply(service, item, reterr) : status;
}

/* What an audit came to holds for every grant from now on. */
static void take_report(budget_service *service, const budget_audit_report *report)
{
    memcpy(service->audit_digest, report->digest, sizeof service->audit_digest);
    if (report->finding_count > 1) {
        (void)snprintf(service->finding, sizeof service->finding, "%.400s (and %" PRIu64 " more)",
                       report->findings[0], report->finding_count - 1);
    } else {
        (void)snprintf(service->finding, sizeof service->finding, "%s", report->findings[0]);
    }
    if (!report->good) {
        base_log(BASE_LOG_ERROR, "AUDIT: %s%s", service->finding,
                 service_halted(service) ? "; nothing is granted" : "; accepted by an admin");
    }
}

bool service_halted(const budget_service *service)
{
    const char *accepted = service->options->accept_audit;
    return service->finding[0] != '\0' &&
           (accepted == NULL || strcmp(service->audit_digest, accepted) != 0);
}

static base_status note_acceptance(budget_service *service, base_error *reterr)
{
    char text[BUDGET_AUDIT_DIGEST_BYTES + BUDGET_AUDIT_FINDING_BYTES];
    (void)snprintf(text, sizeof text, "%s: %s", service->audit_digest, service->finding);
    base_status status = budget_ledger_begin(service->ledger, &service->clock, reterr);
    if (status == BASE_OK) {
        status = budget_ledger_accept_audit(service->ledger, text, reterr);
    }
    return status == BASE_OK ? budget_ledger_commit(service->ledger, reterr) : status;
}

base_status service_audit_first(budget_service *service, base_error *reterr)
{
    budget_audit *audit = NULL;
    bool done = false;
    base_status status = budget_audit_begin(service->ledger, &audit, reterr);
    while (status == BASE_OK && !done) {
        status = budget_audit_step(audit, SERVICE_AUDIT_FIRST_ROWS, &done, reterr);
    }
    if (status == BASE_OK) {
        take_report(service, budget_audit_get(audit));
    }
    budget_audit_end(audit);
    if (status != BASE_OK || service->finding[0] == '\0') {
        return status;
    }
    if (!service_halted(service)) {
        return note_acceptance(service, reterr);
    }
    return base_fail(reterr, BASE_ERR_MISMATCH,
                     "the ledger does not audit: %.300s; %scompare it with a backup, and look at "
                     "all of it with budget-service audit; an admin who has looked goes on with: "
                     "serve --accept-audit %s",
                     service->finding,
                     service->options->accept_audit != NULL
                         ? "this is not what was accepted with --accept-audit; "
                         : "",
                     service->audit_digest);
}

base_status service_audit_slice(budget_service *service, base_error *reterr)
{
    struct service_audit *running = service->audit;
    bool done = false;
    base_status status = step(service, &done, reterr);
    if (status != BASE_OK || !done) {
        return status;
    }
    const budget_audit_report *report = budget_audit_get(running->audit);
    take_report(service, report);
    for (int i = 0; i < running->count && status == BASE_OK; i++) {
        status = answer(service, &running->waiters[i], report, reterr);
    }
    service_audit_free(service);
    return status;
}
