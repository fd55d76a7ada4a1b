/* Stands in until the bill's reader is there. */
#include "budget/bill.h"

base_status budget_bill_format_parse(const char *name, budget_bill_format *format,
                                     base_error *reterr)
{
    (void)name;
    (void)format;
    return base_fail(reterr, BASE_ERR_UNSUPPORTED, "bills are not read yet");
}

base_status budget_bill_parse(const void *bytes, size_t size_bytes, budget_bill_format format,
                              budget_charge **charges, size_t *count, base_error *reterr)
{
    (void)bytes;
    (void)size_bytes;
    (void)format;
    (void)charges;
    (void)count;
    return base_fail(reterr, BASE_ERR_UNSUPPORTED, "bills are not read yet");
}
