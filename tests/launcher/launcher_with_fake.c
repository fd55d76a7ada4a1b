/* The launcher with the fake rank instead of the real one. */
#include <signal.h>

#include "base/log.h"
#include "cli/cli.h"

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    base_log_init("launcher: ", BASE_LOG_INFO);
    return launch_cli(argc, argv, FAKE_RANK_PATH);
}
