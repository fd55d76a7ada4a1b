/* An audit's report as a message, and back. Called by the service (server/audit_run.c), by the client,
 * and by the command `audit`. */
#include "budget/audit_report.h"

#include <budget.pb-c.h>
#include <stdio.h>
#include <string.h>

size_t budget_audit_report_kept(const budget_audit_report *report)
{
    return report->finding_count < BUDGET_AUDIT_FINDINGS_KEPT ? (size_t)report->finding_count
                                                              : BUDGET_AUDIT_FINDINGS_KEPT;
}

void budget_audit_report_write(const budget_audit_report *report,
                               Ringfence__Budget__Audited *audited,
                               char *findings[BUDGET_AUDIT_FINDINGS_KEPT])
{
    ringfence__budget__audited__init(audited);
    audited->good = report->good;
    audited->rows = report->rows;
    audited->bad_sequence = report->bad_sequence;
    audited->finding_count = report->finding_count;
    audited->n_findings = budget_audit_report_kept(report);
    for (size_t i = 0; i < audited->n_findings; i++) {
        findings[i] = (char *)(uintptr_t)report->findings[i];
    }
    audited->findings = findings;
    audited->digest = (char *)(uintptr_t)report->digest;
}

bool budget_audit_report_read(const Ringfence__Budget__Audited *audited,
                              budget_audit_report *report)
{
    *report = (budget_audit_report){
        .good = audited->good,
        .rows = audited->rows,
        .bad_sequence = audited->bad_sequence,
        .finding_count = audited->finding_count,
    };
    if (audited->n_findings != budget_audit_report_kept(report) ||
        report->good != (report->finding_count == 0) ||
        strlen(audited->digest) >= sizeof report->digest) {
        return false;
    }
    for (size_t i = 0; i < audited->n_findings; i++) {
        (void)snprintf(report->findings[i], sizeof report->findings[i], "%s", audited->findings[i]);
    }
    memcpy(report->digest, audited->digest, strlen(audited->digest));
    return true;
}
