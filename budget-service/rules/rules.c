/* The verdicts on reservations as pure functions: authorize, redeem, expire, terminate, cost,
 * final. Called by ledger/, and by the simulation in tests/budget. */
#include "budget/rules.h"

#include <string.h>

#include "base/assert.h"
#include "budget/money.h"
#include "mutation.h"

const char *budget_reason_name(budget_reason reason)
{
    static const char *const names[BUDGET_REASON_COUNT_] = {
        [BUDGET_REASON_NONE] = "GRANTED",
        [BUDGET_REASON_EXCEEDED] = "BUDGET_EXCEEDED",
        [BUDGET_REASON_LABEL_USED] = "LABEL_USED",
        [BUDGET_REASON_LABEL_UNKNOWN] = "LABEL_UNKNOWN",
        [BUDGET_REASON_REQUEST_REUSED] = "REQUEST_REUSED",
        [BUDGET_REASON_ACCOUNT_UNKNOWN] = "ACCOUNT_UNKNOWN",
        [BUDGET_REASON_ACCOUNT_EXISTS] = "ACCOUNT_EXISTS",
        [BUDGET_REASON_ACCOUNT_FROZEN] = "ACCOUNT_FROZEN",
        [BUDGET_REASON_UNDERFUNDED] = "UNDERFUNDED",
        [BUDGET_REASON_POLICY] = "POLICY",
        [BUDGET_REASON_STATE] = "STATE",
        [BUDGET_REASON_REDEEMED] = "REDEEMED",
        [BUDGET_REASON_TOKEN_UNKNOWN] = "TOKEN_UNKNOWN",
        [BUDGET_REASON_TOKEN_EXPIRED] = "TOKEN_EXPIRED",
        [BUDGET_REASON_DEADLINE_PASSED] = "DEADLINE_PASSED",
        [BUDGET_REASON_RANK_RANGE] = "RANK_RANGE",
        [BUDGET_REASON_ATTEMPT_RANGE] = "ATTEMPT_RANGE",
        [BUDGET_REASON_ATTEMPT_ORDER] = "ATTEMPT_ORDER",
        [BUDGET_REASON_FENCED] = "FENCED",
        [BUDGET_REASON_JOB_KEY] = "JOB_KEY",
        [BUDGET_REASON_CREATED] = "ALREADY_CREATED",
        [BUDGET_REASON_INSTANCE_USED] = "INSTANCE_USED",
        [BUDGET_REASON_LINE_USED] = "LINE_USED",
        [BUDGET_REASON_EVIDENCE] = "EVIDENCE",
        [BUDGET_REASON_CLIENT_EXISTS] = "CLIENT_EXISTS",
        [BUDGET_REASON_CLIENT_UNKNOWN] = "CLIENT_UNKNOWN",
        [BUDGET_REASON_OVERFLOW] = "OVERFLOW",
        [BUDGET_REASON_LIMIT] = "LIMIT",
    };
    return (unsigned)reason < BUDGET_REASON_COUNT_ && names[reason] != NULL ? names[reason]
                                                                            : "UNKNOWN";
}

const char *budget_state_name(budget_state state)
{
    switch (state) {
    case BUDGET_STATE_RESERVED:
        return "reserved";
    case BUDGET_STATE_CREATED:
        return "created";
    case BUDGET_STATE_EXPIRED_UNCONFIRMED:
        return "expired-unconfirmed";
    case BUDGET_STATE_TERMINATED_UNBILLED:
        return "terminated-unbilled";
    case BUDGET_STATE_POSTED:
        return "posted";
    case BUDGET_STATE_VOIDED:
        return "voided";
    }
    return "unknown";
}

