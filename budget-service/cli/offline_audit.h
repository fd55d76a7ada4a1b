/* The audit of a ledger whose service does not run, or refuses to: on a copy, so that nothing is
 * written to what may be evidence. */
#ifndef BUDGET_CLI_OFFLINE_AUDIT_H
#define BUDGET_CLI_OFFLINE_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* As budget_audit_result; the ledger's headers and the client's do not go together. */
typedef struct offline_audit_result {
    bool good;
    uint64_t rows;
    uint64_t bad_sequence;
    uint64_t finding_count;
    size_t kept_count;
    char findings[16][512];
    char digest[33]; /* empty: there is nothing that serve could accept */
} offline_audit_result;

/* Copies DIR's ledger into a directory of its own (in $TMPDIR, or /tmp), looks at its checkpoints,
 * walks all its rows, and removes the copy. A ledger that cannot even be opened is a finding as
 * well. checkpoint (may be NULL) is a copy of DIR/checkpoints kept elsewhere: every row that it
 * names must be in the ledger, and every signature good. BASE_ERR_BUSY: the service runs; ask it.
 * BASE_ERR_NOTFOUND: there is no ledger. BASE_ERR_IO. */
BASE_MUST_CHECK base_status offline_audit(const char *dir, const char *checkpoint,
                                          offline_audit_result *result, base_error *reterr);

#endif
