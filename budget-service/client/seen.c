/* Stores the newest ledger row that a client has seen, to notice a ledger set back to an older
 * state. Called by client.c around each answer. */
#include "seen.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/lock.h"
#include "proto/digest.h"

enum {
    SEQUENCE_DIGITS = 20,
    HEX = 2 * BUDGET_DIGEST_BYTES,
    CHECKED_BYTES = SEQUENCE_DIGITS + 1 + HEX,
    LINE_BYTES = CHECKED_BYTES + 1 + HEX + 1,
};

base_status budget_seen_open(const char *path, budget_seen *seen, base_error *reterr)
{
    (void)snprintf(seen->path, sizeof seen->path, "%s", path);
    seen->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    return seen->fd >= 0 ? BASE_OK
                         : base_fail_errno(reterr, errno,
                                           "cannot open %s, which remembers the "
                                           "ledger's newest row",
                                           path);
}

void budget_seen_close(budget_seen *seen)
{
    base_fd_close(&seen->fd);
}

static void format(const budget_seen_row *row, char line[LINE_BYTES + 1])
{
    uint8_t check[BUDGET_DIGEST_BYTES];
    char head[HEX + 1];
    char check_hex[HEX + 1];
    (void)sodium_bin2hex(head, sizeof head, row->head, sizeof row->head);
    (void)snprintf(line, LINE_BYTES + 1, "%0*" PRIu64 " %s", SEQUENCE_DIGITS, row->sequence, head);
    proto_blake2b256(line, CHECKED_BYTES, check);
    (void)sodium_bin2hex(check_hex, sizeof check_hex, check, sizeof check);
    (void)snprintf(line + CHECKED_BYTES, LINE_BYTES + 1 - CHECKED_BYTES, " %s\n", check_hex);
}

static bool parse(const char line[LINE_BYTES + 1], budget_seen_row *row)
{
    char again[LINE_BYTES + 1];
    budget_seen_row got = {0};
    size_t head_bytes = 0;
    for (int i = 0; i < SEQUENCE_DIGITS; i++) {
        if (line[i] < '0' || line[i] > '9') {
            return false;
        }
        got.sequence = got.sequence * 10 + (uint64_t)(line[i] - '0');
    }
    if (sodium_hex2bin(got.head, sizeof got.head, line + SEQUENCE_DIGITS + 1, HEX, NULL,
                       &head_bytes, NULL) != 0 ||
        head_bytes != sizeof got.head) {
        return false;
    }
    format(&got, again);
    if (memcmp(again, line, LINE_BYTES) != 0) {
        return false;
    }
    *row = got;
    return true;
}

static base_status read_row(const budget_seen *seen, budget_seen_row *row, base_error *reterr)
{
    char line[LINE_BYTES + 1] = "";
    const ssize_t got = pread(seen->fd, line, LINE_BYTES, 0);
    *row = (budget_seen_row){0};
    if (got < 0) {
        return base_fail_errno(reterr, errno, "cannot read what was remembered of the ledger");
    }
    if (got != 0 && (got != LINE_BYTES || !parse(line, row))) {
        return base_fail(
            reterr, BASE_ERR_INVALID,
            "%s, which remembers the ledger's newest row, is damaged; " BUDGET_SEEN_ADVICE " it",
            seen->path);
    }
    return BASE_OK;
}

static base_status take_lock(const budget_seen *seen, base_error *reterr)
{
    return base_lock_wait(seen->fd, "what is remembered of the ledger", reterr);
}

base_status budget_seen_read(const budget_seen *seen, budget_seen_row *row, base_error *reterr)
{
    base_status status = take_lock(seen, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = read_row(seen, row, reterr);
    base_lock_drop(seen->fd);
    return status;
}

/* The first row makes the file longer, so it may be cut where the disk is full. It was empty before, and
 * gets so again; else it would be a damaged one for ever. */
static base_status write_row(const budget_seen *seen, const budget_seen_row *row, bool is_first,
                             base_error *reterr)
{
    char line[LINE_BYTES + 1];
    format(row, line);
    const ssize_t put = pwrite(seen->fd, line, LINE_BYTES, 0);
    if (put == LINE_BYTES) {
        return BASE_OK;
    }
    const base_status status = base_fail_errno(reterr, put < 0 ? errno : ENOSPC,
                                               "cannot remember the ledger's newest row");
    if (is_first) {
        (void)!ftruncate(seen->fd, 0);
    }
    return status;
}

base_status budget_seen_update(const budget_seen *seen, const budget_seen_row *row,
                               base_error *reterr)
{
    budget_seen_row old;
    base_status status = take_lock(seen, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = read_row(seen, &old, reterr);
    if (status == BASE_OK && row->sequence > old.sequence) {
        status = write_row(seen, row, old.sequence == 0, reterr);
    }
    base_lock_drop(seen->fd);
    return status;
}
