/* The launcher with the fake rank instead of the real one. */
#include "base/log.h"
#include "cli/cli.h"

int main(int argc, char **argv)
{
    base_log_init("launcher: ");
    return launch_cli(argc, argv, FAKE_RANK_PATH);
}
