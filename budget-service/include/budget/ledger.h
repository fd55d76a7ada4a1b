/* The ledger: accounts, reservations and every verdict, in one SQLite file that only grows.
 *
 * Every verdict and every change is one row of the journal, chained to the row before it by
 * BLAKE2b. The other tables (balances, reservations, redemptions, remembered requests) follow from
 * the journal; they are there to be fast, and budget_audit recomputes them all.
 *
 * Changes happen in batches: budget_ledger_begin, any number of operations, budget_ledger_commit.
 * An operation fills an answer at once, but the answer may leave the process only after the commit
 * has returned BASE_OK: before that nothing is on disk.
 *
 * Three things can come back from an operation:
 *   BASE_OK             answer->reason says granted (BUDGET_REASON_NONE) or why refused
 *   BASE_ERR_INVALID    the request itself is malformed; nothing is stored; the batch goes on
 *   anything else       a transient error; nothing is stored as a refusal, the batch is lost as a
 *                       whole (commit rolls it back and says so), the same request may be retried
 *
 * After a failed write or fsync of the database, when its file has been taken away, or when rows are
 * on disk and their checkpoint cannot be written, the ledger is broken: everything returns
 * BASE_ERR_STATE, and the process must end (budget_ledger_broken).
 *
 * Invariants, on every account: reserved = Σ held of its reservations and those below it, posted =
 * Σ of their actuals, and a grant never makes posted + reserved exceed the cap, on the whole chain.
 *
 * Money: int64 micro-dollars. Times of the ledger: milliseconds, see budget_clock. One thread; no
 * call blocks but for the disk. */
#ifndef BUDGET_LEDGER_H
#define BUDGET_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/claims.h"
#include "budget/clock.h"
#include "budget/keyring.h"
#include "budget/rules.h"
#include "budget/shape.h"

/* A refusal, with the account's name. */
#define BUDGET_NO_ACCOUNT "there is no account %s: budget-service account list has them"

enum {
    BUDGET_CLIENT_KEY_BYTES = 32, /* CURVE */
    BUDGET_LINE_BYTES = 192,      /* a bill line's id; with NUL */
    BUDGET_ACCOUNTS_MAX = 4096,
    BUDGET_CLIENTS_MAX = 4096, /* revoked ones included */
};

typedef struct budget_ledger budget_ledger;

/* Signs and verifies checkpoints: kid names the key. May be NULL: no checkpoint is written, none is
 * verified by its signature. */
typedef struct budget_ledger_signer {
    void *context;
    base_status (*sign)(void *context, const void *message, size_t message_bytes,
                        uint8_t signature[64], char kid[BUDGET_KID_BYTES], base_error *reterr);
    base_status (*verify)(void *context, const void *message, size_t message_bytes,
                          const uint8_t signature[64], const char *kid, base_error *reterr);
} budget_ledger_signer;

typedef struct budget_ledger_options {
    const char *dir;             /* holds ledger.db, ledger.lock, checkpoints */
    const char *checkpoint_path; /* NULL: dir/checkpoints */
    budget_ledger_signer signer;
    budget_clock clock; /* now */
    /* The digest that a refusal named: an admin has looked at this ledger beside this checkpoint, or
     * without one. Then it is opened, and a row says so. NULL: none. */
    const char *accept_checkpoint;
    bool any_checkpoint; /* the ledger is a copy that is only read: any mismatch is accepted */
    const char *vfs;     /* SQLite VFS; NULL: the usual one (tests put a shim here) */
} budget_ledger_options;

/* Makes an empty ledger in the directory. BASE_ERR_STATE when there is one. */
BASE_MUST_CHECK base_status budget_ledger_create(const budget_ledger_options *options,
                                                 base_error *reterr);

/* Opens and locks it. BASE_ERR_BUSY: another process has it. BASE_ERR_NOTFOUND: there is none.
 * BASE_ERR_MISMATCH: the checkpoint names a row that the ledger does not have, or another (a
 * restored backup), or the checkpoint file is gone; the message names the row, and the digest for
 * accept_checkpoint. BASE_ERR_IO,
 * BASE_ERR_INVALID (not a ledger, or of another version). */
BASE_MUST_CHECK base_status budget_ledger_open(const budget_ledger_options *options,
                                               budget_ledger **ledger, base_error *reterr);

