/* The time of a rent, and of an end. Setting this computer's clock changes none of it, and it goes
 * on while a laptop sleeps. One of a process; one thread. */
#ifndef RENT_CLOCK_H
#define RENT_CLOCK_H

#include <stdint.h>

/* Seconds of CLOCK_BOOTTIME. */
int64_t rent_clock_s(void);

/* Seconds since 1970 by the service's clock, by which it judges evidence; until that is known, by
 * this computer's, as it stood when it was first asked for. */
int64_t rent_time_s(void);

/* The service has said that it is service_s. */
void rent_time_set(int64_t service_s);

#endif
