/* Sums gradients over micro-batches and ranks, bucket by bucket, while backward goes on. Called by
 * train/step.c. */
#include "base/assert.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "parallel/ddp/ddp_parts.h"
#include "ringfence/coll_error.h"

static void empty_buckets(rank_ddp *ddp)
{
    for (size_t i = 0; i < ddp->bucket_count; i++) {
        ddp->buckets[i].missing = ddp->buckets[i].count;
    }
    ddp->started_count = 0;
    ddp->done_count = 0;
    ddp->shards.taken_count = 0;
}

void rank_ddp_begin(rank_ddp *ddp)
{
    empty_buckets(ddp);
    ddp->reducing = false;
    ddp->inside_ns = 0;
    ddp->waited_ns = 0;
    ddp->waited_cpu_ns = 0;
    ddp->micro_batch = -1;
}

/* Whether the current micro-batch's backward fills buckets: the last one of a step, or each. */
static bool fills(const rank_ddp *ddp)
{
    return ddp->micro_batch == ddp->micro_batches - 1 || rank_ddp_shards_gradients(ddp) ||
           ddp->ranks_first;
}

uint64_t rank_ddp_key(const rank_ddp *ddp)
{
    return (uint64_t)ddp->plan.merges * 2 + fills(ddp);
}

void rank_ddp_pass(void *user, bool replayed)
{
    rank_ddp *ddp = user;
    if (rank_ddp_shards_gradients(ddp)) {
        rank_ddp_window_turn(ddp);
        rank_ddp_take_units(ddp, 0); /* of the micro-batch before: its memory is needed */
        ddp->plan = rank_leaf_plan_make(ddp->micro_batches, ddp->micro_batch);
    }
    if (fills(ddp)) {
        empty_buckets(ddp);
        ddp->started_count = replayed ? ddp->bucket_count : 0;
    }
}

/* Adds this micro-batch's range to the sums that wait for it. */
static void merge_leaf(const rank_ddp *ddp, size_t offset, size_t count)
{
    for (int merge = 0; merge < ddp->plan.merges; merge++) {
        const int level = ddp->plan.level - merge;
        ddp->device.backend->add(ddp->device.queue,
                                 &(rank_add){.count = count,
                                             .from = ddp->levels[level] + offset,
                                             .to = ddp->levels[level - 1] + offset});
    }
}

void rank_ddp_keep(rank_ddp *ddp, base_status status)
{
    if (status != BASE_OK && ddp->failed == BASE_OK) {
        ddp->failed = status;
    }
}

void rank_ddp_start(rank_ddp *ddp, rank_ddp_op *op)
{
    const int64_t before_ns = base_now_ns();
    op->under_way.begin_ns = ddp->trace != NULL ? before_ns : 0;
    if (ddp->failed == BASE_OK) {
        rank_ddp_keep(ddp, (base_status)coll_op_start(op->op, coll_error_of(&ddp->error)));
    }
    ddp->inside_ns += base_now_ns() - before_ns;
}

/* The operation is seen to be done. */
static void trace_done(const rank_ddp *ddp, rank_ddp_op *op)
{
    if (op->under_way.begin_ns != 0) {
        rank_trace_add(ddp->trace, op->under_way);
        op->under_way.begin_ns = 0;
    }
}

bool rank_ddp_is_done(rank_ddp *ddp, rank_ddp_op *op)
{
    bool done = false;
    const int64_t before_ns = base_now_ns();
    if (ddp->failed == BASE_OK) {
        rank_ddp_keep(ddp, (base_status)coll_op_test(op->op, &done, coll_error_of(&ddp->error)));
    }
    if (done) {
        trace_done(ddp, op);
    }
    ddp->inside_ns += base_now_ns() - before_ns;
    return done;
}

void rank_ddp_wait(rank_ddp *ddp, rank_ddp_op *op)
{
    const bool waits = op->under_way.begin_ns != 0;
    rank_trace_span waiting = {.kind = op->under_way.kind, .index = op->under_way.index};
    waiting.begin_ns = rank_trace_begin(ddp->trace);
    const int64_t before_ns = base_now_ns();
    const int64_t before_cpu_ns = base_thread_cpu_ns();
    if (ddp->failed == BASE_OK) {
        rank_ddp_keep(ddp, (base_status)coll_op_wait(op->op, coll_error_of(&ddp->error)));
    }
    if (waits) { /* else it was seen to be done before */
        trace_done(ddp, op);
        rank_trace_add(ddp->trace, waiting);
    }
    ddp->waited_cpu_ns += base_thread_cpu_ns() - before_cpu_ns;
    ddp->waited_ns += base_now_ns() - before_ns;
}

