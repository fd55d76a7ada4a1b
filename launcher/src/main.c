/* launcher: starts a job's ranks, watches them, writes the record of the run. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "launch/cli.h"

/* Whoever started us may have closed them; a descriptor of ours must not land there. */
static void open_standard_descriptors(void)
{
    int fd = 0;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write() */
    base_log_init("launcher: ", BASE_LOG_INFO);
    return launch_cli(argc, argv, NULL);
}
