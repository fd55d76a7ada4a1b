/* What an audit came to: as the audit makes it (budget/audit.h), as the service answers it, and as the
 * command shows it. Pure. */
#ifndef BUDGET_AUDIT_REPORT_H
#define BUDGET_AUDIT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BUDGET_AUDIT_FINDING_BYTES = 512,
    BUDGET_AUDIT_FINDINGS_KEPT = 16,
    BUDGET_AUDIT_DIGEST_BYTES = 33, /* 128 bits in hex, and a NUL */
};

typedef struct budget_audit_report {
    bool good;
    uint64_t rows;          /* walked */
    uint64_t bad_sequence;  /* the first bad row; 0: none, or it is a table that is wrong */
    uint64_t finding_count; /* all of them */
    char findings[BUDGET_AUDIT_FINDINGS_KEPT][BUDGET_AUDIT_FINDING_BYTES]; /* the first ones */
    char digest[BUDGET_AUDIT_DIGEST_BYTES]; /* of all: what serve --accept-audit takes; empty when
                                             * good, and until it is done */
} budget_audit_report;

/* How many findings it has as text. */
size_t budget_audit_report_kept(const budget_audit_report *report);

struct Ringfence__Budget__Audited;

/* Makes the message, which borrows the texts, and findings. */
void budget_audit_report_write(const budget_audit_report *report,
                               struct Ringfence__Budget__Audited *audited,
                               char *findings[BUDGET_AUDIT_FINDINGS_KEPT]);

/* False: counts and texts do not go together. */
bool budget_audit_report_read(const struct Ringfence__Budget__Audited *audited,
                              budget_audit_report *report);

#endif
