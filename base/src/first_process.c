/* Ends process 1 of a container by signals that end any other process. Called by main of launcher
 * and budget-service. */
#include "base/first_process.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/exitcode.h"

static void end(int number)
{
    _exit(BASE_EXIT_SIGNAL_BASE + number);
}

void base_first_process_take_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    if (getpid() != 1) {
        return;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
            (void)signal(numbers[i], end);
        }
    }
}
