/* Whether the processor's time stamp counter can be used as a clock. Called by flight.c. */
#include "diagnose/flight.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool coll_tsc_is_invariant(void)
{
#if defined(__x86_64__)
    enum { ADVANCED_POWER_MANAGEMENT = 0x80000007, INVARIANT_TSC = 1 << 8 }; /* in EDX */
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid((unsigned)ADVANCED_POWER_MANAGEMENT, &eax, &ebx, &ecx, &edx) != 0 &&
           (edx & INVARIANT_TSC) != 0;
#else
    return false;
#endif
}
