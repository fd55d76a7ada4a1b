/* Tells the time for receipts that were fetched before. DIR/clock keeps a point of budget/clock.h's
 * line, so that a wall clock that is set back makes no receipt valid again. Called by the command
 * `redeem` and by the launcher's lease. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/limits.h"
#include "budget/clock.h"
#include "budget/receipt.h"
#include "budget/secret_file.h"

enum { LINE_BYTES = 128 };

static bool parse_ms(const char *text, char end, const char **rest, int64_t *ms)
{
    char *stop = NULL;
    errno = 0;
    const long long got = strtoll(text, &stop, 10);
    *ms = got;
    *rest = stop + 1;
    return stop != text && *stop == end && errno == 0;
}

static bool parse(const char *line, budget_clock_anchor *point)
{
    const char *boot_id = line + strlen("v1 ");
    if (strncmp(line, "v1 ", strlen("v1 ")) != 0) {
        return false;
    }
    const size_t id_bytes = strcspn(boot_id, " ");
    const char *rest = boot_id + id_bytes + 1;
    if (id_bytes == 0 || id_bytes >= sizeof point->clock.boot_id || boot_id[id_bytes] != ' ') {
        return false;
    }
    memcpy(point->clock.boot_id, boot_id, id_bytes);
    return parse_ms(rest, ' ', &rest, &point->clock.boot_ms) &&
           parse_ms(rest, '\n', &rest, &point->ledger_ms);
}

/* "v1 BOOT_ID BOOT_MS WALL_MS". No file: *there is false. */
static base_status read_point(const char *path, budget_clock_anchor *point, bool *there,
                              base_error *reterr)
{
    char line[LINE_BYTES];
    size_t bytes = 0;
    const base_status status = budget_secret_file_read(path, line, sizeof line - 1, &bytes, reterr);
    *there = status == BASE_OK;
    if (status != BASE_OK) {
        return status == BASE_ERR_NOTFOUND ? BASE_OK : status;
    }
    line[bytes] = '\0';
    *point = (budget_clock_anchor){0};
    return parse(line, point) ? BASE_OK
                              : base_fail(reterr, BASE_ERR_INVALID, "%s is malformed", path);
}

static base_status write_point(const char *path, const budget_clock *now, int64_t now_ms,
                               base_error *reterr)
{
    char line[LINE_BYTES];
    const int length = snprintf(line, sizeof line, "v1 %s %" PRId64 " %" PRId64 "\n", now->boot_id,
                                now->boot_ms, now_ms);
    return base_file_write_as(path, &(base_file_kind){.mode_max = 0600, .durable = true}, line,
                              (size_t)length, reterr);
}

base_status budget_receipt_now(const char *dir, int64_t *now_s, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    budget_clock now;
    budget_clock_anchor point;
    bool there = false;
    if (snprintf(path, sizeof path, "%s/clock", dir) >= (int)sizeof path) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%s: too long a path", dir);
    }
    base_status status = budget_clock_read(&now, reterr);
    status = status == BASE_OK ? read_point(path, &point, &there, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    const int64_t line_ms = there ? budget_clock_ledger_ms(&point, &now) : now.wall_ms;
    const int64_t now_ms = line_ms > now.wall_ms ? line_ms : now.wall_ms;
    *now_s = now_ms / 1000;
    status = write_point(path, &now, now_ms, reterr);
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, status, "receipts keep the time beside them");
}
