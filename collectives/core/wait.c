/* Waits for an operation: progress, then pauses, then sched_yield, then sleep, with the deadline
 * and the abort word in the same loop. Called by every call that blocks; only run.c of shared
 * memory has loops of its own.
 *
 * Pauses are for ranks that have a processor each. Where ranks share processors, a rank that spins
 * keeps its peer from running. There it yields, as often as its yield budget says. The budget sinks
 * where yields do not let the others run: a kernel that schedules sessions or containers as groups
 * yields only within one. Then ranks go to sleep almost at once.
 *
 * A transport whose bytes move in threads of its own gets no pauses: each of them may keep such a
 * thread from the processor. */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "core/failure.h"
#include "core/progress.h"
#include "core/report.h"
#include "core/wait.h"

enum {
    SPINS_PER_LOOK = 64, /* between two looks at the clock */
};

/* Spinning longer than a yield costs is no gain, and a loss where another job has the processor. */
#define SPIN_NS             (4 * BASE_NS_PER_US)
#define YIELD_NS            (300 * BASE_NS_PER_US)
#define YIELD_TO_THREADS_NS (50 * BASE_NS_PER_US)
#define SLEEP_NS            (50 * BASE_NS_PER_MS)
#define SHOW_NS             (1 * BASE_NS_PER_S)

typedef struct waiter {
    coll_context *context;
    coll_op *op;
    coll_request *const *any; /* (any_count) op is the first of these; NULL: it is the only one */
    size_t any_count;
    unsigned moves;      /* turns with progress */
    unsigned idle;       /* turns without, since the last of those */
    int64_t idle_ns;     /* when they began */
    int64_t deadline_ns; /* 0: not yet computed */
    unsigned yields;     /* since the last progress */
    int64_t began_ns;    /* when it first had to wait; 0: not yet */
    uint64_t waits;      /* for these ranks, as peers were shown */
    bool described;
} waiter;

void coll_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void halve_yield_budget(coll_context *context)
{
    context->yield_budget =
        context->yield_budget / 2 > COLL_YIELDS_MIN ? context->yield_budget / 2 : COLL_YIELDS_MIN;
}

void coll_yield_budget_grow(coll_context *context)
{
    context->yield_budget += context->yield_budget < COLL_YIELDS_MAX ? 1 : 0;
}

bool coll_has_changed(coll_context *context)
{
    return coll_progress(context) || atomic_load(&context->abort_state) == 2;
}

void coll_describe(coll_context *context, const coll_op *op)
{
    char text[COLL_DESCRIBE_BYTES] = "";
    if (op != NULL) {
        coll_op_text(op, text, sizeof text);
    }
    (void)pthread_mutex_lock(&context->describe_lock);
    memcpy(context->description, text, sizeof text);
    (void)pthread_mutex_unlock(&context->describe_lock);
}

/* Whether a pause may stand between two turns; else each of them gives the processor away. */
static bool may_pause(const coll_context *context)
{
    return context->spins > 0 && !context->table->has_threads;
}

int64_t coll_show_after_ns(const coll_context *context)
{
    const int64_t part_ns = context->timeout_ns / 8;
    return part_ns < SHOW_NS ? part_ns : SHOW_NS;
}

/* The first request that is done, or fails where it is waited for; count: none. */
static size_t find_ended(coll_request *const *requests, size_t count)
{
    size_t i = 0;
    for (; i < count; i++) {
        const coll_op *op = (const coll_op *)(const void *)requests[i];
        if (op != NULL && (op->comm == NULL || op->comm->failed || op->stage == COLL_STAGE_DONE)) {
            break;
        }
    }
    return i;
}

static bool has_ended(const waiter *w)
{
    return w->any != NULL ? find_ended(w->any, w->any_count) < w->any_count
                          : w->op->comm->failed || w->op->stage == COLL_STAGE_DONE;
}

/* Peers are shown whom this rank waits for when that takes long: so that they can distinguish a
 * rank that holds up all from one that is held up itself. This operation's own wait counts, not the
 * time of a call that waits for many: thousands of short waits would send thousands of frames, some
 * of them to a peer that is leaving. Who waits for any of several is held up by none of them. */
static void show_waits(waiter *w, int64_t now_ns)
{
    coll_comm *comm = w->op->comm;
    if (w->any != NULL || now_ns < w->began_ns + coll_show_after_ns(w->context)) {
        return;
    }
    const uint64_t waits = coll_comm_waits(comm, w->op);
    if (waits != w->waits) {
        comm->table->notices->show_waits(comm, waits);
        w->waits = waits;
    }
}

