/* What bills in JSON have in common: a list of objects, one for each line. */
#ifndef BUDGET_BILL_JSON_H
#define BUDGET_BILL_JSON_H

#include <jansson.h>

#include "bills/bill_core.h"

/* Fills line from an object, number and currency apart. *wanted is true before. */
typedef base_status (*bill_line_reader)(const json_t *object, bill_line *line, bool *wanted,
                                        base_error *reterr);

BASE_MUST_CHECK base_status bill_read_json(const char *text, bill_line_reader read,
                                           bill_charges *charges, base_error *reterr);

/* The first of the members (a list that ends with NULL) that is a text, or was a number. */
const char *bill_first_text(const json_t *object, const char *const *keys);

#define BILL_FIRST(object, ...) bill_first_text(object, (const char *const[]){__VA_ARGS__, NULL})

#endif
