/* rank: one peer of a job. The launcher starts it; it is never started by hand. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/exitcode.h"
#include "base/log.h"
#include "base/version.h"
#include "check.h"
#include "run.h"

static const char help[] = "rank: one peer of a Ringfence job.\n"
                           "\n"
                           "It is started by the launcher, which hands it the job and its keys; by "
                           "hand it can do nothing.\n"
                           "Try: launcher --ranks 2 --mode ddp-cpu\n"
                           "     launcher --help\n";

int main(int argc, char **argv)
{
    const int64_t started_ns = base_now_ns();
    base_log_init("");
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        (void)fputs(help, stdout);
        return BASE_EXIT_DONE;
    }
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        base_version_print("rank");
        (void)puts("GPU ranks: run on one GPU, not on several yet");
        return BASE_EXIT_DONE;
    }
    if (argc == 2 && strcmp(argv[1], "--check") == 0) {
        return rank_check_job();
    }
    if (argc == 3 && strcmp(argv[1], "--check-model") == 0) {
        return rank_check_model(argv[2]);
    }
    if (argc > 1) {
        base_log(BASE_LOG_ERROR, "rank takes no arguments (got %s); see rank --help", argv[1]);
        return BASE_EXIT_USAGE;
    }
    return rank_worker_run(started_ns);
}