const char *budget_kind_name(budget_kind kind)
{
    static const char *const names[BUDGET_KIND_COUNT_] = {
        [BUDGET_KIND_GENESIS] = "genesis",
        [BUDGET_KIND_ACCOUNT] = "account",
        [BUDGET_KIND_CAP] = "cap",
        [BUDGET_KIND_ACKNOWLEDGE] = "acknowledge",
        [BUDGET_KIND_AUTHORIZE] = "authorize",
        [BUDGET_KIND_REFUSE] = "refuse",
        [BUDGET_KIND_REDEEM] = "redeem",
        [BUDGET_KIND_CREATE] = "create",
        [BUDGET_KIND_ATTACH] = "attach",
        [BUDGET_KIND_ACTUAL] = "actual",
        [BUDGET_KIND_TERMINATED] = "terminated",
        [BUDGET_KIND_VOID] = "void",
        [BUDGET_KIND_EXPIRE] = "expire",
        [BUDGET_KIND_CLOCK] = "clock",
        [BUDGET_KIND_CLIENT_ADD] = "client-add",
        [BUDGET_KIND_CLIENT_REVOKE] = "client-revoke",
        [BUDGET_KIND_CHECKPOINT_ACCEPTED] = "checkpoint-accepted",
        [BUDGET_KIND_BOOT] = "boot",
        [BUDGET_KIND_AUDIT_ACCEPTED] = "audit-accepted",
        [BUDGET_KIND_FINAL] = "final",
        [BUDGET_KIND_REFUTED] = "refuted",
        [BUDGET_KIND_REPLACE] = "replace",
    };
    return (unsigned)kind < BUDGET_KIND_COUNT_ && names[kind] != NULL ? names[kind] : "unknown";
}

/* Caps and sums stay within ±2^62 (budget_rule_effect), so this does not overflow. */
int64_t budget_rule_remaining(const budget_rule_account *account)
{
    int64_t used = 0;
    int64_t left = 0;
    if (!budget_money_add(account->posted, account->reserved, &used) ||
        __builtin_sub_overflow(account->cap, used, &left)) {
        return INT64_MIN;
    }
    return left;
}

size_t budget_rule_binding(const budget_rule_chain *chain)
{
    size_t least = 0;
    for (size_t i = 1; i < chain->count; i++) {
        if (budget_rule_remaining(&chain->accounts[i]) <
            budget_rule_remaining(&chain->accounts[least])) {
            least = i;
        }
    }
    return least;
}

budget_reason budget_rule_authorize(budget_rule_chain *chain, int64_t amount, size_t *which)
{
    for (size_t i = 0; i < chain->count; i++) {
        if (chain->accounts[i].frozen) {
            *which = i;
            return BUDGET_REASON_ACCOUNT_FROZEN;
        }
    }
    *which = budget_rule_binding(chain);
    if (amount < 0 || amount > BUDGET_MONEY_MICRO_MAX) {
        return BUDGET_REASON_OVERFLOW;
    }
    if (amount > budget_rule_remaining(&chain->accounts[*which])) {
        return BUDGET_REASON_EXCEEDED;
    }
    for (size_t i = 0; i < chain->count; i++) {
        if (i > 0 && BUDGET_MUTANT(PARENT_SKIPPED)) {
            break;
        }
        chain->accounts[i].reserved += amount;
        BASE_ASSERT(budget_rule_remaining(&chain->accounts[i]) >= 0);
    }
    return BUDGET_REASON_NONE;
}

int64_t budget_rule_posted(int64_t total)
{
    return total < 0 && !BUDGET_MUTANT(CREDIT_RAISES) ? 0 : total;
}

bool budget_rule_cost_known(const budget_rule_reservation *reservation)
{
    return reservation->total != 0 || reservation->billed || reservation->final;
}

/* Proven to have ended, at a cost to which nothing will be added. */
static bool is_over(const budget_rule_reservation *reservation)
{
    if (BUDGET_MUTANT(RELEASE_ON_TIMEOUT) && reservation->expired) {
        return true;
    }
    if (BUDGET_MUTANT(PARTIAL_RELEASES) && reservation->terminated) {
        return budget_rule_cost_known(reservation);
    }
    return reservation->terminated && reservation->final;
}

static int64_t held_of(const budget_rule_reservation *reservation, int64_t posted)
{
    if (reservation->state == BUDGET_STATE_VOIDED || is_over(reservation) ||
        posted >= reservation->amount) {
        return 0;
    }
    return reservation->amount - posted;
}

static bool is_redeemed(const budget_rule_reservation *reservation)
{
    return reservation->created || reservation->attempt > 0;
}