/* An open batch is rolled back. NULL is fine. */
void budget_ledger_close(budget_ledger *ledger);

/* True when the process must end: what is on disk is no longer known, or lacks its checkpoint. */
bool budget_ledger_broken(const budget_ledger *ledger);

/* A batch. begin is not durable and cheap; commit writes, syncs, checks that the file is still the
 * one in the directory, then appends a checkpoint. Not BASE_OK: no answer of the batch may go out,
 * and unless the ledger is broken now, all of it is transient. A batch without a new row costs
 * nothing. */
BASE_MUST_CHECK base_status budget_ledger_begin(budget_ledger *ledger, const budget_clock *clock,
                                                base_error *reterr);
BASE_MUST_CHECK base_status budget_ledger_commit(budget_ledger *ledger, base_error *reterr);
void budget_ledger_rollback(budget_ledger *ledger);

/* Whoever asks. A request id is scoped to the client: the same id and body get the same answer
 * again, the same id with another body is refused (BUDGET_REASON_REQUEST_REUSED, not stored). */
typedef struct budget_caller {
    int64_t client;         /* budget_ledger_client.id; 0: the service itself */
    const char *request_id; /* NULL: not remembered */
    uint8_t body_blake2b256[BUDGET_DIGEST_BYTES];
} budget_caller;

/* The answer to any operation. All of it is stored with the row (but for `replayed`, which says
 * that it was), so a retry gets the same. */
typedef struct budget_answer {
    budget_reason reason; /* BUDGET_REASON_NONE: granted */
    bool replayed;
    uint64_t sequence;                  /* of its row; 0 when it has none */
    uint8_t head[BUDGET_DIGEST_BYTES];  /* of that row */
    int64_t at_ms;                      /* wall time of that row, milliseconds since 1970 */
    char account[BUDGET_ACCOUNT_BYTES]; /* granted: the one of the chain with the least left;
                                         * refused: the one that refuses; else empty */
    int64_t asked_usd_micro;
    int64_t cap_usd_micro; /* of that account */
    int64_t remaining_before_usd_micro;
    int64_t remaining_after_usd_micro;
    char message
        [BUDGET_ANSWER_MESSAGE_BYTES]; /* one line for a person: why it is refused, or what else to
                                        * know of what is granted; else empty */
} budget_answer;

/* In a batch: a row that says that an admin goes on although the audit found this. */
BASE_MUST_CHECK base_status budget_ledger_accept_audit(budget_ledger *ledger, const char *finding,
                                                       base_error *reterr);

/* ---- accounts ---------------------------------------------------------------------------- */

/* "phase35/lab02" needs "phase35". Refused: ACCOUNT_EXISTS, ACCOUNT_UNKNOWN (the parent). */
BASE_MUST_CHECK base_status budget_ledger_account_create(budget_ledger *ledger,
                                                         const budget_caller *caller,
                                                         const char *account, int64_t cap_usd_micro,
                                                         budget_answer *answer, base_error *reterr);
/* A cap below what is posted and reserved is fine: nothing more is granted then. */
BASE_MUST_CHECK base_status budget_ledger_set_cap(budget_ledger *ledger,
                                                  const budget_caller *caller, const char *account,
                                                  int64_t cap_usd_micro, budget_answer *answer,
                                                  base_error *reterr);
/* Thaws a frozen account. Refused: STATE when it is not frozen. */
BASE_MUST_CHECK base_status budget_ledger_acknowledge(budget_ledger *ledger,
                                                      const budget_caller *caller,
                                                      const char *account, budget_answer *answer,
                                                      base_error *reterr);

/* The account and its parents: chain[0] is the account itself, *binding (may be NULL) the index of
 * the one with the least left (cap - posted - reserved). BASE_ERR_NOTFOUND. */
BASE_MUST_CHECK base_status budget_ledger_chain(budget_ledger *ledger, const char *account,
                                                budget_account chain[BUDGET_ACCOUNT_DEPTH_MAX],
                                                size_t *count, size_t *binding, base_error *reterr);

/* Every account by name, each with what is left of its own cap; visit returns false to stop. */
BASE_MUST_CHECK base_status budget_ledger_accounts(budget_ledger *ledger,
                                                   bool (*visit)(void *context,
                                                                 const budget_account *account),
                                                   void *context, base_error *reterr);

