/* The modes of a rank. Private to the program. */
#ifndef RANK_MODES_H
#define RANK_MODES_H

#include "base/status.h"
#include "rank/gate.h"
#include "worker/worker.h"

/* Before joining, before anything is touched: is the mode known, and if it may cost money, does the
 * gate let this rank in? Then worker->pass is set;
 * else worker->exit_code says what to leave with. */
BASE_MUST_CHECK base_status rank_modes_enter(rank_worker *worker, base_error *reterr);

/* After joining: runs it. */
BASE_MUST_CHECK base_status rank_modes_run(rank_worker *worker, base_error *reterr);

/* What may cost money takes a pass. gate-check does what every such mode does first, and then one
 * all-reduce and a barrier on the CPU instead of work. */
BASE_MUST_CHECK base_status rank_cloud_gate_check(rank_worker *worker, const rank_pass *pass,
                                                  base_error *reterr);

#endif
