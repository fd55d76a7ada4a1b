/* The request for the ledger's rows as lines of JSON, page by page. Called by access.c once the
 * caller's role allows it. */
#include <stdlib.h>
#include <string.h>

#include "budget/export.h"
#include "budget/wire.h"
#include "service.h"

enum { ROWS_AT_ONCE = 1024 };

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
