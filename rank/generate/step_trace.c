/* Logs the steps of an engine, gathers the logs of all ranks, and compares them. engine.c logs.
 * generate.c gathers, and reports the sums. */
#include "generate/step_trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/grow.h"
#include "base/limits.h"
#include "coll/tune.h"
#include "ringfence/coll_error.h"

enum {
    SPANS_MAX = 1 << 14, /* half of it holds a step of 4000 layers */
    STEPS_MAX = SPANS_MAX,
    KEPT_FIRST = 1024,
};

struct rank_step_trace {
    coll_comm *comm;
    int ranks;
    rank_exchange_log log;
    size_t step_at;          /* the log's index of the step's own span */
    size_t step_reduces;     /* of the step that runs */
    rank_step_shape *shapes; /* (STEPS_MAX) */
    size_t shape_count;      /* steps in the log */
    rank_span *all;          /* (ranks, SPANS_MAX) */
    rank_step_share *shares; /* (ranks) */
    rank_step_cost *kept;    /* (kept_room), on rank 0 */
    size_t kept_count;
    size_t kept_room;
    bool incomplete; /* a step was lost */
};

/* A step that is being compared. */
typedef struct comparison {
    const rank_span *spans; /* rank r's at spans + r * stride */
    size_t stride;
    int ranks;
    rank_step_share *shares;
    rank_step_cost *cost;
} comparison;

static const rank_span *span_of(const comparison *c, int rank, size_t index)
{
    return &c->spans[(size_t)rank * c->stride + index];
}

/* How much of the span was before last_ns. */
static int64_t waiting_of(const rank_span *span, int64_t last_ns)
{
    const int64_t until_ns = span->end_ns < last_ns ? span->end_ns : last_ns;
    return until_ns > span->begin_ns ? until_ns - span->begin_ns : 0;
}

/* One exchange. Returns the rank that entered it last, and for how long all others have waited. */
static int compare_exchange(const comparison *c, size_t index, bool reduces, int64_t *waited_ns)
{
    int last = 0;
    *waited_ns = 0;
    for (int r = 1; r < c->ranks; r++) {
        last = span_of(c, r, index)->begin_ns > span_of(c, last, index)->begin_ns ? r : last;
    }
    const int64_t last_ns = span_of(c, last, index)->begin_ns;
    for (int r = 0; r < c->ranks; r++) {
        const rank_span *span = span_of(c, r, index);
        rank_step_share *share = &c->shares[r];
        const int64_t waiting = waiting_of(span, last_ns);
        const int64_t transfer = span->end_ns - span->begin_ns - waiting;
        *(reduces ? &share->reduce_waiting_ns : &share->gather_waiting_ns) += (double)waiting;
        *(reduces ? &share->reduce_transfer_ns : &share->gather_transfer_ns) += (double)transfer;
        c->cost->waiting_ns += waiting;
        c->cost->transfer_ns += transfer;
        *waited_ns += waiting;
    }
    c->shares[last].held_up_ns += (double)*waited_ns;
    return last;
}

/* The steps' own spans. */
static void compare_whole(const comparison *c)
{
    int64_t begin_ns = span_of(c, 0, 0)->begin_ns;
    int64_t end_ns = span_of(c, 0, 0)->end_ns;
    for (int r = 0; r < c->ranks; r++) {
        const rank_span *step = span_of(c, r, 0);
        begin_ns = step->begin_ns < begin_ns ? step->begin_ns : begin_ns;
        end_ns = step->end_ns > end_ns ? step->end_ns : end_ns;
        c->shares[r].step_ns += (double)(step->end_ns - step->begin_ns);
    }
    c->cost->step_ns = end_ns - begin_ns;
}

void rank_step_compare(const rank_span *spans, size_t stride, int ranks,
                       const rank_step_shape *shape, rank_step_share *shares, rank_step_cost *cost)
{
    const comparison c = {
        .spans = spans, .stride = stride, .ranks = ranks, .shares = shares, .cost = cost};
    int64_t held_up_ns[BASE_COLL_RANKS_MAX] = {0};
    BASE_ASSERT(ranks <= BASE_COLL_RANKS_MAX);
    *cost = (rank_step_cost){.slowest = -1, .tokens = shape->tokens, .drawn = shape->drawn};
    compare_whole(&c);
    for (int32_t i = 0; i < shape->exchanges; i++) {
        int64_t waited_ns = 0;
        const int last = compare_exchange(&c, (size_t)i + 1, i < shape->reduces, &waited_ns);
        held_up_ns[last] += waited_ns;
    }
    for (int r = 0; r < ranks; r++) {
        if (held_up_ns[r] > cost->held_up_ns) {
            cost->held_up_ns = held_up_ns[r];
            cost->slowest = r;
        }
    }
    if (cost->slowest >= 0) {
        shares[cost->slowest].slowest_steps += 1;
    }
    cost->transfer_ns /= ranks;
    cost->waiting_ns /= ranks;
}

static base_status make(rank_step_trace *trace, base_error *reterr)
{
    const size_t ranks = (size_t)trace->ranks;
    trace->log.capacity = SPANS_MAX;
    trace->log.spans = calloc(SPANS_MAX, sizeof *trace->log.spans);
    trace->shapes = calloc(STEPS_MAX, sizeof *trace->shapes);
    trace->all = calloc(ranks * SPANS_MAX, sizeof *trace->all);
    trace->shares = calloc(ranks, sizeof *trace->shares);
    return trace->log.spans != NULL && trace->shapes != NULL && trace->all != NULL &&
                   trace->shares != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for the times of steps");
}

