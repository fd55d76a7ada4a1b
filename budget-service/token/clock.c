/* Reads the clocks and advances ledger time, which never goes back. Called by the ledger, the
 * server and receipt_clock.c. */
#include "budget/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"

static int64_t clock_ms(clockid_t id)
{
    struct timespec now = {0};
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

base_status budget_clock_read(budget_clock *clock, base_error *reterr)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    budget_clock now = {.wall_ms = clock_ms(CLOCK_REALTIME), .boot_ms = clock_ms(CLOCK_BOOTTIME)};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    const ssize_t got = read(fd, now.boot_id, sizeof now.boot_id - 1);
    (void)close(fd);
    if (got < 36) {
        return base_fail(reterr, BASE_ERR_IO, "%s is too short", path);
    }
    now.boot_id[36] = '\0';
    *clock = now;
    return BASE_OK;
}

int64_t budget_clock_ledger_ms(const budget_clock_anchor *anchor, const budget_clock *clock)
{
    int64_t passed = clock->boot_ms - anchor->clock.boot_ms;
    if (strcmp(anchor->clock.boot_id, clock->boot_id) != 0) {
        const int64_t wall = clock->wall_ms - (anchor->ledger_ms + anchor->offset_ms);
        passed = wall > clock->boot_ms ? wall : clock->boot_ms;
    }
    return anchor->ledger_ms + (passed > 0 ? passed : 0);
}

int64_t budget_clock_skew_ms(const budget_clock_anchor *anchor, const budget_clock *clock)
{
    return clock->wall_ms - (budget_clock_ledger_ms(anchor, clock) + anchor->offset_ms);
}

void budget_clock_advance(budget_clock_anchor *anchor, const budget_clock *clock)
{
    const int64_t before_ms = anchor->ledger_ms;
    anchor->ledger_ms = budget_clock_ledger_ms(anchor, clock);
    BASE_ASSERT(anchor->ledger_ms >= before_ms);
    anchor->clock = *clock;
}

void budget_clock_repair(budget_clock_anchor *anchor, const budget_clock *clock)
{
    budget_clock_advance(anchor, clock);
    anchor->offset_ms = clock->wall_ms - anchor->ledger_ms;
}
