/* Runs a driver: the program that creates, lists and ends the instances of one vendor. docs/CLOUD.md has
 * how it is called and what it answers.
 *
 * Each call starts the program once, in a process group of its own, so that Ctrl-C does not reach it in the
 * middle of an order. After RENT_CALL_S it is killed with what it started. Its answer is checked; the last
 * line of its standard error is in the error's message. Each call blocks for that long at most. */
#ifndef RENT_DRIVER_H
#define RENT_DRIVER_H

#include "base/limits.h"
#include "base/status.h"
#include "budget/claims.h"
#include "instance.h"

enum {
    RENT_CALL_S = 60,
    RENT_ANSWER_BYTES_MAX = 4 << 20,
    RENT_ORDER_TEXT_BYTES = 1024, /* an image, an ssh key; with NUL */
};

typedef struct rent_driver {
    char path[BASE_PATH_BYTES];
    char vendor[BUDGET_NAME_BYTES];
    volatile pid_t *leader; /* where the process of a call stands while it lives; NULL: nowhere */
} rent_driver;

/* What is to be created; empty texts and a 0 leave it to the driver. */
typedef struct rent_order {
    char name[RENT_NAME_BYTES];
    const budget_claims *claims; /* instance type, tier, GPUs, price */
    int64_t until_s;             /* since 1970 */
    char image[RENT_ORDER_TEXT_BYTES];
    char ssh_public_key[RENT_ORDER_TEXT_BYTES];
    int64_t disk_gb;
} rent_order;

/* What is known after an order. */
typedef enum rent_outcome {
    RENT_MADE,
    RENT_REFUSED, /* nothing was created */
    RENT_UNCLEAR, /* something may have been: look at the list for the name */
} rent_outcome;

/* file NULL: the one named as the vendor among those that are installed. BASE_ERR_NOTFOUND: there is none,
 * or it is no program. */
BASE_MUST_CHECK base_status rent_driver_find(const char *vendor, const char *file,
                                             rent_driver *driver, base_error *reterr);

/* For which account of the vendor the driver speaks: what it does not find is gone from that one alone. BASE_ERR_IO: it does
 * not say, as one that has no such call; BASE_ERR_TIMEOUT; BASE_ERR_INVALID: it is none. */
BASE_MUST_CHECK base_status rent_driver_account(const rent_driver *driver,
                                                char account[BUDGET_VENDOR_ACCOUNT_BYTES],
                                                base_error *reterr);

/* Tells all calls from now on, in RINGFENCE_ACCOUNT, which account they are about; "": it is not known. */
void rent_driver_is_about(const char *account);

/* Whether the vendor would create it now. RENT_MADE: yes; RENT_UNCLEAR: the driver could not ask.
 * reterr says why it is not RENT_MADE. Creates nothing. */
BASE_MUST_CHECK rent_outcome rent_driver_check(const rent_driver *driver, const rent_order *order,
                                               base_error *reterr);

/* RENT_MADE fills `made`; else reterr says why. */
BASE_MUST_CHECK rent_outcome rent_driver_create(const rent_driver *driver, const rent_order *order,
                                                rent_instance *made, base_error *reterr);

/* All instances of the account, looked at for those of a jti (rent_list_read). BASE_ERR_IO: the driver failed; BASE_ERR_TIMEOUT; BASE_ERR_INVALID: its answer
 * is not as it must be. So with the next two. */
BASE_MUST_CHECK base_status rent_driver_list(const rent_driver *driver, const char *jti,
                                             rent_list *list, base_error *reterr);
BASE_MUST_CHECK base_status rent_driver_describe(const rent_driver *driver, const char *id,
                                                 rent_instance *instance, base_error *reterr);
BASE_MUST_CHECK base_status rent_driver_delete(const rent_driver *driver, const char *id,
                                               base_error *reterr);

#endif
