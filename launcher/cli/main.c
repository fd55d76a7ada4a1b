/* launcher: starts a job's ranks, watches them, writes the record of the run. */
#include "base/file.h"
#include "base/first_process.h"
#include "base/log.h"
#include "cli/cli.h"

int main(int argc, char **argv)
{
    base_first_process_take_signals();
    base_fd_open_standard();
    base_log_init("launcher: ");
    return launch_cli(argc, argv, NULL);
}
