/* An authorization as text and as JSON: for running.c and reading.c. */
#ifndef BUDGET_CLI_ENTRY_H
#define BUDGET_CLI_ENTRY_H

#include <jansson.h>
#include <stdio.h>

#include "budget/shape.h"

/* "pod-1 pod-2", with "(2 of 3 attached)" where some are missing. */
void entry_put_instances(const budget_entry *entry, FILE *stream);

/* An unknown cost is null, and so is a time that has not come. */
json_t *entry_json(const budget_entry *entry);

#endif
