/* Bills in a few columns of our own, written by hand or by a script. bill.c has its row. */
#include "bills/csv.h"

static const bill_csv_column columns[] = {
    {"usd", COLUMN_COST},          {"label", COLUMN_LABEL},   {"instance_id", COLUMN_INSTANCE},
    {"line_id", COLUMN_LINE_ID},   {"time", COLUMN_TIME},     {"until", COLUMN_UNTIL},
    {"currency", COLUMN_CURRENCY}, {"vendor", COLUMN_VENDOR}, {NULL, COLUMN_NONE},
};

static const bill_csv kind = {
    .columns = columns,
    .any_case = true,
    .known_only = true,
    .lacking = "the header lacks the column usd",
};

static base_status read_own(char *text, bill_charges *charges, base_error *reterr)
{
    return bill_read_csv(text, &kind, charges, reterr);
}

const budget_bill_format bill_own = {.name = "csv", .read = read_own};
