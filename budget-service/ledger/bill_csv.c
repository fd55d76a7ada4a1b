/* Bills in CSV (RFC 4180): FOCUS's columns, or a few of our own. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "bill_core.h"

enum { COLUMNS_MAX = 256 };

typedef enum column {
    COLUMN_NONE,
    COLUMN_LINE_ID,
    COLUMN_LABEL,
    COLUMN_INSTANCE,
    COLUMN_COST,
    COLUMN_TIME,
    COLUMN_CURRENCY,
    COLUMN_TAGS,
    COLUMN_ABOUT_0,
    COLUMN_ABOUT_1,
    COLUMN_ABOUT_2,
    COLUMN_ABOUT_3,
    COLUMN_COUNT_,
} column;

static const struct {
    const char *name;
    column column;
} focus_columns[] =
    {
        {"BilledCost", COLUMN_COST},
        {"BillingCurrency", COLUMN_CURRENCY},
        {"ResourceId", COLUMN_INSTANCE},
        {"ResourceName", COLUMN_LABEL},
        {"Tags", COLUMN_TAGS},
        {"ChargePeriodStart", COLUMN_TIME},
        {"x_LineId", COLUMN_LINE_ID},
        {"SkuId", COLUMN_ABOUT_0},
        {"ChargeCategory", COLUMN_ABOUT_1},
        {"ChargeDescription", COLUMN_ABOUT_2},
        {"ChargePeriodEnd", COLUMN_ABOUT_3},
},
  own_columns[] = {
      {"usd", COLUMN_COST},        {"label", COLUMN_LABEL}, {"instance_id", COLUMN_INSTANCE},
      {"line_id", COLUMN_LINE_ID}, {"time", COLUMN_TIME},   {"currency", COLUMN_CURRENCY},
};

typedef struct csv_reader {
    char *next; /* unread text; NULL: all is read */
    size_t number;
    size_t count;
    char *fields[COLUMNS_MAX];
    column columns[COLUMNS_MAX];
    size_t column_count;
} csv_reader;

static base_status bad(const csv_reader *reader, base_error *reterr, const char *what)
{
    return base_fail(reterr, BASE_ERR_INVALID, "bill, line %zu: %s", reader->number, what);
}

/* A field in quotes, unfolded in place. What follows it is at *rest; NULL: it does not end. */
static char *quoted_field(char *field, char **rest)
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
        *to++ = *from++;
    }
    *rest = NULL;
    return field;
}

/* One record into fields. *row: there was one; empty lines are passed over. */
static base_status next_record(csv_reader *reader, bool *row, base_error *reterr)
{
    while (reader->next != NULL && (*reader->next == '\n' || *reader->next == '\r')) {
        reader->next++;
    }
    reader->count = 0;
    reader->number++;
    *row = reader->next != NULL && *reader->next != '\0';
    for (bool more = *row; more && reader->next != NULL;) {
        char *field = reader->next;
        char *rest = field;
        if (reader->count == COLUMNS_MAX) {
            return bad(reader, reterr, "it has too many columns");
        }
        if (*field == '"') {
            field = quoted_field(field, &rest);
        } else {
            rest = field + strcspn(field, ",\r\n");
        }
        if (rest == NULL || strchr(",\r\n", *rest) == NULL) {
            return bad(reader, reterr, "a quoted field does not end as one");
        }
        more = *rest == ',';
        reader->next = *rest == '\0' ? NULL : rest + 1;
        *rest = '\0';
        reader->fields[reader->count++] = field;
    }
    return BASE_OK;
}

static column column_named(const char *name, bool focus)
{
    if (focus) {
        for (size_t i = 0; i < sizeof focus_columns / sizeof focus_columns[0]; i++) {
            if (strcmp(name, focus_columns[i].name) == 0) {
                return focus_columns[i].column;
            }
        }
        return COLUMN_NONE;
    }
    for (size_t i = 0; i < sizeof own_columns / sizeof own_columns[0]; i++) {
        if (strcasecmp(name, own_columns[i].name) == 0) {
            return own_columns[i].column;
        }
    }
    return COLUMN_NONE;
}

static base_status read_header(csv_reader *reader, bool focus, base_error *reterr)
{
    bool seen[COLUMN_COUNT_] = {false};
    bool row = false;
    const base_status status = next_record(reader, &row, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (size_t i = 0; i < reader->count; i++) {
        reader->columns[i] = column_named(reader->fields[i], focus);
        if (reader->columns[i] != COLUMN_NONE && seen[reader->columns[i]]) {
            return bad(reader, reterr, "a column stands there twice");
        }
        seen[reader->columns[i]] = true;
    }
    reader->column_count = reader->count;
    if (!seen[COLUMN_COST] || (focus && !seen[COLUMN_CURRENCY])) {
        return bad(reader, reterr,
                   focus ? "the header lacks BilledCost or BillingCurrency"
                         : "the header lacks the column usd");
    }
    return BASE_OK;
}

/* A label among FOCUS's tags, {"ringfence-label": "…"}; cut to fit, empty when there is none. */
static void label_of_tags(const char *tags, char *label, size_t label_bytes)
{
    json_error_t error;
    label[0] = '\0';
    json_t *root = tags != NULL ? json_loads(tags, JSON_REJECT_DUPLICATES, &error) : NULL;
    const json_t *value = json_object_get(root, "ringfence-label");
    if (json_is_string(value)) {
        (void)snprintf(label, label_bytes, "%s", json_string_value(value));
    }
    json_decref(root);
}

static base_status read_record(const csv_reader *reader, bool focus, bill_charges *charges,
                               base_error *reterr)
{
    const char *values[COLUMN_COUNT_] = {NULL};
    char label[BUDGET_LABEL_BYTES];
    if (reader->count != reader->column_count) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "bill, line %zu: it has %zu columns, and the header %zu", reader->number,
                         reader->count, reader->column_count);
    }
    for (size_t i = 0; i < reader->count; i++) {
        values[reader->columns[i]] = reader->fields[i];
    }
    if (values[COLUMN_CURRENCY] != NULL && strcmp(values[COLUMN_CURRENCY], "USD") != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "bill, line %zu: the currency %.16s is not USD",
                         reader->number, values[COLUMN_CURRENCY]);
    }
    label_of_tags(values[COLUMN_TAGS], label, sizeof label);
    const bill_line line = {
        .number = reader->number,
        .line_id = values[COLUMN_LINE_ID],
        .label = focus && label[0] != '\0' ? label : values[COLUMN_LABEL],
        .instance_id = values[COLUMN_INSTANCE],
        .cost = values[COLUMN_COST],
        .time = values[COLUMN_TIME],
        .about = {values[COLUMN_ABOUT_0], values[COLUMN_ABOUT_1], values[COLUMN_ABOUT_2],
                  values[COLUMN_ABOUT_3]},
    };
    return bill_add(charges, &line, reterr);
}

base_status bill_read_csv(char *text, size_t text_bytes, bool focus, bill_charges *charges,
                          base_error *reterr)
{
    const bool marked = text_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    csv_reader reader = {.next = text + (marked ? 3 : 0)};
    bool row = true;
    base_status status = read_header(&reader, focus, reterr);
    while (status == BASE_OK && row) {
        status = next_record(&reader, &row, reterr);
        if (status == BASE_OK && row) {
            status = read_record(&reader, focus, charges, reterr);
        }
    }
    return status;
}