/* One turn without progress; COLL_ERR_TIMEOUT when the deadline has passed. */
static coll_status idle_turn(waiter *w, coll_error *reterr)
{
    w->idle++;
    const bool pauses = may_pause(w->context);
    if (pauses && w->idle % SPINS_PER_LOOK != 0) {
        coll_pause();
        return COLL_OK;
    }
    const int64_t now_ns = base_now_ns();
    if (w->idle_ns == 0) {
        w->idle_ns = now_ns;
    }
    if (w->began_ns == 0) {
        w->began_ns = now_ns;
    }
    if (w->deadline_ns == 0) {
        w->deadline_ns = base_deadline_after_ns(w->context->timeout_ns);
    }
    if (now_ns >= w->deadline_ns) {
        return coll_report_timeout(w->op, reterr);
    }
    const int64_t idle_ns = now_ns - w->idle_ns;
    if (pauses && idle_ns < SPIN_NS) {
        return COLL_OK;
    }
    const bool crowded = w->context->spins == 0;
    const int64_t yield_ns = pauses ? YIELD_NS : YIELD_TO_THREADS_NS;
    if (crowded ? w->yields++ < w->context->yield_budget : idle_ns < yield_ns) {
        (void)sched_yield();
        w->idle |= SPINS_PER_LOOK - 1; /* every turn looks at the clock from here on */
        return COLL_OK;
    }
    w->op->comm->table->notices->watch(w->op);
    if (has_ended(w)) {
        return COLL_OK; /* the next turn says so; progress that comes now would wake nobody */
    }
    coll_describe(w->context, w->op);
    w->described = true;
    show_waits(w, now_ns);
    w->yields = 0;
    halve_yield_budget(w->context);
    const int64_t until_ns = now_ns + SLEEP_NS;
    w->context->table->sleep->sleep(w->context, coll_has_changed,
                                    until_ns < w->deadline_ns ? until_ns : w->deadline_ns);
    w->idle |= SPINS_PER_LOOK - 1;
    return COLL_OK;
}

bool coll_is_late(const coll_context *context, int64_t *deadline_ns)
{
    if (*deadline_ns == 0) {
        *deadline_ns = base_deadline_after_ns(context->timeout_ns);
    }
    return base_now_ns() >= *deadline_ns;
}

coll_status coll_still_check(coll_op *op, coll_error *reterr)
{
    const coll_context *context = op->comm->context;
    if (op->still.sequence != op->sequence || op->still.moves != context->moves) {
        op->still = (coll_op_still){op->sequence, context->moves, context->watched_ns};
    }
    return op->stage == COLL_STAGE_DONE || op->comm->failed ||
                   context->watched_ns - op->still.since_ns < context->timeout_ns
               ? COLL_OK
               : coll_report_timeout(op, reterr);
}

/* After each turn with progress: nothing is idle, but the deadline holds all the same. */
static coll_status busy_turn(waiter *w, coll_error *reterr)
{
    w->idle = 0;
    w->idle_ns = 0;
    w->yields = 0;
    if (++w->moves % COLL_MOVES_PER_LOOK != 0 || !coll_is_late(w->context, &w->deadline_ns)) {
        return COLL_OK;
    }
    return coll_report_timeout(w->op, reterr);
}

static coll_status turn(waiter *w, bool moved, coll_error *reterr)
{
    const coll_status status = coll_comm_check(w->op->comm, reterr);
    if (status != COLL_OK) {
        return status;
    }
    return moved ? busy_turn(w, reterr) : idle_turn(w, reterr);
}

coll_status coll_wait(coll_op *op, coll_error *reterr)
{
    waiter w = {.context = op->comm->context, .op = op, .deadline_ns = op->deadline_ns};
    coll_status status = COLL_OK;
    op->deadline_ns = 0;
    if (op->stage == COLL_STAGE_DONE && w.context->table->has_threads) {
        (void)sched_yield(); /* the bytes are on their way only then */
    }
    while (status == COLL_OK && op->stage != COLL_STAGE_DONE) {
        const bool moved = coll_progress(w.context);
        if (op->stage != COLL_STAGE_DONE) {
            status = turn(&w, moved, reterr);
        }
    }
    if (w.described) {
        coll_describe(w.context, NULL);
    }
    if (w.waits != 0 && !op->comm->failed) {
        op->comm->table->notices->show_waits(op->comm, 0);
    }
    return status;
}

size_t coll_wait_any(coll_request *const *requests, size_t count)
{
    waiter w = {.any = requests, .any_count = count};
    size_t first = 0;
    while (first < count && requests[first] == NULL) {
        first++;
    }
    size_t ended = find_ended(requests, count);
    if (first == count || ended < count) {
        return ended;
    }
    w.op = (coll_op *)(void *)requests[first];
    w.context = w.op->comm->context;
    while (ended == count) {
        const bool moved = coll_progress(w.context);
        ended = find_ended(requests, count);
        if (ended == count && turn(&w, moved, NULL) != COLL_OK) {
            ended = find_ended(requests, count); /* the turn has failed its communicator */
        }
    }
    if (w.described) {
        coll_describe(w.context, NULL);
    }
    return ended;
}
