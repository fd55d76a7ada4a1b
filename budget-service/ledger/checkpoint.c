/* Writes and checks the checkpoint file, one line for each commit:
 *     v1 SEQUENCE HEAD TIME KID SIGNATURE
 * Head and signature are in hex, the time in seconds. The signature is over
 * "ringfence/checkpoint/v1 SEQUENCE HEAD TIME". Lines are only appended, so a copy that is kept
 * elsewhere shows when somebody puts an older ledger in place. Called by ledger.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sync.h"
#include "budget/checkpoint.h"
#include "ledger_core.h"

enum {
    LINE_BYTES = 512,
    MESSAGE_BYTES = 256,
    HEX_BYTES = 2 * BUDGET_DIGEST_BYTES + 1,
    SIGNATURE_BYTES = 64,
    ACCEPTANCE_BYTES = 16,
    REASON_BYTES_MAX = 300, /* of what the journal and the refusal say of it */
};

typedef struct checkpoint {
    uint64_t sequence;
    int64_t time_s;
    uint8_t head[BUDGET_DIGEST_BYTES];
    char kid[BUDGET_KID_BYTES];
    uint8_t signature[SIGNATURE_BYTES];
} checkpoint;

static size_t format_message(const checkpoint *point, char message[MESSAGE_BYTES])
{
    char head[HEX_BYTES];
    (void)sodium_bin2hex(head, sizeof head, point->head, sizeof point->head);
    return (size_t)snprintf(message, MESSAGE_BYTES,
                            "ringfence/checkpoint/v1 %" PRIu64 " %s %" PRId64, point->sequence,
                            head, point->time_s);
}

static bool parse_hex(const char *text, uint8_t *bytes, size_t size_bytes)
{
    size_t got = 0;
    const char *end = NULL;
    return sodium_hex2bin(bytes, size_bytes, text, strlen(text), NULL, &got, &end) == 0 &&
           got == size_bytes && *end == '\0';
}

/* One field of the line; NULL when there is none left. */
static char *field(char **rest)
{
    char *start = *rest;
    if (start == NULL || *start == '\0') {
        return NULL;
    }
    char *space = strchr(start, ' ');
    *rest = space != NULL ? space + 1 : NULL;
    if (space != NULL) {
        *space = '\0';
    }
    return start;
}

static bool parse_line(char *line, checkpoint *point)
{
    char *fields[6] = {NULL};
    char *rest = line;
    char *end = NULL;
    memset(point, 0, sizeof *point);
    for (int i = 0; i < 6; i++) {
        fields[i] = field(&rest);
        if (fields[i] == NULL) {
            return false;
        }
    }
    if (rest != NULL || strcmp(fields[0], "v1") != 0 || strlen(fields[4]) >= sizeof point->kid) {
        return false;
    }
    errno = 0;
    point->sequence = strtoull(fields[1], &end, 10);
    if (*end != '\0' || errno != 0 || point->sequence > INT64_MAX) {
        return false;
    }
    point->time_s = strtoll(fields[3], &end, 10);
    (void)snprintf(point->kid, sizeof point->kid, "%s", fields[4]);
    return *end == '\0' && errno == 0 && parse_hex(fields[2], point->head, sizeof point->head) &&
           parse_hex(fields[5], point->signature, sizeof point->signature);
}

static base_status check_point(budget_ledger *ledger, const char *path, const checkpoint *point,
                               base_error *reterr)
{
    char message[MESSAGE_BYTES];
    base_status status = BASE_OK;
    if (ledger->signer.verify != NULL) {
        const size_t bytes = format_message(point, message);
        status = ledger->signer.verify(ledger->signer.context, message, bytes, point->signature,
                                       point->kid, reterr);
        if (status != BASE_OK) {
            (void)base_error_prepend(reterr, status, "%s: the checkpoint of row %" PRIu64, path,
                                     point->sequence);
            return BASE_ERR_MISMATCH;
        }
    }
    status = budget_ledger_remembers(ledger, point->sequence, point->head, reterr);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "%s", path);
}

