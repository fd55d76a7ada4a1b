/* What the readers of bills share: a growing list of charges, and how one is filled. Private. */
#ifndef BUDGET_BILL_CORE_H
#define BUDGET_BILL_CORE_H

#include <stdbool.h>

#include "budget/bill.h"

typedef struct bill_charges {
    budget_charge *charges;
    bool are_sole; /* all lines with an instance and without an id of their own */
    size_t count;
    size_t capacity;
} bill_charges;

/* What a line says, each NULL where it says nothing; all are borrowed. */
typedef struct bill_line {
    const char *vendor;
    const char *line_id;
    const char *label;
    const char *instance_id;
    const char *cost;     /* decimal text */
    const char *currency; /* must be USD */
    const char *time;     /* when its period began: RFC 3339, a date, or seconds since 1970 */
    const char *until;    /* when it ended */
    const char
        *about[4]; /* what else distinguishes it from other lines of that instance and time */
    const char *correction; /* it is beside an earlier line of all this, and none of its kind */
    /* the vendor has no other line of that instance and time, whatever else it says and however it
     * writes the time: a second one is refused */
    bool sole;
} bill_line;

/* Adds it. BASE_ERR_INVALID: no cost, or one that is no number; another currency; a time that is
 * none. The reader says before it where in the file that is. */
BASE_MUST_CHECK base_status bill_add(bill_charges *charges, const bill_line *line,
                                     base_error *reterr);

/* One vendor's, or one standard's: its own file, and its row in bill.c. */
struct budget_bill_format {
    const char *name;
    const char *vendor;   /* whose bills alone have it; NULL: any vendor's may */
    bool is_json;         /* else CSV */
    const char *marks[2]; /* texts of which only such a bill has one; none: any of its kind, in CSV,
                           * which then says itself if a column is missing */
    /* text is changed, and ends with NUL. */
    base_status (*read)(char *text, bill_charges *charges, base_error *reterr);
};

extern const budget_bill_format bill_runpod;
extern const budget_bill_format bill_vast;
extern const budget_bill_format bill_focus;
extern const budget_bill_format bill_own;

#endif
