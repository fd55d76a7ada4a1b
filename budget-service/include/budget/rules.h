/* What the guard decides, and nothing else: verdicts on plain structs.
 *
 * No socket, no clock, no allocator, no database: what is known goes in, what follows comes out, so
 * that every path can be walked by a simulation. A rule gets a reservation, and when it grants it
 * changes that reservation in place; what changes on each account of the chain is the difference of
 * held and posted before and after (budget_rule_effect).
 *
 *   reserved ───1───► voided
 *      │
 *      2
 *      ▼
 *   created ────4───► terminated-unbilled ───5───► posted
 *      │                       ▲
 *      3                       4
 *      ▼                       │
 *   expired-unconfirmed ───────┘
 *
 * 1: void, never redeemed. 2: first redemption, creation permit, an instance that is attached, or a
 * cost; each starts the deadline if there is none. 3: the deadline passed. 4: evidence of the end, which ends a reserved run too. 5: the cost is final. A created run of
 * vendor local becomes posted at its deadline.
 *
 * A cost is final, once termination is proven, when
 *   - a person says so with a cost recorded after the end (budget_rule_cost.final), or
 *   - a bill shows each instance billed from the beginning to the end (budget_rule_finalize), or
 *   - a bill that shows the run reaches beyond the end by the vendor's settling time (the same).
 * A bill that charges for a time after the end refutes that end (budget_rule_refute): no bill makes
 * the cost final then, until the end is proven anew.
 *
 * posted, what the run counts, is the sum of its costs and credits, and never below 0: a credit
 * makes no more room than was posted for its run. held, what an account still has reserved for it,
 * is amount - posted (not below 0) until the cost is final; only then, or when voided, it is 0. */
#ifndef BUDGET_RULES_H
#define BUDGET_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/claims.h"

/* Why not. The numbers are in the journal: never change or reuse one. */
typedef enum budget_reason {
    BUDGET_REASON_NONE = 0, /* granted */
    BUDGET_REASON_EXCEEDED = 1,
    BUDGET_REASON_LABEL_USED = 2,
    BUDGET_REASON_LABEL_UNKNOWN = 3,
    BUDGET_REASON_REQUEST_REUSED = 4,
    BUDGET_REASON_ACCOUNT_UNKNOWN = 5,
    BUDGET_REASON_ACCOUNT_EXISTS = 6,
    BUDGET_REASON_ACCOUNT_FROZEN = 7,
    BUDGET_REASON_UNDERFUNDED = 8, /* less than instances × price × (time + granularity) */
    BUDGET_REASON_POLICY = 9,      /* vendor, tier, price, hours: the message says which */
    BUDGET_REASON_STATE = 10,      /* voided, terminated, not frozen: too late or too early */
    BUDGET_REASON_REDEEMED = 11,   /* so it cannot be voided */
    BUDGET_REASON_TOKEN_UNKNOWN = 12,
    BUDGET_REASON_TOKEN_EXPIRED = 13,
    BUDGET_REASON_DEADLINE_PASSED = 14,
    BUDGET_REASON_RANK_RANGE = 15,
    BUDGET_REASON_ATTEMPT_RANGE = 16,
    BUDGET_REASON_ATTEMPT_ORDER = 17,
    BUDGET_REASON_FENCED = 18,
    BUDGET_REASON_JOB_KEY = 19,
    BUDGET_REASON_CREATED = 20, /* the creation permit was given before */
    BUDGET_REASON_INSTANCE_USED = 21,
    BUDGET_REASON_LINE_USED = 22,
    BUDGET_REASON_EVIDENCE = 23,
    BUDGET_REASON_CLIENT_EXISTS = 24,
    BUDGET_REASON_CLIENT_UNKNOWN = 25,
    BUDGET_REASON_OVERFLOW = 26, /* a sum would leave what money may be */
    BUDGET_REASON_LIMIT = 27,    /* too many accounts, clients, instances */
    BUDGET_REASON_COUNT_ = 28,
} budget_reason;

/* "BUDGET_EXCEEDED", "LABEL_USED", …; "GRANTED" for none; never NULL. */
const char *budget_reason_name(budget_reason reason);