static budget_state state_of(const budget_rule_reservation *reservation)
{
    if (reservation->state == BUDGET_STATE_VOIDED) {
        return BUDGET_STATE_VOIDED;
    }
    if (reservation->terminated) {
        return reservation->final ? BUDGET_STATE_POSTED : BUDGET_STATE_TERMINATED_UNBILLED;
    }
    if (reservation->expired) {
        return BUDGET_STATE_EXPIRED_UNCONFIRMED;
    }
    const bool started = is_redeemed(reservation) || reservation->deadline_ms != 0 ||
                         reservation->billed || reservation->total != 0;
    return started ? BUDGET_STATE_CREATED : reservation->state;
}

/* posted, held and state from the other fields; a state of voided stays. */
static void derive(budget_rule_reservation *reservation)
{
    reservation->posted = budget_rule_posted(reservation->total);
    const int64_t posted = reservation->posted > 0 ? reservation->posted : 0;
    reservation->held = held_of(reservation, posted);
    reservation->state = state_of(reservation);
    BASE_ASSERT(reservation->held >= 0);
    BASE_ASSERT(reservation->held == 0 || reservation->held + posted == reservation->amount);
    BASE_ASSERT(reservation->state != BUDGET_STATE_POSTED || reservation->held == 0);
}

bool budget_rule_may_become(budget_state from, budget_state to)
{
    enum { LEAST = BUDGET_STATE_RESERVED, COUNT = BUDGET_STATE_VOIDED + 1 };
    /* The edges that rules.h draws and names; a state may stay as it is. */
    static const uint8_t next[COUNT] = {
        [BUDGET_STATE_RESERVED] = 1u << BUDGET_STATE_CREATED | 1u << BUDGET_STATE_VOIDED |
                                  1u << BUDGET_STATE_TERMINATED_UNBILLED,
        [BUDGET_STATE_CREATED] = 1u << BUDGET_STATE_EXPIRED_UNCONFIRMED |
                                 1u << BUDGET_STATE_TERMINATED_UNBILLED | 1u << BUDGET_STATE_POSTED,
        [BUDGET_STATE_EXPIRED_UNCONFIRMED] = 1u << BUDGET_STATE_TERMINATED_UNBILLED,
        [BUDGET_STATE_TERMINATED_UNBILLED] = 1u << BUDGET_STATE_POSTED,
    };
    return from == to || ((int)from >= LEAST && (int)from < COUNT && (next[from] >> to & 1u) != 0);
}

/* The state and the sums of a row that nobody has edited. */
static bool is_derived(const budget_rule_reservation *reservation)
{
    budget_rule_reservation again = *reservation;
    derive(&again);
    return again.state == reservation->state && again.held == reservation->held &&
           again.posted == reservation->posted;
}

/* What redeeming by a rank and the creation permit have in common. */
static budget_reason may_start(const budget_rule_reservation *reservation,
                               const budget_rule_now *now)
{
    if (reservation->expired ||
        (reservation->deadline_ms != 0 && now->ledger_ms >= reservation->deadline_ms)) {
        return BUDGET_REASON_DEADLINE_PASSED;
    }
    if (reservation->state != BUDGET_STATE_RESERVED && reservation->state != BUDGET_STATE_CREATED) {
        return BUDGET_REASON_STATE;
    }
    if (!is_redeemed(reservation) && now->wall_ms / 1000 >= reservation->expires_at_s) {
        return BUDGET_REASON_TOKEN_EXPIRED;
    }
    return BUDGET_REASON_NONE;
}

static void start(budget_rule_reservation *reservation, const budget_rule_now *now)
{
    if (reservation->deadline_ms == 0) {
        reservation->deadline_ms = now->ledger_ms + reservation->max_seconds * 1000;
    }
    derive(reservation);
}

bool budget_rule_start(budget_rule_reservation *reservation, const budget_rule_now *now)
{
    if (reservation->deadline_ms != 0 || BUDGET_MUTANT(HAND_MADE_ENDLESS) ||
        (reservation->state != BUDGET_STATE_RESERVED &&
         reservation->state != BUDGET_STATE_CREATED)) {
        return false;
    }
    start(reservation, now);
    return true;
}

