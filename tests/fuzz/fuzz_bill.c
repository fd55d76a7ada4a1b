/* Any bytes, in each format, are a bill or refused; what is read is in range, and every line has an
 * id of its own within its vendor and instance. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "budget/bill.h"
#include "budget/money.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void check(const budget_charge *charges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        BASE_ASSERT(charges[i].usd_micro <= BUDGET_MONEY_MICRO_MAX);
        BASE_ASSERT(charges[i].usd_micro >= -BUDGET_MONEY_MICRO_MAX);
        BASE_ASSERT(charges[i].at_s >= 0);
        BASE_ASSERT(charges[i].line_id[0] != '\0');
        BASE_ASSERT(memchr(charges[i].line_id, '\0', sizeof charges[i].line_id) != NULL);
        BASE_ASSERT(strpbrk(charges[i].label, "\"\\\n") == NULL);
        BASE_ASSERT(strpbrk(charges[i].instance_id, "\"\\\n") == NULL);
    }
    for (size_t i = 0; count < 200 && i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            BASE_ASSERT(strcmp(charges[i].line_id, charges[k].line_id) != 0 ||
                        strcmp(charges[i].instance_id, charges[k].instance_id) != 0 ||
                        strcmp(charges[i].vendor, charges[k].vendor) != 0);
        }
    }
}

static void parse(const uint8_t *data, size_t size_bytes, const budget_bill_format *format)
{
    budget_charge *charges = NULL;
    size_t count = 0;
    if (format == NULL) {
        return; /* nothing says it */
    }
    if (budget_bill_parse(data, size_bytes, format, &charges, &count, NULL) == BASE_OK) {
        check(charges, count);
        free(charges);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const char *const names[] = {"runpod-json", "vast-json", "focus-csv", "csv"};
    parse(data, size_bytes, budget_bill_format_guess(data, size_bytes, NULL));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const budget_bill_format *format = NULL;
        const base_status status = budget_bill_format_parse(names[i], &format, NULL);
        BASE_ASSERT(status == BASE_OK);
        parse(data, size_bytes, format);
    }
    return 0;
}