typedef enum budget_state {
    BUDGET_STATE_RESERVED = 1,
    BUDGET_STATE_CREATED = 2,
    BUDGET_STATE_EXPIRED_UNCONFIRMED = 3,
    BUDGET_STATE_TERMINATED_UNBILLED = 4,
    BUDGET_STATE_POSTED = 5,
    BUDGET_STATE_VOIDED = 6,
} budget_state;

/* "reserved", "terminated-unbilled", …; never NULL. */
const char *budget_state_name(budget_state state);

/* What a row of the journal records. The numbers are in the journal. */
typedef enum budget_kind {
    BUDGET_KIND_GENESIS = 1,
    BUDGET_KIND_ACCOUNT = 2,
    BUDGET_KIND_CAP = 3,
    BUDGET_KIND_ACKNOWLEDGE = 4,
    BUDGET_KIND_AUTHORIZE = 5,
    BUDGET_KIND_REFUSE = 6, /* a remembered request, refused */
    BUDGET_KIND_REDEEM = 7,
    BUDGET_KIND_CREATE = 8,
    BUDGET_KIND_ATTACH = 9,
    BUDGET_KIND_ACTUAL = 10,
    BUDGET_KIND_TERMINATED = 11,
    BUDGET_KIND_VOID = 12,
    BUDGET_KIND_EXPIRE = 13,
    BUDGET_KIND_CLOCK = 14,
    BUDGET_KIND_CLIENT_ADD = 15,
    BUDGET_KIND_CLIENT_REVOKE = 16,
    BUDGET_KIND_CHECKPOINT_ACCEPTED = 17,
    BUDGET_KIND_BOOT = 18, /* the first start after the machine's: where ledger time stood */
    BUDGET_KIND_AUDIT_ACCEPTED = 19, /* an admin goes on with a ledger that does not audit */
    BUDGET_KIND_FINAL = 20,          /* a bill showed that the cost is final */
    BUDGET_KIND_REFUTED = 21,        /* a bill charges for a time after the proven end */
    BUDGET_KIND_REPLACE = 22,        /* an admin sets right which instance was attached */
    BUDGET_KIND_COUNT_ = 23,
} budget_kind;

const char *budget_kind_name(budget_kind kind);

typedef struct budget_rule_account {
    int64_t cap;
    int64_t posted;
    int64_t reserved;
    bool frozen;
} budget_rule_account;

/* chain[0] is the account itself, the last one has no parent. */
typedef struct budget_rule_chain {
    size_t count; /* 1 … BUDGET_ACCOUNT_DEPTH_MAX */
    budget_rule_account accounts[BUDGET_ACCOUNT_DEPTH_MAX];
} budget_rule_chain;

typedef struct budget_rule_now {
    int64_t ledger_ms; /* deadlines are compared with this */
    int64_t wall_ms;   /* the token's exp is compared with this */
} budget_rule_now;

typedef struct budget_rule_reservation {
    budget_state state;
    int64_t amount;
    int64_t total;  /* of costs and credits: below 0 when credits are more */
    int64_t posted; /* what counts of it: 0 when it is below 0 */
    int64_t held;
    bool local;          /* vendor local: no bill will come */
    bool created;        /* the creation permit was given */
    bool expired;        /* its deadline has been seen to pass */
    bool terminated;     /* proven, or attested */
    bool refuted;        /* by a bill, and not proven anew since */
    bool billed;         /* a line of a bill is in the total */
    bool final;          /* no more cost will come */
    int64_t ended_ms;    /* ledger time, when terminated; 0: it is not */
    int64_t deadline_ms; /* ledger time; 0: not started yet */
    int64_t max_seconds;
    int64_t expires_at_s; /* exp */
    int64_t world_size;
    int64_t attempt; /* the last one redeemed; 0: none */
    int64_t max_attempts;
    bool has_key;
    uint8_t job_public_key[32];
} budget_rule_reservation;

/* cap - posted - reserved; may be negative. */
int64_t budget_rule_remaining(const budget_rule_account *account);

/* The index of the account with the least left; the nearest one on a tie. */
size_t budget_rule_binding(const budget_rule_chain *chain);

/* May amount be reserved? Granted: every account's reserved grows by it. *which: the account that
 * refuses, or that binds. */
