/* Appends to spend.jsonl what each commit adds, and makes the same lines for `export`. A line that
 * could not be appended is logged, and appended later: the ledger has it. Called by service.c after
 * each batch, and by access.c for a request. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "budget/export.h"
#include "budget/policy.h"
#include "budget/wire.h"
#include "service.h"

enum { ROWS_AT_ONCE = 1024, TAIL_BYTES = 4096 };

struct service_spend {
    int fd; /* -1: the policy names no file */
    char path[BASE_PATH_BYTES];
    uint64_t done; /* the rows up to this one are in the file */
    bool failed;   /* the last write; it is logged once, and tried again at every call */
};

static const char line_start[] = "{\"seq\":";

/* The end of the file: its last whole line, and what follows without a newline. */
typedef struct spend_end {
    char bytes[TAIL_BYTES + 1]; /* with NUL */
    off_t from;                 /* bytes[0] in the file */
    size_t line;                /* index where the last whole line begins, */
    size_t cut;                 /* and where it has ended; 0: there is none */
    size_t size_bytes;
} spend_end;

static void read_end(int fd, spend_end *end)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    *end = (spend_end){.from = size > TAIL_BYTES ? size - TAIL_BYTES : 0};
    const ssize_t got = pread(fd, end->bytes, TAIL_BYTES, end->from);
    end->size_bytes = got > 0 ? (size_t)got : 0;
    const char *newline = memrchr(end->bytes, '\n', end->size_bytes);
    if (newline != NULL) {
        end->cut = (size_t)(newline - end->bytes) + 1;
        const char *before = memrchr(end->bytes, '\n', end->cut - 1);
        end->line = before != NULL ? (size_t)(before - end->bytes) + 1 : 0;
    }
}

/* What follows the last newline is nothing, or the begin of a row. */
static bool cut_is_ours(const spend_end *end)
{
    const size_t start_bytes = strlen(line_start);
    const size_t cut_bytes = end->size_bytes - end->cut;
    return memcmp(end->bytes + end->cut, line_start,
                  cut_bytes < start_bytes ? cut_bytes : start_bytes) == 0;
}

/* A line that a crash or a full disk cut off is written anew. */
static void drop_cut_line(int fd)
{
    spend_end end;
    read_end(fd, &end);
    if (end.cut < end.size_bytes && cut_is_ours(&end)) {
        (void)!ftruncate(fd, end.from + (off_t)end.cut);
    }
}

/* A row as a line, if that row has one. */
typedef struct row_line {
    uint64_t sequence;
    bool made;
    char text[BUDGET_EXPORT_LINE_BYTES];
} row_line;

static bool make_line(void *context, const budget_row *row)
{
    row_line *line = context;
    line->made = row->sequence == line->sequence && budget_export_jsonl(row, line->text);
    return false;
}

/* *row: of the file's last whole line; 0: it is no row of this ledger. Compared is what identifies
 * the row, since an earlier service may have written less of the rest. */
static base_status find_last_row(budget_ledger *ledger, const spend_end *end, uint64_t *row,
                                 base_error *reterr)
{
    row_line expected;
    uint8_t head[BUDGET_DIGEST_BYTES];
    uint64_t newest = 0;
    const char *line = end->bytes + end->line;
    *row = 0;
    budget_ledger_head(ledger, &newest, head);
    if (strncmp(line, line_start, strlen(line_start)) != 0) {
        return BASE_OK;
    }
    expected = (row_line){.sequence = strtoull(line + strlen(line_start), NULL, 10)};
    if (expected.sequence == 0 || expected.sequence > newest) {
        return BASE_OK;
    }
    const base_status status =
        budget_ledger_rows(ledger, expected.sequence - 1, 1, make_line, &expected, reterr);
    if (status == BASE_OK && expected.made) {
        const char *rest = strstr(expected.text, ",\"account\":");
        const size_t bytes = rest != NULL ? (size_t)(rest - expected.text) : strlen(expected.text);
        *row = strncmp(line, expected.text, bytes) == 0 ? expected.sequence : 0;
    }
    return status;
}

