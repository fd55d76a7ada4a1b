/* An instance of a vendor, as a driver's answer describes it (docs/CLOUD.md). Plain data. */
#ifndef RENT_INSTANCE_H
#define RENT_INSTANCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/shape.h"

enum {
    RENT_NAME_BYTES = 256, /* of an instance, a host; with NUL */
    RENT_USER_BYTES = 64,
    RENT_LISTED_MAX = 4096, /* instances of one vendor's account */
};

typedef enum rent_state {
    RENT_STARTING,   /* it exists, and cannot be reached yet */
    RENT_RUNNING,    /* ssh reaches it */
    RENT_STOPPED,    /* it exists and does not run; it may cost on */
    RENT_TERMINATED, /* the vendor says that it is gone for good */
    RENT_NOT_FOUND,  /* the vendor has no such instance */
} rent_state;

typedef struct rent_instance {
    char id[BUDGET_INSTANCE_BYTES];
    char name[RENT_NAME_BYTES]; /* empty: the vendor says none */
    rent_state state;
    char host[RENT_NAME_BYTES]; /* where ssh reaches it; empty: not known */
    int port;
    char user[RENT_USER_BYTES];
    int64_t price_usd_micro; /* per hour; negative: not known */
    bool shown; /* the vendor has said that it exists: before, it may not know it, or its name */
} rent_instance;

typedef struct rent_list {
    rent_instance *items; /* (count), malloc'ed */
    size_t count;
} rent_list;

/* Takes what the vendor says of one that exists. The name that it says first is the one that counts, so that one
 * which is renamed is still known; before that, create's word does. */
void rent_instance_show(rent_instance *instance, const rent_instance *said);

/* "running", "not-found", …; never NULL. */
const char *rent_state_name(rent_state state);

/* Reads one. partial: only the id must be there, as in the answer of create, and the state is RENT_STARTING
 * without one. BASE_ERR_INVALID names the member. */
BASE_MUST_CHECK base_status rent_instance_read(const json_t *object, bool partial,
                                               rent_instance *instance, base_error *reterr);

/* Reads {"vendor_account": "…"}. BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status rent_account_read(const json_t *object,
                                              char account[BUDGET_VENDOR_ACCOUNT_BYTES],
                                              base_error *reterr);

/* Reads {"instances": […]}, of which the state may be missing. One that cannot be read fails the list, unless it has a
 * name without the jti: then it is there with what can be read of it, its name cut, and left out if its id cannot be.
 * jti NULL: any that cannot be read fails it. The list is freed with rent_list_free.
 * BASE_ERR_INVALID, BASE_ERR_LIMIT, BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status rent_list_read(const json_t *object, const char *jti, rent_list *list,
                                           base_error *reterr);
void rent_list_free(rent_list *list);

/* The same as written to instances.json. A new reference; NULL: no memory. */
json_t *rent_instance_json(const rent_instance *instance);

#endif
