/* The structs that the ledger, the service, its client and the commands share, and their messages.
 *
 * Each has one table, which names the member for each field of its message. Writing and reading go
 * by that table alone. Pure; thread safe. */
#ifndef BUDGET_SHAPE_H
#define BUDGET_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/claims.h"

enum {
    BUDGET_ANSWER_MESSAGE_BYTES = 256, /* one line for a person; with NUL */
    BUDGET_INSTANCE_BYTES = 128,       /* a vendor's instance id; with NUL */
    BUDGET_VENDOR_ACCOUNT_BYTES = 65,  /* of a vendor's customer, and a part of it; with NUL */
    BUDGET_LINE_ID_BYTES = 128,        /* the id of a bill's line; with NUL */
    BUDGET_STATE_BYTES = 32,
};

typedef struct budget_account {
    char name[BUDGET_ACCOUNT_BYTES];
    int64_t cap_usd_micro;
    int64_t posted_usd_micro;
    int64_t reserved_usd_micro;
    int64_t
        remaining_usd_micro; /* of its cap; in lists and status the least along its chain. May be
                                  * negative: a bill is a fact */
    bool frozen;             /* until `account acknowledge` */
} budget_account;

/* Texts that belong to a message, or to whoever makes one of them. */
typedef struct budget_texts {
    size_t count;
    char **texts; /* (count) */
} budget_texts;

/* One authorization, as it stands. Times are seconds since 1970, 0: not yet. */
typedef struct budget_entry {
    char label[BUDGET_LABEL_BYTES];
    char account[BUDGET_ACCOUNT_BYTES];
    char jti[BUDGET_JTI_BYTES];
    char state[BUDGET_STATE_BYTES]; /* reserved, created, expired-unconfirmed, terminated-unbilled,
                                       posted, voided */
    int64_t authorized_usd_micro;   /* what it may cost at most */
    int64_t reserved_usd_micro;     /* what of that is still reserved */
    int64_t actual_usd_micro;       /* what counts of its cost: never below 0 */
    int64_t credit_usd_micro;       /* by how much credits are above what it cost */
    bool actual_known;              /* somebody has said what it cost, and be it nothing */
    char mode[BUDGET_NAME_BYTES];
    char vendor[BUDGET_NAME_BYTES];
    char
        vendor_account[BUDGET_VENDOR_ACCOUNT_BYTES]; /* where its instances are; empty: not known */
    char instance_type[BUDGET_NAME_BYTES];
    char instance_id[BUDGET_INSTANCE_BYTES]; /* the first one attached; empty: none */
    int64_t authorized_at;
    int64_t redeemed_at;
    int64_t deadline;
    int64_t terminated_at;
    int64_t read_at; /* when it stood so, by the service's clock as all of these; 0: not said */
    bool attested;   /* a person vouches for the end; not checked */
    char evidence[2 * BUDGET_DIGEST_BYTES + 1]; /* digest in hex; empty: none */
    char client[BUDGET_LABEL_BYTES];            /* whoever asked */
    int64_t instances;                          /* how many it may have */
    int64_t began_at;                           /* its time: deadline less what it may take */
    int64_t max_price_usd_micro_per_hour;       /* per instance */
    bool price_derived;                         /* from the amount: nobody named it */
    budget_texts instance_ids;                  /* all that are attached, oldest first */
} budget_entry;

typedef struct budget_difference {
    char kind[BUDGET_STATE_BYTES]; /* missing_in_bill, missing_in_ledger, differing, unknown,
                                    * ambiguous, after_the_end, frozen */
    char label[BUDGET_LABEL_BYTES];
    char instance_id[BUDGET_INSTANCE_BYTES];
    char line_id[BUDGET_LINE_ID_BYTES];
    int64_t ledger_usd_micro;
    int64_t bill_usd_micro;
    char account[BUDGET_ACCOUNT_BYTES];        /* frozen: which; else empty */
    char message[BUDGET_ANSWER_MESSAGE_BYTES]; /* frozen: why; else empty */
} budget_difference;

/* The table of a struct and its message. */
typedef struct budget_shape budget_shape;
extern const budget_shape budget_account_shape;
extern const budget_shape budget_entry_shape;
extern const budget_shape budget_difference_shape;
extern const budget_shape budget_charge_shape; /* budget/charge.h */
extern const budget_shape budget_ask_shape;    /* of budget_claims, what is asked for */

struct ProtobufCMessage;

/* Makes the message, which borrows the record's texts, lists and bytes. */
void budget_shape_write(const budget_shape *shape, const void *record,
                        struct ProtobufCMessage *message);

/* Sets the members that the table names; lists are borrowed from the message. False: a text is too long, or bytes are not as many as
 * there must be. */
bool budget_shape_read(const budget_shape *shape, const struct ProtobufCMessage *message,
                       void *record);

#endif
