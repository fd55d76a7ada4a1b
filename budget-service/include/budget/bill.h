/* A vendor's bill, read into charges. Needs no ledger.
 *
 * Numbers are read as decimal text, to the micro-dollar, never through a double; a finer amount is
 * rounded to the nearest. A line without a cost is refused: unknown is not nothing.
 *
 *   runpod-json  the answer of /v1/billing/pods: [{"podId", "amount", "time", …}], or of v2: {"records": [{"podId",
 *                "totalAmount", "startTime", …}]}
 *   vast-json    the answer of /api/v0/invoices or charges: [{"instance_id", "amount", "timestamp",
 *                "type": "charge", …}] or {"results": […]}; payments and refunds are passed over
 *   focus-csv    FOCUS (focus.finops.org): BilledCost, BillingCurrency (USD), ResourceId,
 *                ResourceName, Tags, ChargePeriodStart, ChargePeriodEnd, ChargeClass
 *   csv          a header with "usd" and any of "label", "instance_id", "line_id", "time", "until",
 *                "vendor"
 *
 * The first two are one vendor's own, and imply it. A line of the others may name its vendor: csv in
 * "vendor", FOCUS in "x_Vendor".
 *
 * A line without an id of its own gets one made of what it says (instance, time; the amount is left
 * out: a corrected line keeps its id), so that the same line on the next bill is known again. One
 * with neither id nor time is refused: it would be known again where it is another. Pure. */
#ifndef BUDGET_BILL_H
#define BUDGET_BILL_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/charge.h"

enum {
    BUDGET_CHARGES_MAX = 1 << 20,
    BUDGET_BILL_BYTES_MAX = 256 * 1024 * 1024,
};

typedef struct budget_bill_format budget_bill_format;

/* "runpod-json", …; BASE_ERR_INVALID for another name. */
BASE_MUST_CHECK base_status budget_bill_format_parse(const char *name,
                                                     const budget_bill_format **format,
                                                     base_error *reterr);

/* "runpod-json", … */
const char *budget_bill_format_name(const budget_bill_format *format);

/* Which format the text has: by what only that one has in it, or, in JSON without, the vendor's
 * (NULL: not known). NULL: nothing says it, as in a bill without lines. */
const budget_bill_format *budget_bill_format_guess(const void *bytes, size_t size_bytes,
                                                   const char *vendor);

/* The vendor whose bills alone have that format, NULL: any vendor's may. */
const char *budget_bill_format_vendor(const budget_bill_format *format);

/* The charges (malloc'ed, the caller frees them).
 * BASE_ERR_INVALID: which line and field. BASE_ERR_LIMIT, BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status budget_bill_parse(const void *bytes, size_t size_bytes,
                                              const budget_bill_format *format,
                                              budget_charge **charges, size_t *count,
                                              base_error *reterr);

#endif