/* account NULL: Σ posted of the accounts without a parent. */
BASE_MUST_CHECK base_status budget_ledger_total_spent(budget_ledger *ledger, const char *account,
                                                      int64_t *usd_micro, base_error *reterr);

/* ---- authorizing -------------------------------------------------------------------------- */

typedef struct budget_authorization {
    budget_claims
        claims; /* in: all but jti and the two of the ledger, when granted those as well */
    char kid[BUDGET_KID_BYTES]; /* in: of the key that will sign */
    budget_reason refusal;      /* in: what the policy says of it (budget_policy_check) */
    char message[BUDGET_ANSWER_MESSAGE_BYTES]; /* in: the policy's message */
    int64_t client;                            /* of budget_ledger_claims: who asked for it */
} budget_authorization;

/* Reserves claims.max_usd_micro in the whole chain. Granted: authorization->claims and kid are
 * those stored (of the first time, when replayed), and payload the bytes to sign: always the same,
 * so that the token is. claims.ledger_sequence is the row's, claims.ledger_head that of the row
 * before it. Refused: EXCEEDED, LABEL_USED, ACCOUNT_UNKNOWN, ACCOUNT_FROZEN, REQUEST_REUSED, or
 * authorization->refusal. */
BASE_MUST_CHECK base_status budget_ledger_authorize(budget_ledger *ledger,
                                                    const budget_caller *caller,
                                                    budget_authorization *authorization,
                                                    char payload[BUDGET_CLAIMS_JSON_BYTES],
                                                    budget_answer *answer, base_error *reterr);

/* ---- redeeming ---------------------------------------------------------------------------- */

typedef struct budget_ledger_redemption {
    char jti[BUDGET_JTI_BYTES]; /* in: of a token whose signature has been verified */
    int64_t rank;               /* in: 0 … world size - 1 */
    int64_t attempt;            /* in: 1 … max attempts */
    uint8_t job_public_key[BUDGET_CLIENT_KEY_BYTES]; /* in: the job's CURVE key */
    char vendor_account
        [BUDGET_VENDOR_ACCOUNT_BYTES]; /* in, of a creation permit: where the instances
                                                       * will be; "": not said */
    int64_t deadline_ms;  /* out: absolute wall time, the same for every rank and attempt */
    int64_t remaining_ms; /* out: until then, now; the one field that a retry sees change */
} budget_ledger_redemption;

/* The tuple (jti, rank, attempt), once; the same tuple from the same key gets the same answer. The
 * first redemption of a jti stores the key and the deadline, now + max_seconds. Refused:
 * TOKEN_UNKNOWN, TOKEN_EXPIRED (first redemption at or after exp), DEADLINE_PASSED, RANK_RANGE,
 * ATTEMPT_RANGE, ATTEMPT_ORDER (not the last or last + 1), FENCED (an earlier attempt), JOB_KEY,
 * ACCOUNT_FROZEN, STATE (voided or terminated). Refusals are not stored. */
BASE_MUST_CHECK base_status budget_ledger_redeem(budget_ledger *ledger,
                                                 budget_ledger_redemption *redemption,
                                                 budget_answer *answer, base_error *reterr);

/* The creation permit: once per jti and never again (CREATED), even when the answer was
 * lost. Only jti and vendor_account go in. Starts the deadline as the first redemption does. STATE: the run is in
 * another account of the vendor. */
BASE_MUST_CHECK base_status budget_ledger_redeem_create(budget_ledger *ledger,
                                                        const budget_caller *caller,
                                                        budget_ledger_redemption *redemption,
                                                        budget_answer *answer, base_error *reterr);

/* ---- what came of it ----------------------------------------------------------------------- */

typedef struct budget_attachment {
    const char *label;
    const char *instance_id;
    const char *vendor_account; /* in which account of the vendor it is; "": not said */
} budget_attachment;

/* One of the reservation's instances; the same one again is fine, and may say the account for the first time.
 * Refused: LABEL_UNKNOWN, INSTANCE_USED (another label has it, or all of them are known), STATE (voided, or the run
 * is in another account). Starts the deadline
 * if there is none, whether or not there was leave to create it. If the end was proven of other
 * instances, that proof is refuted, and the answer's message says so. */
