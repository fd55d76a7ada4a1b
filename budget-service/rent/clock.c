/* Keeps the service's time on a clock that nobody can set. Called by rent.c, end.c, held.c,
 * command.c, watchdog.c and cli/rent.c. */
#include "clock.h"

#include <stdbool.h>
#include <time.h>

#include "budget/time.h"

static int64_t ahead_s; /* of rent_clock_s; valid if is_set */
static bool is_set;

int64_t rent_clock_s(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec;
}

int64_t rent_time_s(void)
{
    if (!is_set) {
        rent_time_set(budget_time_now());
    }
    return rent_clock_s() + ahead_s;
}

void rent_time_set(int64_t service_s)
{
    ahead_s = service_s - rent_clock_s();
    is_set = true;
}