/* The last whole line of the file; a torn one behind it is cut off. */
static base_status read_last(budget_ledger *ledger, char line[LINE_BYTES], base_error *reterr)
{
    char tail[2 * LINE_BYTES + 1];
    struct stat info;
    line[0] = '\0';
    if (fstat(ledger->checkpoint_fd, &info) != 0) {
        return base_fail_errno(reterr, errno, "cannot look at %s", ledger->checkpoint_path);
    }
    const off_t from = info.st_size > 2 * LINE_BYTES ? info.st_size - 2 * LINE_BYTES : 0;
    const ssize_t got = pread(ledger->checkpoint_fd, tail, sizeof tail - 1, from);
    if (got < 0) {
        return base_fail_errno(reterr, errno, "cannot read %s", ledger->checkpoint_path);
    }
    size_t length = (size_t)got;
    while (length > 0 && tail[length - 1] != '\n') {
        length--;
    }
    if (length != (size_t)got && ftruncate(ledger->checkpoint_fd, from + (off_t)length) != 0) {
        return base_fail_errno(reterr, errno, "cannot mend %s", ledger->checkpoint_path);
    }
    if (length > 0) {
        tail[length - 1] = '\0';
        const char *newline = strrchr(tail, '\n');
        (void)snprintf(line, LINE_BYTES, "%s", newline != NULL ? newline + 1 : tail);
    }
    return BASE_OK;
}

static base_status compare(budget_ledger *ledger, const char *line, base_error *reterr)
{
    checkpoint point;
    int64_t reservations = 0;
    if (line == NULL) {
        return base_fail(reterr, BASE_ERR_MISMATCH, "%s is missing", ledger->checkpoint_path);
    }
    if (line[0] != '\0') {
        char parsed[LINE_BYTES];
        (void)snprintf(parsed, sizeof parsed, "%s", line);
        return parse_line(parsed, &point)
                   ? check_point(ledger, ledger->checkpoint_path, &point, reterr)
                   : base_fail(reterr, BASE_ERR_MISMATCH, "%s: its last line is malformed",
                               ledger->checkpoint_path);
    }
    const base_status status =
        store_number(&ledger->store, reterr, SQL_RESERVATION_LAST, &reservations, "");
    if (status == BASE_OK && reservations > 0 && ledger->signer.verify != NULL) {
        return base_fail(reterr, BASE_ERR_MISMATCH, "%s is empty, and the ledger is not",
                         ledger->checkpoint_path);
    }
    return status;
}

/* What an admin accepts: this head of the ledger beside this last line of the checkpoints. */
static void digest_both(const budget_ledger *ledger, const char *line,
                        char hex[2 * ACCEPTANCE_BYTES + 1])
{
    static const char context[] = "ringfence/accept-checkpoint/v1";
    const char *found = line != NULL ? line : "missing";
    uint8_t digest[ACCEPTANCE_BYTES];
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, sizeof digest);
    (void)crypto_generichash_update(&state, (const uint8_t *)context, sizeof context);
    (void)crypto_generichash_update(&state, ledger->head, sizeof ledger->head);
    (void)crypto_generichash_update(&state, (const uint8_t *)found, strlen(found));
    (void)crypto_generichash_final(&state, digest, sizeof digest);
    (void)sodium_bin2hex(hex, 2 * ACCEPTANCE_BYTES + 1, digest, sizeof digest);
}

/* What does not fit is accepted by its digest, or where the ledger is only a copy. */
static base_status accept(const budget_ledger *ledger, const budget_ledger_options *options,
                          const char *line, base_error *found, base_error *reterr)
{
    char digest[2 * ACCEPTANCE_BYTES + 1];
    const char *accepted = options->accept_checkpoint;
    base_error reason = *found;
    digest_both(ledger, line, digest);
    (void)base_fail(found, BASE_ERR_MISMATCH, "%s: %.*s", digest, REASON_BYTES_MAX, reason.message);
    if (options->any_checkpoint || (accepted != NULL && strcmp(accepted, digest) == 0)) {
        return BASE_OK;
    }
    return base_fail(
        reterr, BASE_ERR_MISMATCH,
        "%.*s; %scompare ledger and checkpoints with the copies that you keep; an "
        "admin who has looked goes on with: serve --accept-checkpoint %s",
        REASON_BYTES_MAX, reason.message,
        accepted != NULL ? "this is not what was accepted with --accept-checkpoint; " : "", digest);
}

