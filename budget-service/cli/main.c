/* The budget-service program: hardens the process, then runs the command that was named. */
#include <signal.h>
#include <stdio.h>

#include "base/file.h"
#include "base/first_process.h"
#include "base/log.h"
#include "budget/harden.h"
#include "budget/token.h"
#include "cli.h"

int main(int argument_count, char **arguments)
{
    base_error error = {0};
    base_fd_open_standard();
    base_first_process_take_signals();
    (void)signal(SIGXFSZ, SIG_IGN); /* a file larger than ulimit -f allows is an error of write() */
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how the hook ended */
    base_log_init("budget-service: ");
    /* Before any command: every command may hold a key. */
    if (budget_harden_process(&error) != BASE_OK || budget_crypto_init(&error) != BASE_OK) {
        (void)fprintf(stderr, "budget-service: %s\n", error.message);
        return BASE_EXIT_ERROR;
    }
    return cli_main(argument_count, arguments);
}
