/* Loaded into a program by LD_PRELOAD: SIGUSR2 makes a thread stand still for ever, as a driver or a file
 * system that hangs would. */
#include <signal.h>
#include <unistd.h>

static void hang(int signal_number)
{
    (void)signal_number;
    for (;;) {
        (void)pause();
    }
}

__attribute__((constructor)) static void prepare(void)
{
    (void)signal(SIGUSR2, hang);
}