budget_reason budget_rule_redeem(budget_rule_reservation *reservation,
                                 const budget_rule_tuple *tuple, bool frozen,
                                 const budget_rule_now *now)
{
    if (tuple->rank < 0 || tuple->rank >= reservation->world_size) {
        return BUDGET_REASON_RANK_RANGE;
    }
    if (tuple->attempt < 1 || tuple->attempt > reservation->max_attempts) {
        return BUDGET_REASON_ATTEMPT_RANGE;
    }
    const budget_reason reason = may_start(reservation, now);
    if (reason != BUDGET_REASON_NONE) {
        return reason;
    }
    if (reservation->has_key && !BUDGET_MUTANT(JOB_KEY_IGNORED) &&
        memcmp(reservation->job_public_key, tuple->job_public_key,
               sizeof reservation->job_public_key) != 0) {
        return BUDGET_REASON_JOB_KEY;
    }
    if (tuple->attempt < reservation->attempt && !BUDGET_MUTANT(ATTEMPT_UNFENCED)) {
        return BUDGET_REASON_FENCED;
    }
    if (tuple->attempt > reservation->attempt + 1) {
        return BUDGET_REASON_ATTEMPT_ORDER;
    }
    if (tuple->seen) {
        return BUDGET_REASON_NONE;
    }
    if (frozen) {
        return BUDGET_REASON_ACCOUNT_FROZEN;
    }
    reservation->has_key = true;
    memcpy(reservation->job_public_key, tuple->job_public_key, sizeof reservation->job_public_key);
    reservation->attempt = tuple->attempt;
    start(reservation, now);
    return BUDGET_REASON_NONE;
}

budget_reason budget_rule_create(budget_rule_reservation *reservation, bool frozen,
                                 const budget_rule_now *now)
{
    if (reservation->created && !BUDGET_MUTANT(CREATE_TWICE)) {
        return BUDGET_REASON_CREATED;
    }
    const budget_reason reason = may_start(reservation, now);
    if (reason != BUDGET_REASON_NONE) {
        return reason;
    }
    if (frozen) {
        return BUDGET_REASON_ACCOUNT_FROZEN;
    }
    reservation->created = true;
    start(reservation, now);
    return BUDGET_REASON_NONE;
}

budget_reason budget_rule_void(budget_rule_reservation *reservation)
{
    if (reservation->state != BUDGET_STATE_RESERVED &&
        !(BUDGET_MUTANT(VOID_AFTER_REDEEM) && reservation->state == BUDGET_STATE_CREATED)) {
        return is_redeemed(reservation) ? BUDGET_REASON_REDEEMED : BUDGET_REASON_STATE;
    }
    reservation->state = BUDGET_STATE_VOIDED;
    derive(reservation);
    return BUDGET_REASON_NONE;
}

/* What may be posted for it before a person must look: nothing is reserved for a voided one. */
static int64_t limit_of(const budget_rule_reservation *reservation)
{
    return reservation->state == BUDGET_STATE_VOIDED ? 0 : reservation->amount;
}

bool budget_rule_is_odd(const budget_rule_reservation *reservation)
{
    return reservation->total < 0 || reservation->total > limit_of(reservation);
}

budget_reason budget_rule_actual(budget_rule_reservation *reservation, const budget_rule_cost *cost,
                                 bool *freeze)
{
    int64_t total = 0;
    *freeze = false;
    if (!budget_money_add(reservation->total, cost->amount, &total) ||
        total > BUDGET_MONEY_MICRO_MAX || total < -BUDGET_MONEY_MICRO_MAX) {
        return BUDGET_REASON_OVERFLOW;
    }
    const bool overrun =
        cost->amount > 0 && total > limit_of(reservation) && !BUDGET_MUTANT(OVERRUN_UNFROZEN);
    *freeze = overrun || (cost->amount < 0 && total < 0);
    reservation->total = total;
    reservation->billed = reservation->billed || cost->billed;
    if (cost->final && (reservation->terminated || BUDGET_MUTANT(FINAL_WHILE_IT_RUNS))) {
        reservation->final = true;
        reservation->refuted = false; /* a person knows better */
    }
    derive(reservation);
    return BUDGET_REASON_NONE;
}

