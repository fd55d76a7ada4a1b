/* The client of budget-service: what launcher, rank and the command line ask it with.
 *
 * Every question returns a budget_verdict that the caller must look at: BUDGET_GRANTED (0) alone
 * means that it was done and is on disk. A refusal is an answer, not an error of the machinery;
 * `why` (may be NULL) gets a one-line message whenever the verdict is another.
 *
 * A question carries a request id. BUDGET_UNKNOWN means that it was sent and no answer came in
 * time: ask again with the id in client's budget_client_request_id, and the service answers as it
 * did, or would have done, the first time; the same token comes back. Other verdicts are final for
 * their id, but for BUDGET_FAILED: then nothing was done.
 *
 * The client remembers the newest (sequence, head) of the ledger that it has seen, in a file
 * beside its key, and refuses a service that does not have that row (BUDGET_BEHIND): a restored
 * backup is noticed.
 *
 * Each call blocks, at most until the client's timeout has passed. A client belongs to one thread;
 * a process may have several. Messages and limits: docs/WIRE.md. */
#ifndef BUDGET_CLIENT_H
#define BUDGET_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/status.h"
#include "budget/audit_report.h"
#include "budget/charge.h"
#include "budget/claims.h"
#include "budget/keyring.h"
#include "budget/receipt.h"
#include "budget/service_files.h"
#include "budget/shape.h"
#include "budget/token.h"
#include "budget/wire.h"

enum {
    BUDGET_BILL_LINES_MAX = 4096,         /* in one reconcile */
    BUDGET_REASON_BYTES = 512,            /* a refusal's message; with NUL */
    BUDGET_CLIENT_TIMEOUT_MS = 30 * 1000, /* where the options say 0 */
};

typedef enum budget_verdict {
    BUDGET_GRANTED = 0, /* done; it is on disk */
    BUDGET_EXCEEDED,  /* over a cap: budget_client_refusal says which, how much is left and asked */
    BUDGET_REFUSED,   /* for another reason; asking again with this id is refused again */
    BUDGET_BAD_TOKEN, /* the token is not, or no longer, good for this */
    BUDGET_UNKNOWN,   /* sent, but no answer: ask again with the same request id */
    BUDGET_BEHIND,    /* the service does not know what this client knows: not our ledger */
    BUDGET_FAILED,    /* nothing was done: no service, no key, a broken answer; why has a status */
} budget_verdict;

/* "granted", "exceeded", …; never NULL. */
const char *budget_verdict_name(budget_verdict verdict);

/* The exit code (base/exitcode.h) that goes with it: 0, 3, 4, 6, 5, 8, 1. */
int budget_verdict_exit(budget_verdict verdict);

/* ------------------------------------------------------------------------------------------------
 * Opening */

typedef struct budget_client budget_client;

typedef struct budget_client_options {
    const char *dir;       /* the service's directory; NULL: budget_default_dir */
    const char *key_file;  /* NULL: DIR/clients/NAME.key of `key_name` */
    const char *key_name;  /* NULL: "request". `init` makes "request" and "admin" */
    const char *endpoint;  /* NULL: what DIR/service.json says, else ipc://DIR/run/service.sock */
    const char *seen_file; /* the newest (sequence, head); NULL: KEY_FILE.seen, or, where that
                              directory cannot be written, one in $XDG_STATE_HOME/ringfence/seen */
    int64_t timeout_ms;    /* of one question, retries included; 0: BUDGET_CLIENT_TIMEOUT_MS */
} budget_client_options;

/* $BUDGET_SERVICE_DIR, else $XDG_STATE_HOME/ringfence/budget, else ~/.local/state/ringfence/budget.
 * BASE_ERR_NOTFOUND when none of these variables is set. */
BASE_MUST_CHECK base_status budget_default_dir(char dir[BASE_PATH_BYTES], base_error *reterr);

/* Reads the key and starts connecting; whether somebody answers is seen by the first question.
 * BASE_ERR_NOTFOUND (no such key: `budget-service init`, or client add), BASE_ERR_AUTH (a key file
 * that others may read or write, or that holds no key), BASE_ERR_LIMIT (a socket's path is too
 * long), BASE_ERR_IO, BASE_ERR_MEMORY. */
