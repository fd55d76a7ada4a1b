/* Ends a libFuzzer program when it has used FUZZ_CPU_SECONDS of processor time. libFuzzer's own
 * limit is by the clock, so on a busy machine, or beside other targets, most of it would be spent
 * waiting. Part of every fuzz program of the preset `fuzz`; libFuzzer calls it once, before the
 * first input. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

int LLVMFuzzerInitialize(int *argument_count, char ***arguments);

int LLVMFuzzerInitialize(int *argument_count, char ***arguments)
{
    const char *text = getenv("FUZZ_CPU_SECONDS");
    const struct itimerspec limit = {.it_value.tv_sec = text != NULL ? strtol(text, NULL, 10) : 0};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    (void)argument_count;
    (void)arguments;
    if (limit.it_value.tv_sec > 0 && (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0 ||
                                      timer_settime(timer, 0, &limit, NULL) != 0)) {
        abort();
    }
    return 0; /* on SIGUSR1 libFuzzer ends in order */
}
