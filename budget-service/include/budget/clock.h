/* The ledger's time: a line that goes on with CLOCK_BOOTTIME and never back.
 *
 * Wall clocks jump. A deadline compared with the wall clock alone expires live jobs when it jumps
 * forward and revives dead ones when it jumps back. So the ledger keeps a time of its own: while
 * the machine is up it advances with CLOCK_BOOTTIME (which counts suspended time too and cannot be
 * set); over a reboot it advances by what the wall clock says has passed, but at least by the time
 * since that boot. Deadlines live on this line. Pure but for budget_clock_read. */
#ifndef BUDGET_CLOCK_H
#define BUDGET_CLOCK_H

#include <stdint.h>

#include "base/status.h"

enum {
    BUDGET_BOOT_ID_BYTES = 40, /* with the final NUL */
    BUDGET_CLOCK_SKEW_MS_MAX = 60 * 1000,
};

/* All three clocks of one moment. */
typedef struct budget_clock {
    int64_t wall_ms; /* CLOCK_REALTIME, since 1970 */
    int64_t boot_ms; /* CLOCK_BOOTTIME */
    char boot_id[BUDGET_BOOT_ID_BYTES];
} budget_clock;

/* A point where ledger time and the clocks were known together. */
typedef struct budget_clock_anchor {
    int64_t ledger_ms; /* began as the wall time when the ledger was made */
    int64_t offset_ms; /* wall time = ledger time + this; changed by repairs only */
    budget_clock clock;
} budget_clock_anchor;

/* Now. BASE_ERR_IO when the boot id cannot be read. */
BASE_MUST_CHECK base_status budget_clock_read(budget_clock *clock, base_error *reterr);

/* Ledger time at clock, never before the anchor's. */
int64_t budget_clock_ledger_ms(const budget_clock_anchor *anchor, const budget_clock *clock);

/* How far the wall clock is ahead of the ledger's wall time (negative: behind). */
int64_t budget_clock_skew_ms(const budget_clock_anchor *anchor, const budget_clock *clock);

/* Takes the wall clock over: ledger time goes on, the offset changes. */
void budget_clock_repair(budget_clock_anchor *anchor, const budget_clock *clock);

/* Moves the anchor to clock, the offset unchanged. */
void budget_clock_advance(budget_clock_anchor *anchor, const budget_clock *clock);

#endif