BASE_MUST_CHECK base_status budget_client_open(const budget_client_options *options,
                                               budget_client **client, base_error *reterr);

/* NULL is fine. */
void budget_client_close(budget_client *client);

/* The next question uses this id instead of a fresh one: to retry after BUDGET_UNKNOWN.
 * BASE_ERR_INVALID when it is not 1 to 64 letters, digits, '.', '_' or '-'. */
BASE_MUST_CHECK base_status budget_client_set_request_id(budget_client *client,
                                                         const char *request_id,
                                                         base_error *reterr);

/* The id of the last question; "" before the first. */
const char *budget_client_request_id(const budget_client *client);

/* What stood behind the last refusal: the code after any, the rest after BUDGET_EXCEEDED. */
typedef struct budget_refusal {
    char account[BUDGET_ACCOUNT_BYTES]; /* whose cap */
    int64_t asked_usd_micro;
    int64_t left_usd_micro;
    char code[BUDGET_NAME_BYTES]; /* one word: BUDGET_EXCEEDED, LABEL_USED, … */
} budget_refusal;
const budget_refusal *budget_client_refusal(const budget_client *client);

/* What the last answer, which granted, says beside that; empty: nothing. */
typedef struct budget_note {
    char account[BUDGET_ACCOUNT_BYTES]; /* record_actual: this one is frozen by it */
    char message[BUDGET_REASON_BYTES];  /* and why; terminated: why the end is attested;
                                         * clock repair: what it did */
    char state[BUDGET_STATE_BYTES];     /* record_actual, terminated, void: the run's, and */
    int64_t reserved_usd_micro;         /* what is still reserved for it, */
    int64_t actual_usd_micro;           /* what it has cost by now, */
    bool actual_known;                  /* if anybody has said that */
} budget_note;
const budget_note *budget_client_note(const budget_client *client);

/* ------------------------------------------------------------------------------------------------
 * Asking for money: role request */

typedef struct budget_grant {
    char label[BUDGET_LABEL_BYTES];
    char jti[BUDGET_JTI_BYTES];
    char token[BUDGET_TOKEN_BYTES];
    char kid[BUDGET_KID_BYTES];
    char account[BUDGET_ACCOUNT_BYTES]; /* of the chain, the one that binds */
    int64_t cap_usd_micro;              /* its cap */
    int64_t remaining_before_usd_micro;
    int64_t remaining_after_usd_micro;
    int64_t max_usd_micro; /* what was reserved */
} budget_grant;

/* Reserves in the whole chain of accounts and signs a token. Of the claims it takes what can be asked
 * for: label to max_attempts. An empty text or a 0 takes the default of the account's policy. grant
 * is written when granted. */
BASE_MUST_CHECK budget_verdict budget_authorize(budget_client *client, const budget_claims *asked,
                                                budget_grant *grant, base_error *why);

typedef struct budget_chain {
    int count; /* root first, the account asked for last */
    budget_account accounts[BUDGET_ACCOUNT_DEPTH_MAX];
    int binding; /* index of the account that has the least left */
} budget_chain;

BASE_MUST_CHECK budget_verdict budget_remaining(budget_client *client, const char *account,
                                                budget_chain *chain, base_error *why);

/* What is posted in the account and those below it; account NULL: in all. */
BASE_MUST_CHECK budget_verdict budget_total_spent(budget_client *client, const char *account,
                                                  int64_t *usd_micro, base_error *why);

typedef struct budget_report {
    uint64_t accounts_total;
    uint64_t frozen_total;                   /* accounts that wait for `account acknowledge` */
    uint64_t alarms_total;                   /* past their deadline without proof of termination */
    char clock_alarm[BUDGET_REASON_BYTES];   /* what the wall clock has done; empty: nothing */
    char audit_finding[BUDGET_REASON_BYTES]; /* of the last audit; empty: it was good */
    char hook_failure[BUDGET_REASON_BYTES];  /* the policy's hook did not hear the last alarm */
} budget_report;

/* What a page is handed to; the pointer lives until the function returns. */
typedef void (*budget_account_fn)(void *user, const budget_account *account);
typedef void (*budget_entry_fn)(void *user, const budget_entry *entry);
typedef void (*budget_line_fn)(void *user, const char *line);