BASE_MUST_CHECK base_status budget_ledger_attach(budget_ledger *ledger, const budget_caller *caller,
                                                 const budget_attachment *what,
                                                 budget_answer *answer, base_error *reterr);

/* The instance that was attached is another one: a mistyped id. */
typedef struct budget_replacement {
    const char *label;
    const char *instance_id; /* the right one */
    const char *replaces;    /* that is attached */
} budget_replacement;

/* Sets right which instance was attached, before a bill has charged it. If the end was proven, that
 * proof was of another instance: it is refuted. Refused: LABEL_UNKNOWN, STATE (not attached, or
 * billed), INSTANCE_USED. */
BASE_MUST_CHECK base_status budget_ledger_replace(budget_ledger *ledger,
                                                  const budget_caller *caller,
                                                  const budget_replacement *what,
                                                  budget_answer *answer, base_error *reterr);

typedef struct budget_ledger_actual {
    const char *label;
    int64_t usd_micro;        /* to post; negative: a credit, or too much was recorded */
    const char *line_id;      /* of the bill; NULL: a person said so */
    const char *instance_id;  /* that the line names; NULL or "": none */
    int64_t billed_usd_micro; /* with a line id: what the bill's line says, which is more than
                               * usd_micro where a part of it was recorded by hand before */
    bool corrects;            /* the line may have been recorded before, as another amount: then it
                               * is billed_usd_micro from now on */
    bool final;               /* a person says that no more will come; counts only when termination
                               * has been proven before */
    const void *evidence;     /* NULL: none; kept with its digest */
    size_t evidence_bytes;    /* at most BUDGET_EVIDENCE_BYTES_MAX */
} budget_ledger_actual;

/* Posts it, now and in any state. The first cost starts the deadline if there is none. Freezes the account when the sum is above the reservation, when
 * money that had returned is spent after all and an account of the chain is above its cap, or when
 * credits take the sum below 0 (answer->message says so). What is left of the reservation returns when
 * termination is proven and the cost is final (budget/rules.h). Refused: LABEL_UNKNOWN, LINE_USED
 * (the line id, which counts within its vendor and instance, has another label, or another amount
 * that is not corrected; the same is the same answer). */
BASE_MUST_CHECK base_status budget_ledger_record_actual(budget_ledger *ledger,
                                                        const budget_caller *caller,
                                                        const budget_ledger_actual *actual,
                                                        budget_answer *answer, base_error *reterr);

/* What is taken as the word of a person, beside evidence that proves the end. */
typedef enum budget_attest {
    BUDGET_ATTEST_NOTHING,
    BUDGET_ATTEST_OTHER_FILES, /* a file that is not a driver's: role admin */
    BUDGET_ATTEST_ANY_FILE,    /* an admin says so, whatever is in the file */
} budget_attest;

/* Evidence of termination: the driver's JSON (docs/BUDGET.md), checked field by field; what fails
 * the check is refused (EVIDENCE, the message says which field), or kept as `attested`. A driver's
 * file that fails it says that an instance may be there. It must describe as many instances as the token allows: where
 * fewer were made, only an admin can say so. Refused: LABEL_UNKNOWN, STATE (voided). */
typedef struct budget_termination {
    const char *label;
    const void *evidence;
    size_t evidence_bytes;
    budget_attest attest;
    bool attested; /* out; answer->message says what the check found */
} budget_termination;

BASE_MUST_CHECK base_status budget_ledger_terminated(budget_ledger *ledger,
                                                     const budget_caller *caller,
                                                     budget_termination *termination,
                                                     budget_answer *answer, base_error *reterr);

/* Refused: LABEL_UNKNOWN, REDEEMED, STATE. */
BASE_MUST_CHECK base_status budget_ledger_void(budget_ledger *ledger, const budget_caller *caller,
                                               const char *label, budget_answer *answer,
                                               base_error *reterr);

/* ---- reading reservations ------------------------------------------------------------------ */

/* One authorization: its row, and what follows from it. */
typedef struct budget_reservation {
    int64_t id;
    int64_t account_id;
    uint64_t sequence;            /* of the journal's row that granted it */
    budget_rule_reservation rule; /* money and state; its times are the ledger's */
    int64_t billed_usd_micro;     /* Σ of the bills' lines seen so far */
    int64_t instances;            /* how many it may have */
    int64_t authorized_ms;        /* wall time, these three; 0: not yet */
    int64_t started_ms;           /* the last redemption, or the creation permit */
    int64_t actual_ms;            /* the last cost */
    bool has_evidence;
    uint8_t evidence[BUDGET_DIGEST_BYTES];
    budget_entry entry; /* the same for people: the names and `attested` are of the row, the rest is
                         * set where the ledger gives it out */
} budget_reservation;

