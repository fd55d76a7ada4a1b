/* A ledger with something of everything in it, signed checkpoints, and ways to edit its files behind
 * its back. */
#ifndef AUDITED_LEDGER_H
#define AUDITED_LEDGER_H

#include "budget/audit.h"
#include "ledger_fixture.h"

/* Set-up and tear-down of one test: *state is the ledger_fixture. */
int audited_make(void **state);
int audited_remove(void **state);

/* A whole audit, so many rows at a time. */
budget_audit_report audited(ledger_fixture *fixture, int64_t rows);

/* Closes the ledger and runs SQL on its file. */
void audited_edit(ledger_fixture *fixture, const char *sql);

/* Within the ledger's directory. */
void audited_copy(ledger_fixture *fixture, const char *from, const char *to);

void audited_close(ledger_fixture *fixture);

#endif
