/* Money: int64 micro-dollars, read from and written as decimal text. Never a double.
 *
 * What a person types is read strictly (budget_money_parse): digits, at most six of them behind a
 * point, no sign, no exponent, no spaces. What a vendor's bill says may be finer or negative
 * (budget_money_parse_bill) and is rounded to the nearest. Pure; thread safe. */
#ifndef BUDGET_MONEY_H
#define BUDGET_MONEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define BUDGET_MICRO_PER_USD INT64_C(1000000)

/* The largest amount anywhere: a billion dollars. Sums of 2^13 of them fit an int64. */
#define BUDGET_MONEY_MICRO_MAX (INT64_C(1000000000) * BUDGET_MICRO_PER_USD)

enum {
    BUDGET_MONEY_BYTES = 32,      /* of a formatted amount, with the final NUL */
    BUDGET_MONEY_TEXT_BYTES = 64, /* longest text that is read as an amount */
};

/* "3", "3.00", "0.000001". Refused, BASE_ERR_INVALID: an empty text, a sign, an exponent, more than
 * six digits behind the point, no digit on either side of it, anything that is not a digit.
 * BASE_ERR_LIMIT: above BUDGET_MONEY_MICRO_MAX. *micro is untouched on failure. */
BASE_MUST_CHECK base_status budget_money_parse(const char *text, size_t text_bytes, int64_t *micro,
                                               base_error *reterr);

/* A number of a bill: a sign (a credit), an exponent and any number of digits are fine as well, up
 * to BUDGET_MONEY_TEXT_BYTES in all. Exact but for the one rounding at the end, to the
 * nearest, half away from zero. */
BASE_MUST_CHECK base_status budget_money_parse_bill(const char *text, size_t text_bytes,
                                                    int64_t *micro, base_error *reterr);

/* "3.00", "0.000001", "-0.50": at least two digits behind the point, no more than needed. */
void budget_money_format(int64_t micro, char text[BUDGET_MONEY_BYTES]);

/* The same as messages show it: "$3.00", "-$0.50". */
void budget_money_show(int64_t micro, char text[BUDGET_MONEY_BYTES]);

/* a + b; false, and *sum untouched, when it leaves the int64. */
bool budget_money_add(int64_t a, int64_t b, int64_t *sum);

/* instances × price × seconds / 3600, rounded up; false, and *micro untouched, when an argument is
 * negative or the result is above BUDGET_MONEY_MICRO_MAX. */
bool budget_money_cost(int64_t price_micro_per_hour, int64_t instances, int64_t seconds,
                       int64_t *micro);

#endif