/* BASE_ERR_NOTFOUND. The second finds by attached instance id, which counts within its vendor.
 * vendor NULL: not known; BASE_ERR_MISMATCH where the ledger has runs of several. The same for an
 * instance that only a run of BUDGET_VENDOR_ANY has. */
BASE_MUST_CHECK base_status budget_ledger_find(budget_ledger *ledger, const char *label,
                                               budget_reservation *found, base_error *reterr);
BASE_MUST_CHECK base_status budget_ledger_find_instance(budget_ledger *ledger, const char *vendor,
                                                        const char *instance,
                                                        budget_reservation *found,
                                                        base_error *reterr);

/* The stored claims of a jti's token, its payload, kid and client. BASE_ERR_NOTFOUND. */
BASE_MUST_CHECK base_status budget_ledger_claims(budget_ledger *ledger, const char *jti,
                                                 budget_authorization *authorization,
                                                 char payload[BUDGET_CLAIMS_JSON_BYTES],
                                                 base_error *reterr);

/* Up to max of them with an id above after_id, by rising id. */
BASE_MUST_CHECK base_status budget_ledger_list(budget_ledger *ledger, int64_t after_id, size_t max,
                                               budget_reservation *found, size_t *count,
                                               base_error *reterr);

/* The same, of those whose instances may still be billed: which have begun, are not of vendor local,
 * and have no proof of their end that no bill has refuted. */
BASE_MUST_CHECK base_status budget_ledger_running(budget_ledger *ledger, int64_t after_id,
                                                  size_t max, budget_reservation *found,
                                                  size_t *count, base_error *reterr);

/* How far a walk by time has come: a ledger time, and the run of it. Zero at its beginning. */
typedef struct budget_ledger_moment {
    int64_t ms;
    int64_t id;
} budget_ledger_moment;

/* Those past their deadline without proof of termination at the time of the last batch, oldest
 * deadline first, also before budget_ledger_expire has made their rows. *after moves on. */
BASE_MUST_CHECK base_status budget_ledger_overdue(budget_ledger *ledger,
                                                  budget_ledger_moment *after, size_t max,
                                                  budget_reservation *found, size_t *count,
                                                  base_error *reterr);

/* Those whose deadline comes within lead_ms of that time, or within a tenth of their own, whichever
 * is shorter; the first of which this is true comes first. *after moves on. */
BASE_MUST_CHECK base_status budget_ledger_ending(budget_ledger *ledger, int64_t lead_ms,
                                                 budget_ledger_moment *after, size_t max,
                                                 budget_reservation *found, size_t *count,
                                                 base_error *reterr);

/* The ids of the instances that are attached to a reservation, oldest first. */
BASE_MUST_CHECK base_status budget_ledger_instances(
    budget_ledger *ledger, int64_t reservation,
    char ids[BUDGET_INSTANCES_MAX][BUDGET_INSTANCE_BYTES], size_t *count, base_error *reterr);

/* How many of them, and how many accounts are frozen. */
BASE_MUST_CHECK base_status budget_ledger_attention(budget_ledger *ledger, int64_t *overdue_count,
                                                    int64_t *frozen_count, base_error *reterr);

/* ---- the reaper ---------------------------------------------------------------------------- */

/* In a batch: turns up to max reservations whose deadline has passed into expired-unconfirmed and
 * gives them: each is given once, ever. Their money stays reserved. */
BASE_MUST_CHECK base_status budget_ledger_expire(budget_ledger *ledger, size_t max,
                                                 budget_reservation *found, size_t *count,
                                                 base_error *reterr);

/* Milliseconds of CLOCK_BOOTTIME until the next deadline, 0 when one has passed, -1 when there is
 * none. */
BASE_MUST_CHECK base_status budget_ledger_next_deadline(budget_ledger *ledger,
                                                        const budget_clock *clock,
                                                        int64_t *after_ms, base_error *reterr);

