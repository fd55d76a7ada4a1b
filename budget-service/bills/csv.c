/* Bills in CSV (RFC 4180). Called by the readers of FOCUS's columns, and of our own. */
#include <string.h>
#include <strings.h>

#include "bills/csv.h"

enum { COLUMNS_MAX = 256 };

typedef struct csv_reader {
    char *next;       /* unread text; NULL: all is read */
    size_t line_next; /* of the file, from 1: where the unread text begins */
    size_t line;      /* where the record begins */
    size_t count;
    char *fields[COLUMNS_MAX];
    bill_column columns[COLUMNS_MAX];
    size_t column_count;
} csv_reader;

/* Passes one byte: LF, CR LF and a CR alone end a line. */
static void count_line(csv_reader *reader, const char *at)
{
    reader->line_next += at[0] == '\n' || (at[0] == '\r' && at[1] != '\n') ? 1 : 0;
}

/* A field in quotes, unfolded in place. What follows it is at *rest; NULL: it does not end. */
static char *quoted_field(csv_reader *reader, char *field, char **rest)
{
    char *to = field;
    char *from = field + 1;
    while (*from != '\0') {
        if (*from == '"' && from[1] != '"') {
            *rest = from + 1;
            *to = '\0';
            return field;
        }
        from += *from == '"' ? 1 : 0;
        count_line(reader, from);
        *to++ = *from++;
    }
    *rest = NULL;
    return field;
}

/* One record into fields. *row: there was one; empty lines are passed over. */
static base_status next_record(csv_reader *reader, bool *row, base_error *reterr)
{
    while (reader->next != NULL && (*reader->next == '\n' || *reader->next == '\r')) {
        count_line(reader, reader->next++);
    }
    reader->count = 0;
    reader->line = reader->line_next;
    *row = reader->next != NULL && *reader->next != '\0';
    for (bool more = *row; more && reader->next != NULL;) {
        char *field = reader->next;
        char *rest = field;
        if (reader->count == COLUMNS_MAX) {
            return base_fail(reterr, BASE_ERR_INVALID, "it has too many columns");
        }
        if (*field == '"') {
            field = quoted_field(reader, field, &rest);
        } else {
            rest = field + strcspn(field, ",\r\n");
        }
        if (rest == NULL || strchr(",\r\n", *rest) == NULL) {
            return base_fail(reterr, BASE_ERR_INVALID, "a quoted field does not end as one");
        }
        more = *rest == ',';
        count_line(reader, rest);
        reader->next = *rest == '\0' ? NULL : rest + 1;
        *rest = '\0';
        reader->fields[reader->count++] = field;
    }
    return BASE_OK;
}

static bill_column column_named(const bill_csv *kind, const char *name)
{
    for (const bill_csv_column *at = kind->columns; at->name != NULL; at++) {
        if ((kind->any_case ? strcasecmp(name, at->name) : strcmp(name, at->name)) == 0) {
            return at->column;
        }
    }
    return COLUMN_NONE;
}

static base_status read_header(csv_reader *reader, const bill_csv *kind, base_error *reterr)
{
    bool seen[COLUMN_COUNT_] = {false};
    bool row = false;
    const base_status status = next_record(reader, &row, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (reader->count == 1 && strpbrk(reader->fields[0], ";\t") != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "commas must stand between columns, and a point in amounts");
    }
    for (size_t i = 0; i < reader->count; i++) {
        reader->columns[i] = column_named(kind, reader->fields[i]);
        if (kind->known_only && reader->columns[i] == COLUMN_NONE) {
            return base_fail(reterr, BASE_ERR_INVALID, "this format has no column \"%.32s\"",
                             reader->fields[i]);
        }
        if (reader->columns[i] != COLUMN_NONE && seen[reader->columns[i]]) {
            return base_fail(reterr, BASE_ERR_INVALID, "a column stands there twice");
        }
        seen[reader->columns[i]] = true;
    }
    reader->column_count = reader->count;
    if (!seen[COLUMN_COST] || (kind->needs_currency && !seen[COLUMN_CURRENCY])) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s", kind->lacking);
    }
    return BASE_OK;
}

static base_status read_record(const csv_reader *reader, const bill_csv *kind,
                               bill_charges *charges, base_error *reterr)
{
    const char *values[COLUMN_COUNT_] = {NULL};
    char label[BUDGET_LABEL_BYTES];
    if (reader->count != reader->column_count) {
        return base_fail(reterr, BASE_ERR_INVALID, "it has %zu columns, and the header %zu",
                         reader->count, reader->column_count);
    }
    for (size_t i = 0; i < reader->count; i++) {
        values[reader->columns[i]] = reader->fields[i];
    }
    label[0] = '\0';
    if (kind->label_of_tags != NULL) {
        kind->label_of_tags(values[COLUMN_TAGS], label, sizeof label);
    }
    const bill_line line = {
        .vendor = values[COLUMN_VENDOR],
        .line_id = values[COLUMN_LINE_ID],
        .label = label[0] != '\0' ? label : values[COLUMN_LABEL],
        .instance_id = values[COLUMN_INSTANCE],
        .cost = values[COLUMN_COST],
        .currency = values[COLUMN_CURRENCY],
        .time = values[COLUMN_TIME],
        .until = values[COLUMN_UNTIL],
        .about = {values[COLUMN_ABOUT_0], values[COLUMN_ABOUT_1], values[COLUMN_ABOUT_2],
                  kind->distinct_by_end ? values[COLUMN_UNTIL] : NULL},
        .correction = values[COLUMN_CORRECTION],
    };
    return bill_add(charges, &line, reterr);
}

base_status bill_read_csv(char *text, const bill_csv *kind, bill_charges *charges,
                          base_error *reterr)
{
    csv_reader reader = {.next = text, .line_next = 1};
    bool row = true;
    base_status status = read_header(&reader, kind, reterr);
    while (status == BASE_OK && row) {
        status = next_record(&reader, &row, reterr);
        if (status == BASE_OK && row) {
            status = read_record(&reader, kind, charges, reterr);
        }
    }
    return status == BASE_ERR_INVALID
               ? base_error_prepend(reterr, status, "bill, line %zu", reader.line)
               : status;
}
