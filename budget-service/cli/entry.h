/* An authorization as text and as JSON: for running.c and reading.c. */
#ifndef BUDGET_CLI_ENTRY_H
#define BUDGET_CLI_ENTRY_H

#include <jansson.h>
#include <stdio.h>

#include "budget/shape.h"

enum { ENTRY_SPAN_BYTES = 48 };

/* "43 min", "2 h 5 min", "3 days"; without a sign. Returns text. */
const char *entry_span(int64_t seconds, char text[ENTRY_SPAN_BYTES]);

/* "pod-1 pod-2", with "(2 of 3 attached)" where some are missing. */
void entry_put_instances(const budget_entry *entry, FILE *stream);

/* An unknown cost is null, and so is a time that has not come. */
json_t *entry_json(const budget_entry *entry);

#endif