/* The ledger's own wall time: it goes on with CLOCK_BOOTTIME, whatever is done to the wall clock.
 * *skew_ms is how far the wall clock has gone from it; above BUDGET_CLOCK_SKEW_MS_MAX an admin
 * should look. Use this for iat and exp. */
BASE_MUST_CHECK base_status budget_ledger_now(budget_ledger *ledger, const budget_clock *clock,
                                              int64_t *wall_ms, int64_t *skew_ms,
                                              base_error *reterr);

/* After a true correction of the wall clock: takes it over. Deadlines keep the time they had left:
 * nothing expires by it and nothing revives. */
BASE_MUST_CHECK base_status budget_ledger_clock_repair(budget_ledger *ledger,
                                                       const budget_caller *caller,
                                                       budget_answer *answer, base_error *reterr);

/* ---- clients ------------------------------------------------------------------------------- */

typedef enum budget_role {
    BUDGET_ROLE_REQUEST = 1,
    BUDGET_ROLE_RECONCILE = 2,
    BUDGET_ROLE_ADMIN = 3,
} budget_role;

/* "request", …; "?" where the number is no role, as in a file that was edited. */
const char *budget_role_name(budget_role role);

typedef struct budget_ledger_client {
    int64_t id; /* from 1; never used again */
    char name[BUDGET_NAME_BYTES];
    uint8_t public_key[BUDGET_CLIENT_KEY_BYTES];
    budget_role role;
    bool revoked;
} budget_ledger_client;

/* Refused: CLIENT_EXISTS (the name is in use, or the key was ever used); CLIENT_UNKNOWN. */
BASE_MUST_CHECK base_status budget_ledger_client_add(budget_ledger *ledger,
                                                     const budget_caller *caller,
                                                     const budget_ledger_client *client,
                                                     budget_answer *answer, base_error *reterr);
BASE_MUST_CHECK base_status budget_ledger_client_revoke(budget_ledger *ledger,
                                                        const budget_caller *caller,
                                                        const char *name, budget_answer *answer,
                                                        base_error *reterr);
/* BASE_ERR_NOTFOUND; revoked ones are found too. */
BASE_MUST_CHECK base_status
budget_ledger_client_find(budget_ledger *ledger, const uint8_t public_key[BUDGET_CLIENT_KEY_BYTES],
                          budget_ledger_client *client, base_error *reterr);
/* id 0, the service itself: never. */
BASE_MUST_CHECK base_status budget_ledger_client_revoked(budget_ledger *ledger, int64_t id,
                                                         bool *revoked, base_error *reterr);
BASE_MUST_CHECK base_status budget_ledger_clients(budget_ledger *ledger,
                                                  bool (*visit)(void *context,
                                                                const budget_ledger_client *client),
                                                  void *context, base_error *reterr);

/* ---- the chain ----------------------------------------------------------------------------- */

/* The newest committed row. */
void budget_ledger_head(const budget_ledger *ledger, uint64_t *sequence,
                        uint8_t head[BUDGET_DIGEST_BYTES]);

/* Does the ledger hold the row that a client remembers? BASE_ERR_MISMATCH: no; the ledger is an
 * older copy, or another one. */
BASE_MUST_CHECK base_status budget_ledger_remembers(budget_ledger *ledger, uint64_t sequence,
                                                    const uint8_t head[BUDGET_DIGEST_BYTES],
                                                    base_error *reterr);

/* One row of the journal, as exports read it. Texts point into the statement: valid until the visit
 * returns. */
typedef struct budget_row {
    uint64_t sequence;
    int64_t at_ms; /* wall time */
    budget_kind kind;
    const char *account;
    const char *label;
    const char *text;       /* line id, instance id, client's name: by kind */
    int64_t usd_micro;      /* asked, actual, cap: by kind */
    int64_t reserved_delta; /* on every account of the chain */
    int64_t posted_delta;
    budget_state state; /* after it */
    bool attested;
    const uint8_t *evidence_blake2b256; /* NULL: none */
} budget_row;

/* Rows above after_sequence, at most max; visit returns false to stop before the next. */
BASE_MUST_CHECK base_status budget_ledger_rows(budget_ledger *ledger, uint64_t after_sequence,
                                               size_t max,
                                               bool (*visit)(void *context, const budget_row *row),
                                               void *context, base_error *reterr);

#endif