base_status checkpoint_create(budget_ledger *ledger, base_error *reterr)
{
    ledger->checkpoint_fd =
        open(ledger->checkpoint_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    return ledger->checkpoint_fd >= 0
               ? base_sync_parent(ledger->checkpoint_path, reterr)
               : base_fail_errno(reterr, errno, "cannot make %s", ledger->checkpoint_path);
}

base_status checkpoint_sync(const budget_ledger *ledger, base_error *reterr)
{
    return fsync(ledger->checkpoint_fd) == 0
               ? BASE_OK
               : base_fail_errno(reterr, errno, "cannot write %s to disk", ledger->checkpoint_path);
}

base_status checkpoint_open(budget_ledger *ledger, const budget_ledger_options *options,
                            base_error *accepted, base_error *reterr)
{
    char line[LINE_BYTES];
    base_status status = BASE_OK;
    accepted->message[0] = '\0';
    ledger->checkpoint_fd =
        open(ledger->checkpoint_path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    const bool missing = ledger->checkpoint_fd < 0;
    if (missing && errno != ENOENT) {
        return base_fail_errno(reterr, errno, "cannot open %s", ledger->checkpoint_path);
    }
    if (!missing) {
        status = read_last(ledger, line, reterr);
    }
    if (status == BASE_OK) {
        status = compare(ledger, missing ? NULL : line, accepted);
        if (status == BASE_ERR_MISMATCH) {
            status = accept(ledger, options, missing ? NULL : line, accepted, reterr);
        } else if (status != BASE_OK) {
            (void)base_fail(reterr, status, "%s", accepted->message);
        }
    }
    if (status != BASE_OK || !missing) {
        return status;
    }
    return checkpoint_create(ledger, reterr);
}

/* A line that cannot be written whole costs the commit its answer: the head would be unknown
 * outside. The row is on disk, so the ledger is broken then, and a retry after the restart finds
 * it. */
base_status checkpoint_append(budget_ledger *ledger, uint64_t sequence,
                              const uint8_t head[BUDGET_DIGEST_BYTES], base_error *reterr)
{
    char message[MESSAGE_BYTES];
    char line[LINE_BYTES];
    char hex[HEX_BYTES];
    char signature[2 * SIGNATURE_BYTES + 1];
    checkpoint point = {.sequence = sequence, .time_s = ledger->now.wall_ms / 1000};
    if (ledger->signer.sign == NULL) {
        return BASE_OK;
    }
    memcpy(point.head, head, sizeof point.head);
    const size_t bytes = format_message(&point, message);
    base_status status = ledger->signer.sign(ledger->signer.context, message, bytes,
                                             point.signature, point.kid, reterr);
    if (status != BASE_OK) {
        return status;
    }
    (void)sodium_bin2hex(signature, sizeof signature, point.signature, SIGNATURE_BYTES);
    (void)sodium_bin2hex(hex, sizeof hex, head, BUDGET_DIGEST_BYTES);
    const int length = snprintf(line, sizeof line, "v1 %" PRIu64 " %s %" PRId64 " %s %s\n",
                                sequence, hex, point.time_s, point.kid, signature);
    const off_t end = lseek(ledger->checkpoint_fd, 0, SEEK_END);
    status =
        base_fd_write(ledger->checkpoint_fd, ledger->checkpoint_path, line, (size_t)length, reterr);
    if (status != BASE_OK && end >= 0) {
        (void)!ftruncate(ledger->checkpoint_fd, end);
    }
    return status;
}

static base_status check_lines(budget_ledger *ledger, const char *path, char *text,
                               uint64_t *newest, base_error *reterr)
{
    size_t number = 0;
    for (char *line = text; line != NULL && *line != '\0'; number++) {
        checkpoint point;
        char *newline = strchr(line, '\n');
        if (newline == NULL) {
            break; /* torn by a crash */
        }
        *newline = '\0';
        if (!parse_line(line, &point)) {
            return base_fail(reterr, BASE_ERR_MISMATCH, "%s: line %zu is malformed", path,
                             number + 1);
        }
        const base_status status = check_point(ledger, path, &point, reterr);
        if (status != BASE_OK) {
            return status;
        }
        *newest = point.sequence > *newest ? point.sequence : *newest;
        line = newline + 1;
    }
    return BASE_OK;
}

base_status budget_checkpoint_check(budget_ledger *ledger, const char *path, uint64_t *newest,
                                    base_error *reterr)
{
    void *text = NULL;
    size_t bytes = 0;
    *newest = 0;
    base_status status =
        base_file_read(path, BUDGET_CHECKPOINT_FILE_BYTES_MAX, &text, &bytes, reterr);
    if (status == BASE_OK) {
        status = check_lines(ledger, path, text, newest, reterr);
    }
    free(text);
    return status;
}
