/* The modes of a rank. Private to the program. */
#ifndef RANK_MODES_H
#define RANK_MODES_H

#include "base/status.h"
#include "rank/gate.h"
#include "worker/worker.h"

/* Before joining, and before anything is touched: checks that the mode is known, and passes the
 * gate if it may cost money. worker->pass is then set. On failure worker->exit_code is the
 * process's. */
BASE_MUST_CHECK base_status rank_modes_enter(rank_worker *worker, base_error *reterr);

/* Runs the mode, after joining. */
BASE_MUST_CHECK base_status rank_modes_run(rank_worker *worker, base_error *reterr);

/* A mode that may cost money takes a pass. gate-check does what every such mode does first. Its
 * only work is one all-reduce and a barrier on the CPU. */
BASE_MUST_CHECK base_status rank_cloud_gate_check(rank_worker *worker, const rank_pass *pass,
                                                  base_error *reterr);

/* Modes on GPUs (gpu_modes.c). Before joining: makes this rank's GPU the only one that it sees, and
 * loads the plugin; worker->gpu is then set. BASE_ERR_UNSUPPORTED, and the exit code for it: there
 * is no driver, no plugin or no such GPU. */
BASE_MUST_CHECK base_status rank_cloud_open_gpu(rank_worker *worker, const rank_pass *pass,
                                                base_error *reterr);
/* coll-bench's rows (bench_mode.c). */
BASE_MUST_CHECK base_status rank_cloud_bench(rank_worker *worker, const rank_pass *pass,
                                             base_error *reterr);
BASE_MUST_CHECK base_status rank_cloud_train(rank_worker *worker, const rank_pass *pass,
                                             base_error *reterr);
BASE_MUST_CHECK base_status rank_cloud_generate(rank_worker *worker, const rank_pass *pass,
                                                base_error *reterr);

/* After joining: begins NCCL on all ranks, and tells the launcher what this rank computes on. */
BASE_MUST_CHECK base_status rank_gpu_begin(rank_worker *worker, const rank_pass *pass,
                                           base_error *reterr);

#endif