/* Finds how far the file has the rows of this ledger. */
static base_status take_up(budget_ledger *ledger, struct service_spend *spend, base_error *reterr)
{
    spend_end end;
    read_end(spend->fd, &end);
    if (end.cut > 0) {
        const base_status status = find_last_row(ledger, &end, &spend->done, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    if ((end.cut > 0 && spend->done == 0) || !cut_is_ours(&end)) {
        return base_fail(reterr, BASE_ERR_MISMATCH,
                         "%s, which the policy names, ends with what this ledger did not write: "
                         "move it away, and the service makes it anew",
                         spend->path);
    }
    drop_cut_line(spend->fd);
    return BASE_OK;
}

static base_status make_parents(const char *path, base_error *reterr)
{
    char directory[BASE_PATH_BYTES];
    (void)snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash == NULL || slash == directory) {
        return BASE_OK;
    }
    *slash = '\0';
    return base_mkdirs(directory, reterr);
}

/* The policy may name any path: a mistyped one is noticed so. */
static void log_made(const char *path)
{
    char whole[PATH_MAX];
    base_log(BASE_LOG_INFO, "made %s, which the policy names (\"spend\")",
             realpath(path, whole) != NULL ? whole : path);
}

base_status service_spend_open(budget_service *service, base_error *reterr)
{
    const char *path = budget_policy_spend_path(service->policy);
    struct service_spend *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for spend.jsonl");
    }
    made->fd = -1;
    service->spend = made;
    if (path == NULL) {
        return BASE_OK;
    }
    /* A relative path is one of the directory that the service was started in. */
    const int length = snprintf(made->path, sizeof made->path, "%s", path);
    if (length >= (int)sizeof made->path) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%s: too long a path", path);
    }
    base_status status = make_parents(made->path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const bool is_new = access(made->path, F_OK) != 0;
    made->fd = open(made->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (made->fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s, which the policy names", made->path);
    }
    if (is_new) {
        log_made(made->path);
    }
    status = take_up(service->ledger, made, reterr);
    if (status == BASE_OK) {
        service_spend_follow(service);
    }
    return status;
}

static bool append_row(void *context, const budget_row *row)
{
    struct service_spend *spend = context;
    char line[BUDGET_EXPORT_LINE_BYTES];
    base_error why = {0};
    if (budget_export_jsonl(row, line)) {
        const bool failed_before = spend->failed;
        spend->failed = base_fd_write(spend->fd, spend->path, line, strlen(line), &why) != BASE_OK;
        if (spend->failed && !failed_before) {
            base_log(BASE_LOG_ERROR, "%s; the ledger has it, and export makes it again",
                     why.message);
        }
        if (spend->failed) {
            return false;
        }
    }
    spend->done = row->sequence;
    return true;
}

void service_spend_follow(budget_service *service)
{
    struct service_spend *spend = service->spend;
    uint64_t newest = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    base_error why = {0};
    if (spend->fd < 0) {
        return;
    }
    budget_ledger_head(service->ledger, &newest, head);
    for (uint64_t before = UINT64_MAX; spend->done < newest && spend->done != before;) {
        before = spend->done;
        if (spend->failed) {
            drop_cut_line(spend->fd);
        }
        if (budget_ledger_rows(service->ledger, spend->done, ROWS_AT_ONCE, append_row, spend,
                               &why) != BASE_OK) {
            base_log(BASE_LOG_ERROR, "%s", why.message);
            return;
        }
    }
}

void service_spend_close(budget_service *service)
{
    if (service->spend != NULL) {
        if (service->spend->fd >= 0) {
            (void)close(service->spend->fd);
        }
        free(service->spend);
        service->spend = NULL;
    }
}

/* A page of export: lines, and how far it went. */
typedef struct export_page {
    service_item *item;
    Ringfence__Budget__Event rows[BUDGET_PAGE_MAX];
    Ringfence__Budget__Event *pointers[BUDGET_PAGE_MAX];
    char lines[BUDGET_PAGE_MAX][BUDGET_EXPORT_LINE_BYTES];
    size_t count;
    uint64_t last;
} export_page;

static bool collect_row(void *context, const budget_row *row)
{
    export_page *page = context;
    char *line = page->lines[page->count];
    if (budget_export_jsonl(row, line)) {
        line[strcspn(line, "\n")] = '\0';
        Ringfence__Budget__Event *event = &page->rows[page->count];
        ringfence__budget__event__init(event);
        event->sequence = row->sequence;
        event->line = line;
        page->pointers[page->count++] = event;
    }
    page->last = row->sequence;
    return page->count < BUDGET_PAGE_MAX;
}

base_status service_export(budget_service *service, const service_question *question,
                           service_item *item, base_error *reterr)
{
    Ringfence__Budget__Events events = RINGFENCE__BUDGET__EVENTS__INIT;
    uint8_t head[BUDGET_DIGEST_BYTES];
    uint64_t newest = 0;
    export_page *page = calloc(1, sizeof *page);
    if (page == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a page of the ledger");
    }
    budget_ledger_head(service->ledger, &newest, head);
    page->last = question->request->export->after_sequence;
    base_status status =
        budget_ledger_rows(service->ledger, page->last, ROWS_AT_ONCE, collect_row, page, reterr);
    if (status == BASE_OK) {
        events.events = page->pointers;
        events.n_events = page->count;
        events.next = page->last < newest ? page->last : 0;
        status = service_item_done(item, &events.base, reterr);
    }
    free(page);
    return status;
}
