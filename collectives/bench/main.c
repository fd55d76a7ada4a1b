/* coll-bench: times collectives between ranks that it forks itself, or that a launcher has started;
 * bench.h says how. */
#include <stdio.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "base/log.h"
#include "base/version.h"
#include "launched_run.h"
#include "nccl_run.h"
#include "options.h"
#include "run.h"

int main(int argc, char **argv)
{
    static bench_options options;
    base_error usage;
    coll_error error;
    const int launched_ranks = bench_launched_ranks();
    const int own = bench_own_arguments(argc, argv);
    base_fd_open_standard();
    base_log_init("coll-bench: ");
    if (bench_options_parse(own, argv, launched_ranks, &options, &usage) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s; try coll-bench --help", usage.message);
        return BASE_EXIT_USAGE;
    }
    if (options.help) {
        bench_options_help(stdout);
        return BASE_EXIT_DONE;
    }
    if (options.version) {
        base_version_print("coll-bench");
        return BASE_EXIT_DONE;
    }
    if ((int)options.transport == BENCH_TRANSPORT_NCCL) {
        if (bench_options_check_nccl(&options, &usage) != BASE_OK) {
            base_log(BASE_LOG_ERROR, "%s", usage.message);
            return BASE_EXIT_USAGE;
        }
        return bench_run_nccl(options.ranks, own, argv);
    }
    if (own < argc) {
        base_log(BASE_LOG_ERROR, "'--': only --transport nccl has flags for a launcher");
        return BASE_EXIT_USAGE;
    }
    if (launched_ranks > 0) {
        return bench_run_launched(&options);
    }
    if (bench_check_files(&options, &error) != COLL_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
        return BASE_EXIT_USAGE;
    }
    return bench_run(&options);
}