base_status rank_step_trace_create(coll_comm *comm, rank_step_trace **trace, base_error *reterr)
{
    coll_layout layout = {.hosts = 1};
    *trace = NULL;
    if (comm != NULL) {
        coll_tune_layout(comm, &layout);
    }
    if (layout.hosts != 1) {
        return BASE_OK;
    }
    rank_step_trace *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the times of steps");
    }
    made->comm = comm;
    made->ranks = comm != NULL ? coll_comm_size(comm) : 1;
    const base_status status = make(made, reterr);
    if (status != BASE_OK) {
        rank_step_trace_destroy(made);
        return status;
    }
    *trace = made;
    return BASE_OK;
}

void rank_step_trace_destroy(rank_step_trace *trace)
{
    if (trace != NULL) {
        free(trace->log.spans);
        free(trace->shapes);
        free(trace->all);
        free(trace->shares);
        free(trace->kept);
        free(trace);
    }
}

rank_exchange_log *rank_step_trace_log(rank_step_trace *trace)
{
    return trace != NULL ? &trace->log : NULL;
}

void rank_step_trace_begin(rank_step_trace *trace, int64_t now_ns)
{
    if (trace != NULL) {
        trace->step_at = trace->log.count;
        trace->step_reduces = 0;
        rank_exchange_log_add(&trace->log, (rank_span){.begin_ns = now_ns});
    }
}

void rank_step_trace_reduced(rank_step_trace *trace)
{
    if (trace != NULL && trace->log.count > 0) {
        trace->step_reduces = trace->log.count - 1 - trace->step_at;
    }
}

void rank_step_trace_end(rank_step_trace *trace, int64_t now_ns, int32_t tokens, int32_t drawn)
{
    if (trace == NULL || trace->log.overflowed) {
        return; /* gather sees that steps were lost */
    }
    if (tokens == 0) {
        trace->log.count = trace->step_at;
        return;
    }
    BASE_ASSERT(trace->shape_count < STEPS_MAX); /* each has a span at least */
    trace->log.spans[trace->step_at].end_ns = now_ns;
    trace->shapes[trace->shape_count++] =
        (rank_step_shape){.reduces = (int32_t)trace->step_reduces,
                          .exchanges = (int32_t)(trace->log.count - 1 - trace->step_at),
                          .tokens = tokens,
                          .drawn = drawn};
}

static void empty_log(rank_step_trace *trace)
{
    trace->log.count = 0;
    trace->log.overflowed = false;
    trace->shape_count = 0;
}

void rank_step_trace_reset(rank_step_trace *trace)
{
    if (trace != NULL) {
        empty_log(trace);
        memset(trace->shares, 0, (size_t)trace->ranks * sizeof *trace->shares);
        trace->kept_count = 0;
        trace->incomplete = false;
    }
}

/* Without memory the step is not kept, but it is in the sums. */
static void keep(rank_step_trace *trace, const rank_step_cost *cost)
{
    if ((trace->comm != NULL && coll_comm_rank(trace->comm) != 0) ||
        trace->kept_count == RANK_STEPS_KEPT_MAX) {
        return;
    }
    rank_step_cost *more =
        base_grow(trace->kept, trace->kept_count, &trace->kept_room, KEPT_FIRST, sizeof *more);
    if (more == NULL) {
        return;
    }
    trace->kept = more;
    trace->kept[trace->kept_count++] = *cost;
}

static void compare_all(rank_step_trace *trace)
{
    const size_t stride = trace->log.count;
    size_t at = 0;
    for (size_t i = 0; i < trace->shape_count; i++) {
        const rank_step_shape *shape = &trace->shapes[i];
        rank_step_cost cost;
        rank_step_compare(trace->all + at, stride, trace->ranks, shape, trace->shares, &cost);
        keep(trace, &cost);
        at += (size_t)shape->exchanges + 1;
    }
    BASE_ASSERT(at == stride);
}

base_status rank_step_trace_gather(rank_step_trace *trace, bool all, base_error *reterr)
{
    if (trace == NULL) {
        return BASE_OK;
    }
    if (trace->log.overflowed) {
        trace->incomplete = true;
        empty_log(trace);
        return BASE_OK;
    }
    if (trace->shape_count == 0 || !(all || trace->log.count > SPANS_MAX / 2)) {
        return BASE_OK;
    }
    const size_t bytes = trace->log.count * sizeof *trace->all;
    if (trace->comm == NULL) {
        memcpy(trace->all, trace->log.spans, bytes);
    } else {
        const base_status status = (base_status)coll_all_gather(
            trace->comm, trace->log.spans, trace->all, bytes, COLL_UINT8, coll_error_of(reterr));
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "gathering the times of steps");
        }
    }
    compare_all(trace);
    empty_log(trace);
    return BASE_OK;
}

const rank_step_share *rank_step_trace_shares(const rank_step_trace *trace)
{
    return trace != NULL && trace->ranks > 1 && !trace->incomplete ? trace->shares : NULL;
}

const rank_step_cost *rank_step_trace_steps(const rank_step_trace *trace, size_t *count)
{
    *count = trace != NULL && !trace->incomplete ? trace->kept_count : 0;
    return *count > 0 ? trace->kept : NULL;
}
