/* Vast.ai's bills: the answer of /api/v0/invoices, or of its charges. bill.c has its row. */
#include <string.h>

#include "bills/json.h"

static bool is_one_of(const char *text, const char *const *names)
{
    while (*names != NULL && strcmp(*names, text) != 0) {
        names++;
    }
    return *names != NULL;
}

static base_status vast_line(const json_t *object, bill_line *line, bool *wanted,
                             base_error *reterr)
{
    static const char *const charges[] = {"charge", "instance", "volume", "serverless", NULL};
    /* Money that moves between the account and its owner. A refund is one too: taken for a credit of a
     * run it would make room, and it may be what was paid in. */
    static const char *const payments[] = {"payment", "credit",        "transfer",    "transfers",
                                           "stripe",  "bitpay",        "coinbase",    "crypto.com",
                                           "refund",  "payout_paypal", "payout_wise", NULL};
    static const char prefix[] = "instance-";
    const char *type = BILL_FIRST(object, "type");
    *wanted = type == NULL || is_one_of(type, charges);
    if (!*wanted && !is_one_of(type, payments)) {
        return base_fail(reterr, BASE_ERR_INVALID, "a line of the type %.32s is not known", type);
    }
    const char *source = BILL_FIRST(object, "source");
    line->line_id = BILL_FIRST(object, "id", "charge_id");
    line->label = BILL_FIRST(object, "instance_label", "label");
    if (line->label == NULL) {
        line->label = BILL_FIRST(json_object_get(object, "metadata"), "label");
    }
    line->instance_id = BILL_FIRST(object, "instance_id");
    if (line->instance_id == NULL && source != NULL) {
        const size_t skip = strncmp(source, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
        line->instance_id = source + skip;
    }
    line->cost = BILL_FIRST(object, "amount");
    line->time = BILL_FIRST(object, "timestamp", "start");
    line->until = BILL_FIRST(object, "end");
    line->about[0] = BILL_FIRST(object, "description");
    line->about[1] = type;
    return BASE_OK;
}

static base_status read_vast(char *text, bill_charges *charges, base_error *reterr)
{
    return bill_read_json(text, vast_line, charges, reterr);
}

const budget_bill_format bill_vast = {.name = "vast-json",
                                      .vendor = "vast",
                                      .is_json = true,
                                      .marks = {"\"instance_id\"", "\"instance-"},
                                      .read = read_vast};