/* Makes progress on the started buckets, and finds out which are done, in order. */
static void move_on(rank_ddp *ddp)
{
    const size_t last = ddp->started_count - 1;
    while (rank_ddp_is_done(ddp, &ddp->buckets[base_min_size(ddp->done_count, last)].op) &&
           ddp->done_count <= last) {
        ddp->done_count++;
    }
}

/* Starts every bucket that is full, in order from the end. */
static void start_full_buckets(rank_ddp *ddp)
{
    while (ddp->failed == BASE_OK && ddp->started_count < ddp->bucket_count &&
           ddp->buckets[ddp->started_count].missing == 0) {
        rank_ddp_start(ddp, &ddp->buckets[ddp->started_count++].op);
    }
}

/* Starts them while backward goes on, and makes progress on those that are started. */
static void start_in_backward(rank_ddp *ddp)
{
    const int64_t begun_ns = rank_trace_begin(ddp->trace);
    start_full_buckets(ddp);
    if (rank_ddp_shards_gradients(ddp)) {
        rank_ddp_take_units(ddp, RANK_DDP_UNDER_WAY_MAX);
    } else if (ddp->started_count > 0) {
        move_on(ddp);
    }
    rank_trace_add(ddp->trace,
                   (rank_trace_span){.kind = RANK_TRACE_CALLS, .begin_ns = begun_ns, .index = -1});
}

/* A bucket counts as started when it is full or, of those that are exchanged, under way. */
static base_status check_started(rank_ddp *ddp, base_error *reterr)
{
    if (ddp->failed == BASE_OK && ddp->started_count != ddp->bucket_count) {
        ddp->failed = base_fail(&ddp->error, BASE_ERR_STATE,
                                "backward left gradients of %zu of %zu buckets unset",
                                ddp->bucket_count - ddp->started_count, ddp->bucket_count);
    }
    if (ddp->failed != BASE_OK && reterr != NULL) {
        *reterr = ddp->error;
    }
    return ddp->failed;
}

/* Adds the sums over the ranks of this micro-batch, at level 0, to those of the ones before, in the canonical order of
 * micro-batches. These wait from level 1 on: a leaf that is added to others at once needs no place there. */
static void keep_leaf(const rank_ddp *ddp)
{
    const rank_leaf_plan plan = rank_leaf_plan_make(ddp->micro_batches, ddp->micro_batch);
    const rank_device *device = &ddp->device;
    if (ddp->micro_batches > 1 && plan.merges == 0) {
        device->backend->copy(device->queue, ddp->levels[plan.level + 1], ddp->levels[0],
                              ddp->param_count * sizeof(float));
    }
    for (int merge = 0; merge < plan.merges; merge++) {
        const int level = plan.level - merge;
        device->backend->add(device->queue,
                             &(rank_add){.count = ddp->param_count,
                                         .from = ddp->levels[merge == 0 ? 0 : level + 1],
                                         .to = ddp->levels[level]});
    }
}

/* Waits for all buckets of the current micro-batch. */
static void finish_micro_batch(rank_ddp *ddp)
{
    start_full_buckets(ddp);
    for (size_t i = 0; i < ddp->started_count; i++) {
        rank_ddp_wait(ddp, &ddp->buckets[i].op);
    }
    if (check_started(ddp, NULL) == BASE_OK && ddp->ranks_first) {
        keep_leaf(ddp);
    }
}

float *rank_ddp_grads(rank_ddp *ddp, int micro_batch)
{
    BASE_ASSERT(micro_batch == ddp->micro_batch + 1);
    BASE_ASSERT(micro_batch < ddp->micro_batches);
    if (ddp->ranks_first && micro_batch > 0) {
        finish_micro_batch(ddp);
    }
    ddp->micro_batch = micro_batch;
    if (ddp->ranks_first) {
        ddp->plan = (rank_leaf_plan){0, 0}; /* until the ranks are added up */
        return ddp->levels[0];
    }
    if (rank_ddp_shards_gradients(ddp)) { /* the plan is still that of units under way */
        rank_ddp_window_end(ddp);
        return ddp->levels[0];
    }
    ddp->plan = rank_leaf_plan_make(ddp->micro_batches, micro_batch);
    if (micro_batch == 0 && rank_ddp_on_device(ddp)) {
        ddp->device.backend->signal_set(ddp->device.queue, ddp->clock.begun);
    }
    return ddp->levels[ddp->plan.level];
}

void rank_ddp_reduce(rank_ddp *ddp)
{
    if (rank_ddp_on_device(ddp)) {
        ddp->device.backend->signal_set(ddp->device.queue, ddp->clock.computed);
    }
    if (rank_ddp_on_device(ddp) && !ddp->bracketed) {
        rank_ddp_reduce_on_device(ddp);
    }
}