budget_reason budget_rule_terminated(budget_rule_reservation *reservation,
                                     const budget_rule_now *now)
{
    if (reservation->state == BUDGET_STATE_VOIDED) {
        return BUDGET_REASON_STATE;
    }
    if (!reservation->terminated || reservation->refuted) {
        reservation->terminated = true;
        reservation->refuted = false;
        reservation->ended_ms = now->ledger_ms;
    }
    derive(reservation);
    return BUDGET_REASON_NONE;
}

bool budget_rule_refute(budget_rule_reservation *reservation, const budget_rule_now *now)
{
    if (reservation->state != BUDGET_STATE_TERMINATED_UNBILLED || reservation->refuted ||
        BUDGET_MUTANT(REFUTED_FORGOTTEN)) {
        return false;
    }
    reservation->refuted = true;
    if (reservation->deadline_ms == 0) {
        reservation->deadline_ms = now->ledger_ms;
    }
    return true;
}

budget_reason budget_rule_finalize(budget_rule_reservation *reservation,
                                   const budget_rule_bill *bill, const budget_rule_now *now)
{
    const int64_t until_ms = bill->until_ms < now->ledger_ms ? bill->until_ms : now->ledger_ms;
    if (reservation->state != BUDGET_STATE_TERMINATED_UNBILLED || reservation->refuted ||
        !reservation->billed || until_ms < reservation->ended_ms) {
        return BUDGET_REASON_STATE;
    }
    const bool to_the_end = bill->billed_until_ms >= reservation->ended_ms;
    const bool settled = until_ms - reservation->ended_ms >= bill->settling_ms;
    if (!to_the_end && !settled && !BUDGET_MUTANT(SETTLED_AT_ONCE)) {
        return BUDGET_REASON_STATE;
    }
    reservation->final = true;
    derive(reservation);
    return BUDGET_REASON_NONE;
}

bool budget_rule_expire(budget_rule_reservation *reservation, const budget_rule_now *now)
{
    if (reservation->state != BUDGET_STATE_CREATED || reservation->deadline_ms == 0 ||
        now->ledger_ms < reservation->deadline_ms) {
        return false;
    }
    reservation->expired = true;
    if (reservation->local) {
        reservation->terminated = true;
        reservation->ended_ms = now->ledger_ms;
        reservation->final = true;
    }
    derive(reservation);
    return true;
}

bool budget_rule_passes_cap(const budget_rule_chain *chain, const budget_rule_reservation *before,
                            const budget_rule_reservation *after)
{
    return after->held + after->posted > before->held + before->posted &&
           budget_rule_remaining(&chain->accounts[budget_rule_binding(chain)]) < 0 &&
           !BUDGET_MUTANT(LATE_UNFROZEN);
}

bool budget_rule_effect(budget_rule_chain *chain, const budget_rule_reservation *before,
                        const budget_rule_reservation *after, bool freeze)
{
    const int64_t limit = INT64_MAX / 4;
    budget_rule_chain next = *chain;
    const bool legal = budget_rule_may_become(before->state, after->state) || BUDGET_MUTANT_ANY ||
                       !is_derived(before); /* a row of the file that was edited may be anything */
    BASE_ASSERT(legal);
    BASE_ASSERT(before->amount == after->amount);
    for (size_t i = 0; i < next.count; i++) {
        budget_rule_account *account = &next.accounts[i];
        if (!budget_money_add(account->reserved, after->held - before->held, &account->reserved) ||
            !budget_money_add(account->posted, after->posted - before->posted, &account->posted) ||
            account->posted > limit || account->posted < -limit || account->reserved < 0) {
            return false;
        }
        if (i > 0 && BUDGET_MUTANT(PARENT_SKIPPED)) {
            *account = chain->accounts[i];
        }
    }
    next.accounts[0].frozen = next.accounts[0].frozen || freeze;
    *chain = next;
    return true;
}
