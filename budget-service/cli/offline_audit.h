/* The audit of a ledger whose service does not run, or refuses to: on a copy, so that nothing is
 * written to what may be evidence. */
#ifndef BUDGET_CLI_OFFLINE_AUDIT_H
#define BUDGET_CLI_OFFLINE_AUDIT_H

#include "base/status.h"
#include "budget/audit_report.h"

/* Copies DIR's ledger into a directory of its own (in $TMPDIR, or /tmp), looks at its checkpoints,
 * walks all its rows, and removes the copy. A ledger that cannot even be opened is a finding as
 * well. checkpoint (may be NULL) is a copy of DIR/checkpoints kept elsewhere: every row that it
 * names must be in the ledger, and every signature good. BASE_ERR_BUSY: the service runs; ask it.
 * BASE_ERR_NOTFOUND: there is no ledger. BASE_ERR_IO. */
BASE_MUST_CHECK base_status offline_audit(const char *dir, const char *checkpoint,
                                          budget_audit_report *result, base_error *reterr);

#endif
