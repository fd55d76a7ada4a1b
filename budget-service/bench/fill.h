/* Rows for a ledger that nobody serves: authorizations, of which most are voided.
 * Checkpoints are signed with secret (64 bytes). */
#ifndef BUDGET_BENCH_FILL_H
#define BUDGET_BENCH_FILL_H

#include "base/status.h"

BASE_MUST_CHECK base_status bench_fill_ledger(const char *dir, const unsigned char *secret,
                                              long rows, base_error *reterr);

#endif