void rank_ddp_ready(void *user, size_t offset, size_t count, rank_mark mark)
{
    rank_ddp *ddp = user;
    ddp->device.backend->after(ddp->device.queue, mark);
    BASE_ASSERT(ddp->micro_batch >= 0);
    BASE_ASSERT(offset <= ddp->param_count);
    BASE_ASSERT(count <= ddp->param_count - offset);
    if (rank_ddp_shards_gradients(ddp)) {
        rank_ddp_count_used(ddp, offset);
        rank_ddp_window_ready(ddp, offset);
    } else {
        merge_leaf(ddp, offset, count);
    }
    if (!fills(ddp)) {
        return;
    }
    for (size_t i = 0; i < ddp->bucket_count; i++) {
        rank_ddp_bucket *part = &ddp->buckets[i];
        const size_t from = offset > part->offset ? offset : part->offset;
        const size_t to_range = offset + count;
        const size_t to_bucket = part->offset + part->count;
        const size_t to = to_range < to_bucket ? to_range : to_bucket;
        if (from < to) {
            BASE_ASSERT(part->missing >= to - from);
            part->missing -= to - from;
        }
    }
    if (rank_ddp_on_device(ddp)) {
        rank_ddp_signal_full(ddp);
    } else if (!ddp->bracketed && !ddp->local) {
        start_in_backward(ddp);
    }
}

/* Starts what backward has not, and waits for each bucket. */
static void finish_on_host(rank_ddp *ddp)
{
    if (rank_ddp_shards_gradients(ddp)) {
        start_full_buckets(ddp);
        rank_ddp_take_units(ddp, 0);
        rank_ddp_window_end(ddp);
        return;
    }
    finish_micro_batch(ddp);
}

/* Exchanges what backward has not, or, with local steps, all. */
static base_status sum_buckets(rank_ddp *ddp, rank_ddp_times *times, base_error *reterr)
{
    const int64_t barrier_ns = base_now_ns();
    if (ddp->failed == BASE_OK && ddp->bracketed) {
        rank_ddp_keep(ddp, (base_status)coll_barrier(ddp->comm, coll_error_of(&ddp->error)));
        rank_trace_add(ddp->trace, (rank_trace_span){.kind = RANK_TRACE_BARRIER,
                                                     .of = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE |
                                                           RANK_TRACE_ALL_RANKS,
                                                     .begin_ns = barrier_ns,
                                                     .index = -1});
    }
    const int64_t before_ns = base_now_ns();
    const int64_t hidden_ns = ddp->inside_ns;
    times->barrier_ns = ddp->bracketed ? before_ns - barrier_ns : 0;
    times->waited_ns = ddp->waited_ns;
    times->waited_cpu_ns = ddp->waited_cpu_ns;
    if (rank_ddp_on_device(ddp)) {
        rank_ddp_finish_on_device(ddp);
    } else {
        finish_on_host(ddp);
    }
    times->allreduce_exposed_ns = base_now_ns() - before_ns + times->waited_ns;
    times->allreduce_ns = hidden_ns + times->allreduce_exposed_ns;
    if (rank_ddp_on_device(ddp)) {
        rank_ddp_take_device_times(ddp, times);
    }
    BASE_ASSERT(times->allreduce_ns >= times->allreduce_exposed_ns);
    return check_started(ddp, reterr);
}

base_status rank_ddp_finish(rank_ddp *ddp, rank_ddp_times *times, base_error *reterr)
{
    if (!ddp->local) {
        return sum_buckets(ddp, times, reterr);
    }
    *times = (rank_ddp_times){.allreduce_ns = 0};
    while (ddp->started_count < ddp->bucket_count &&
           ddp->buckets[ddp->started_count].missing == 0) {
        ddp->started_count++;
    }
    return check_started(ddp, reterr);
}

float *rank_ddp_exchanged(rank_ddp *ddp)
{
    BASE_ASSERT(ddp->local);
    return ddp->levels[0];
}

base_status rank_ddp_exchange(rank_ddp *ddp, rank_ddp_times *times, base_error *reterr)
{
    BASE_ASSERT(ddp->local);
    BASE_ASSERT(ddp->started_count == ddp->bucket_count);
    *times = (rank_ddp_times){.allreduce_ns = 0};
    ddp->started_count = 0;
    return sum_buckets(ddp, times, reterr);
}

const float *rank_ddp_sums(const rank_ddp *ddp)
{
    const bool kept = ddp->ranks_first && ddp->micro_batches > 1;
    return rank_ddp_shards_gradients(ddp) ? ddp->shards.sums[0] : ddp->levels[kept ? 1 : 0];
}