budget_reason budget_rule_authorize(budget_rule_chain *chain, int64_t amount, size_t *which);

typedef struct budget_rule_tuple {
    int64_t rank;
    int64_t attempt;
    const uint8_t *job_public_key; /* 32 bytes */
    bool seen;                     /* (jti, rank, attempt) has been redeemed before */
} budget_rule_tuple;

/* Granted with tuple->seen: the same answer again, nothing changes. */
budget_reason budget_rule_redeem(budget_rule_reservation *reservation,
                                 const budget_rule_tuple *tuple, bool frozen,
                                 const budget_rule_now *now);
budget_reason budget_rule_create(budget_rule_reservation *reservation, bool frozen,
                                 const budget_rule_now *now);
budget_reason budget_rule_void(budget_rule_reservation *reservation);

/* An instance was attached, or the run has cost something, with or without leave: it may be running.
 * So its deadline starts, unless there is one, or the run is over: false. */
bool budget_rule_start(budget_rule_reservation *reservation, const budget_rule_now *now);

/* What a bill's line or a person says that it cost. */
typedef struct budget_rule_cost {
    int64_t amount; /* negative: a credit */
    bool billed;    /* a line of a bill */
    bool final;     /* said to be all of it; counts only when termination has been proven before */
} budget_rule_cost;

/* *freeze: a person must look, since this cost took the total above the reservation (or further),
 * or this credit took it below 0 (or further). Another reason: budget_rule_passes_cap. */
budget_reason budget_rule_actual(budget_rule_reservation *reservation, const budget_rule_cost *cost,
                                 bool *freeze);

/* Does the run cost more than was reserved for it, or are its credits more than its costs? */
bool budget_rule_is_odd(const budget_rule_reservation *reservation);

/* An end that was refuted is proven anew: it ended now. */
budget_reason budget_rule_terminated(budget_rule_reservation *reservation,
                                     const budget_rule_now *now);

/* A bill charges for a time after the proven end, or it was proven for another instance. False: none
 * is proven, the cost is final, or this is known. Where the end was proven before anything had started
 * the deadline, nobody knows since when the run goes on, so its deadline is now. */
bool budget_rule_refute(budget_rule_reservation *reservation, const budget_rule_now *now);

/* What a bill that shows the run, and agrees with what is posted, says of its end. Ledger times. */
typedef struct budget_rule_bill {
    int64_t until_ms;        /* what began later is not on it */
    int64_t billed_until_ms; /* each instance is billed until then at least; 0: not said */
    int64_t settling_ms;     /* so long after the end the vendor still sends lines; INT64_MAX: time
                              * alone says nothing */
} budget_rule_bill;

/* STATE: the cost is not final by this bill, or is already, or the run has not ended, or goes on. */
budget_reason budget_rule_finalize(budget_rule_reservation *reservation,
                                   const budget_rule_bill *bill, const budget_rule_now *now);

/* What a total counts: nothing when it is below 0. */
int64_t budget_rule_posted(int64_t total);

/* Is its cost known: said by somebody, and be it that it cost nothing? */
bool budget_rule_cost_known(const budget_rule_reservation *reservation);

/* Is there an edge between the two in the diagram above, or are they the same? */
bool budget_rule_may_become(budget_state from, budget_state to);

/* Has its deadline passed, with nothing proven? Then it becomes expired-unconfirmed and all that is
 * held stays held; one of vendor local, which costs nothing, ends instead. False: nothing to do. */
bool budget_rule_expire(budget_rule_reservation *reservation, const budget_rule_now *now);

/* Has a cost used more than was held and posted for the run, and is an account of the chain, as it
 * is with that cost, above its cap? So the account is frozen: what had returned of the reservation
 * was granted to others. */
bool budget_rule_passes_cap(const budget_rule_chain *chain, const budget_rule_reservation *before,
                            const budget_rule_reservation *after);

/* Adds the difference of a reservation's held and posted to every account of the chain, and freezes
 * the nearest when freeze. after must be what a rule made of before. False, nothing changed: a sum
 * would overflow. */
bool budget_rule_effect(budget_rule_chain *chain, const budget_rule_reservation *before,
                        const budget_rule_reservation *after, bool freeze);

#endif
