/* coll-simulate: schedules on paper networks; sweep.h, network.h and trace.h say how. */
#include <stdio.h>

#include "base/exitcode.h"
#include "base/file.h"
#include "base/log.h"
#include "base/version.h"
#include "options.h"
#include "ringfence/coll_error.h"

int main(int argc, char **argv)
{
    static sweep result;
    static sweep_options options;
    base_error usage;
    coll_error error;
    base_log_init("coll-simulate: ");
    if (sweep_options_parse(argc, argv, &options, &usage) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s; try coll-simulate --help", usage.message);
        return BASE_EXIT_USAGE;
    }
    if (options.help) {
        sweep_options_help(stdout);
        return BASE_EXIT_DONE;
    }
    if (options.version) {
        base_version_print("coll-simulate");
        return BASE_EXIT_DONE;
    }
    if (options.plot_path[0] != '\0' &&
        base_file_check_writable(options.plot_path, &usage) != BASE_OK) {
        base_log(BASE_LOG_ERROR, "%s", usage.message);
        return BASE_EXIT_USAGE;
    }
    coll_status status = options.trace.asked ? sweep_trace(&options, stdout, &error)
                                             : sweep_run(&options, stdout, &result, &error);
    if (status == COLL_OK && !options.trace.asked && options.plot_path[0] != '\0') {
        status = sweep_plot(&options, &result, &error);
    }
    if (status == COLL_OK && (fflush(stdout) != 0 || ferror(stdout) != 0)) {
        status = coll_fail(&error, COLL_ERR_IO, "cannot write to standard output");
    }
    if (status != COLL_OK) {
        base_log(BASE_LOG_ERROR, "%s", error.message);
    }
    return status == COLL_OK ? BASE_EXIT_DONE : BASE_EXIT_ERROR;
}
