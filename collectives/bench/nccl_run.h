/* coll-bench --transport nccl: GPUs are used behind the gate only, so this asks the launcher for a
 * job of mode bench-nccl, and prints its rows. */
#ifndef COLL_BENCH_NCCL_RUN_H
#define COLL_BENCH_NCCL_RUN_H

/* How many of the arguments are coll-bench's own; what is behind "--" is the launcher's. */
int bench_own_arguments(int argc, char **argv);

/* argv: coll-bench's own, argc of them, in any order that was parsed; behind them the launcher's, up
 * to a NULL. Without --token and --authorize there, the token is for this machine's own GPUs.
 * Returns the launcher's exit code. Logs its errors. Blocks. */
int bench_run_nccl(int ranks, int argc, char **argv);

#endif