/* Counts, each account (at most the first 1000), and the first 100 alarms.
 * Functions may be NULL. */
typedef struct budget_status_sinks {
    budget_account_fn account;
    budget_entry_fn alarm;
    void *user;
} budget_status_sinks;
BASE_MUST_CHECK budget_verdict budget_status(budget_client *client,
                                             const budget_status_sinks *sinks,
                                             budget_report *report, base_error *why);

typedef struct budget_selection {
    const char *account; /* this one and those below; NULL: all */
    bool running;        /* only those whose instances may still be billed */
} budget_selection;

/* Every authorization that is selected (NULL: all), oldest first. */
BASE_MUST_CHECK budget_verdict budget_list(budget_client *client, const budget_selection *selection,
                                           budget_entry_fn entry, void *user, base_error *why);

/* The instance that was created for it. Once; the same id again is fine. replaces: NULL, or, role admin, the
 * id that was attached by mistake, and that no bill has charged. vendor_account: in which account of the vendor it is,
 * as its driver says; NULL: not said, as with replaces. Evidence counts from that account alone. */
BASE_MUST_CHECK budget_verdict budget_attach(budget_client *client, const char *label,
                                             const char *instance_id, const char *replaces,
                                             const char *vendor_account, base_error *why);

/* The driver's JSON is checked field by field; another file is attested and needs role admin. Granted,
 * budget_client_note says why the end is attested and not proven; empty: it is proven. attested, role
 * admin: a driver's file that does not prove it is taken as well. */
BASE_MUST_CHECK budget_verdict budget_terminated(budget_client *client, const char *label,
                                                 const void *evidence, size_t evidence_bytes,
                                                 bool attested, base_error *why);

/* Gives a reservation back whose token was never redeemed. */
BASE_MUST_CHECK budget_verdict budget_void(budget_client *client, const char *label,
                                           base_error *why);

BASE_MUST_CHECK budget_verdict budget_account_list(budget_client *client, budget_account_fn account,
                                                   void *user, base_error *why);

/* ------------------------------------------------------------------------------------------------
 * Facts: role reconcile */

/* line_id: the bill's line, recorded once; NULL: one of the label's own. partial: more may come;
 * else the cost is final where termination was proven before. evidence may be NULL. */
typedef struct budget_actual {
    const char *label;
    int64_t usd_micro;
    const char *line_id;
    bool partial;
    const void *evidence;
    size_t evidence_bytes;
} budget_actual;
BASE_MUST_CHECK budget_verdict budget_record_actual(budget_client *client,
                                                    const budget_actual *actual, base_error *why);

typedef struct budget_bill {
    int64_t as_of;      /* seconds since 1970: what began later is not expected on it */
    const char *vendor; /* whose it is: of lines that name none, and only its authorizations are
                         * expected; NULL: not known, and all but local ones are expected */
    const budget_charge *charges;
    size_t count; /* at most BUDGET_BILL_LINES_MAX */
} budget_bill;

typedef struct budget_reconciliation {
    uint64_t matched;
    uint64_t missing_in_bill;
    uint64_t missing_in_ledger;
    uint64_t differing;
    uint64_t unknown;
    uint64_t ambiguous;     /* lines that name an instance that several vendors may have */
    uint64_t after_the_end; /* runs that are billed for a time after their proven end */
    uint64_t frozen;        /* runs of a frozen account that need a look */
    uint64_t passed_over;   /* lines whose period begins after as_of */
    uint64_t unsettled;     /* runs that matched and have ended, and whose cost is not final yet */
    int64_t unsettled_usd_micro; /* what stays reserved for them */
} budget_reconciliation;

typedef void (*budget_difference_fn)(void *user, const budget_difference *difference);

/* Hands the first 1000 differences to the function (may be NULL). BUDGET_GRANTED says that the
 * comparison was made, not that all matched. */
BASE_MUST_CHECK budget_verdict budget_reconcile(budget_client *client, const budget_bill *bill,
                                                budget_difference_fn difference, void *user,
                                                budget_reconciliation *result, base_error *why);

