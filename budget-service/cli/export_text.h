/* What `export` prints, made of what the service answers to a client. */
#ifndef BUDGET_CLI_EXPORT_TEXT_H
#define BUDGET_CLI_EXPORT_TEXT_H

#include <stdbool.h>

#include "budget/client.h"

typedef enum export_format {
    EXPORT_JSONL,    /* a line of JSON for each row */
    EXPORT_HLEDGER,  /* a journal: each cost is an expense of its account */
    EXPORT_MARKDOWN, /* the budget page: accounts, and every run */
} export_format;

bool export_format_parse(const char *name, export_format *format);

/* *text is malloc'ed, the caller frees it; NULL unless granted. */
BASE_MUST_CHECK budget_verdict export_text(budget_client *client, export_format format, char **text,
                                           base_error *why);

#endif
