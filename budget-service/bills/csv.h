/* What bills in CSV have in common: a header that says what the columns are. */
#ifndef BUDGET_BILL_CSV_H
#define BUDGET_BILL_CSV_H

#include "bills/bill_core.h"

typedef enum bill_column {
    COLUMN_NONE,
    COLUMN_VENDOR,
    COLUMN_LINE_ID,
    COLUMN_LABEL,
    COLUMN_INSTANCE,
    COLUMN_COST,
    COLUMN_TIME,
    COLUMN_UNTIL,
    COLUMN_CURRENCY,
    COLUMN_TAGS,
    COLUMN_ABOUT_0,
    COLUMN_ABOUT_1,
    COLUMN_ABOUT_2,
    COLUMN_CORRECTION,
    COLUMN_COUNT_,
} bill_column;

typedef struct bill_csv_column {
    const char *name;
    bill_column column;
} bill_csv_column;

/* One kind of CSV. */
typedef struct bill_csv {
    const bill_csv_column *columns; /* the last has no name */
    bool any_case;                  /* their names may be in capitals or not */
    bool needs_currency;
    bool known_only;      /* a column that is not among them is an error: people write it by hand */
    bool distinct_by_end; /* a line's end distinguishes it from others */
    const char *lacking;  /* what to say of a header without a column that must be there */
    /* A label among the tags, cut to fit; empty when there is none. NULL: there are no tags. */
    void (*label_of_tags)(const char *tags, char *label, size_t label_bytes);
} bill_csv;

/* text is changed. */
BASE_MUST_CHECK base_status bill_read_csv(char *text, const bill_csv *kind, bill_charges *charges,
                                          base_error *reterr);

#endif
