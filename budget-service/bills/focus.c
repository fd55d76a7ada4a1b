/* Bills in FOCUS's columns (focus.finops.org). bill.c has its row. */
#include <jansson.h>
#include <stdio.h>

#include "bills/csv.h"

static const bill_csv_column columns[] = {
    {"BilledCost", COLUMN_COST},
    {"BillingCurrency", COLUMN_CURRENCY},
    {"ResourceId", COLUMN_INSTANCE},
    {"ResourceName", COLUMN_LABEL},
    {"Tags", COLUMN_TAGS},
    {"ChargePeriodStart", COLUMN_TIME},
    {"x_LineId", COLUMN_LINE_ID},
    {"x_Vendor", COLUMN_VENDOR},
    {"SkuId", COLUMN_ABOUT_0},
    {"ChargeCategory", COLUMN_ABOUT_1},
    {"ChargeDescription", COLUMN_ABOUT_2},
    {"ChargePeriodEnd", COLUMN_UNTIL},
    {"ChargeClass", COLUMN_CORRECTION},
    {NULL, COLUMN_NONE},
};

/* A label among FOCUS's tags, {"ringfence-label": "…"}; cut to fit, empty when there is none. A vendor may
 * say before the key where the tag comes from. */
static void label_of_tags(const char *tags, char *label, size_t label_bytes)
{
    json_error_t error;
    label[0] = '\0';
    json_t *root = tags != NULL ? json_loads(tags, JSON_REJECT_DUPLICATES, &error) : NULL;
    static const char *const keys[] = {"ringfence-label", "user:ringfence-label",
                                       "resourceTags/ringfence-label"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && label[0] == '\0'; i++) {
        const json_t *value = json_object_get(root, keys[i]);
        if (json_is_string(value)) {
            (void)snprintf(label, label_bytes, "%s", json_string_value(value));
        }
    }
    json_decref(root);
}

static const bill_csv kind = {.columns = columns,
                              .needs_currency = true,
                              .distinct_by_end = true,
                              .lacking = "the header lacks BilledCost or BillingCurrency",
                              .label_of_tags = label_of_tags};

static base_status read_focus(char *text, bill_charges *charges, base_error *reterr)
{
    return bill_read_csv(text, &kind, charges, reterr);
}

const budget_bill_format bill_focus = {
    .name = "focus-csv", .marks = {"BilledCost"}, .read = read_focus};