/* Every row that an export has (budget/export.h), oldest first, one JSON object a line, without the newline. */
BASE_MUST_CHECK budget_verdict budget_export(budget_client *client, budget_line_fn line, void *user,
                                             base_error *why);

/* Re-walks the whole ledger while the service goes on; takes seconds for a million rows. */
BASE_MUST_CHECK budget_verdict budget_audit(budget_client *client, budget_audit_report *result,
                                            base_error *why);

/* ------------------------------------------------------------------------------------------------
 * Role admin */

BASE_MUST_CHECK budget_verdict budget_account_create(budget_client *client, const char *name,
                                                     int64_t cap_usd_micro, base_error *why);
BASE_MUST_CHECK budget_verdict budget_account_set_cap(budget_client *client, const char *name,
                                                      int64_t cap_usd_micro, base_error *why);
BASE_MUST_CHECK budget_verdict budget_account_acknowledge(budget_client *client, const char *name,
                                                          base_error *why);

/* role: "request", "reconcile" or "admin". */
BASE_MUST_CHECK budget_verdict budget_client_add(budget_client *client, const char *name,
                                                 const char *role,
                                                 const uint8_t public_key[PROTO_KEY_BYTES],
                                                 base_error *why);

/* Takes effect at once, on open connections too. */
BASE_MUST_CHECK budget_verdict budget_client_revoke(budget_client *client, const char *name,
                                                    base_error *why);

typedef struct budget_client_info {
    char name[BUDGET_NAME_BYTES];
    char role[BUDGET_NAME_BYTES];
    uint8_t public_key[PROTO_KEY_BYTES];
    bool revoked;
} budget_client_info;
typedef void (*budget_client_fn)(void *user, const budget_client_info *info);
BASE_MUST_CHECK budget_verdict budget_client_list(budget_client *client, budget_client_fn info,
                                                  void *user, base_error *why);

/* After the wall clock has been truly corrected: deadlines follow it from now on. */
BASE_MUST_CHECK budget_verdict budget_repair_clock(budget_client *client, base_error *why);

/* ------------------------------------------------------------------------------------------------
 * Redeeming: anybody who holds a token, at an endpoint of its own */

typedef struct budget_redeem_options {
    const char *dir;              /* where service.json is; NULL: budget_default_dir */
    const proto_keypair *job_key; /* CURVE. The first redemption binds the token to it */
    int64_t timeout_ms;           /* 0: BUDGET_CLIENT_TIMEOUT_MS */
    const char
        *vendor_account; /* of a creation permit: of the vendor, where the instances will be; NULL:
                                   * not said */
} budget_redeem_options;

typedef struct budget_redemption {
    char jti[BUDGET_JTI_BYTES];
    int64_t not_after;    /* absolute: the job's deadline, seconds since 1970 */
    int64_t seconds_left; /* the same, by the service's clock that does not jump: arm a timer so */
    int count;
    char receipts[BUDGET_REDEEM_RANKS_MAX][BUDGET_TOKEN_BYTES]; /* by rank, from the first one on */
} budget_redemption;

typedef struct budget_redeem_ranks {
    int first;
    int count;   /* 1 … BUDGET_REDEEM_RANKS_MAX */
    int attempt; /* from 1 */
} budget_redeem_ranks;

/* Redeems for some ranks of one attempt. The same again gets the same answer, so BUDGET_UNKNOWN is
 * retried by calling again. Needs no client key. *redemption has about 400 KB: not for the
 * stack. */
BASE_MUST_CHECK budget_verdict budget_redeem(const budget_redeem_options *options,
                                             const char *token, const budget_redeem_ranks *ranks,
                                             budget_redemption *redemption, base_error *why);

typedef struct budget_permit {
    int64_t not_after;    /* as in budget_redemption */
    int64_t seconds_left; /* so the service's clock stands at the difference of the two */
} budget_permit;

/* The creation permit for one instance, once per token: it is on disk before this returns, and is
 * never granted again. After BUDGET_UNKNOWN nobody knows whether it was granted: look at the
 * vendor's list for an instance that carries the jti, and do not create another one. */
BASE_MUST_CHECK budget_verdict budget_redeem_create(const budget_redeem_options *options,
                                                    const char *token, budget_permit *permit,
                                                    base_error *why);

#endif
