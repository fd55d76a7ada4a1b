/* Passes of micro-batches through a stage: a step's in the schedule's order, and forward alone of what is evaluated.
 * Called by train/step.c and train/stage.c. */
#include "base/assert.h"
#include "base/clock.h"
#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

/* A step, or an evaluation, under way. */
typedef struct pipeline_work {
    rank_pipeline *pipeline;
    rank_pipeline_batch batch;
    void *user;
    rank_result *results; /* of a step; NULL: forward makes the losses */
} pipeline_work;

/* The stages of the virtual stages before and behind one of this stage's. */
static int stage_before(const rank_pipeline *pipeline)
{
    return (pipeline->stage + pipeline->schedule.stages - 1) % pipeline->schedule.stages;
}

static int stage_behind(const rank_pipeline *pipeline)
{
    return (pipeline->stage + 1) % pipeline->schedule.stages;
}

static size_t stream_count(const rank_pipeline *pipeline, const pipeline_place *place)
{
    return place->saved.rows.count * (size_t)pipeline->config.width;
}

/* Books the time since *at, and moves *at to now. */
static void book(int64_t *at, int64_t *ns)
{
    const int64_t now_ns = base_now_ns();
    *ns += now_ns - *at;
    *at = now_ns;
}

/* An exchange, or a message that was given to the transport. */
static void trace_message(const rank_pipeline *pipeline, rank_trace_kind kind, int64_t begun_ns,
                          int stage, size_t count)
{
    if (count > 0) {
        rank_trace_add(pipeline->trace,
                       (rank_trace_span){.kind = kind,
                                         .of = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE,
                                         .begin_ns = begun_ns,
                                         .index = stage,
                                         .bytes = count * sizeof(float)});
    }
}

static base_status receive(const rank_pipeline *pipeline, coll_comm *comm, int stage, float *values,
                           size_t count, base_error *reterr)
{
    const int64_t begun_ns = rank_trace_begin(pipeline->trace);
    const base_status status = pipeline_receive(comm, stage, values, count, reterr);
    if (count > 0) {
        rank_trace_add(pipeline->trace, (rank_trace_span){.kind = RANK_TRACE_RECEIVE,
                                                          .begin_ns = begun_ns,
                                                          .index = stage,
                                                          .bytes = count * sizeof(float)});
    }
    return status;
}

/* Waits until the receiver has a message, and so its buffer is free. */
static base_status wait_sent(const rank_pipeline *pipeline, coll_op **sent, base_error *reterr)
{
    const bool waits = *sent != NULL;
    const int64_t begun_ns = rank_trace_begin(pipeline->trace);
    const base_status status = pipeline_wait(sent, reterr);
    if (waits) {
        rank_trace_add(
            pipeline->trace,
            (rank_trace_span){.kind = RANK_TRACE_SENT, .begin_ns = begun_ns, .index = -1});
    }
    return status;
}

/* A pass of a micro-batch through a chunk, or what follows it. */
static void trace_pass(const rank_pipeline *pipeline, rank_trace_kind kind, int64_t begun_ns,
                       const pipeline_chunk *chunk)
{
    if (pipeline->trace != NULL) {
        rank_trace_add(pipeline->trace,
                       (rank_trace_span){
                           .kind = kind,
                           .begin_ns = begun_ns,
                           .index = pipeline->trace->micro_batch,
                           .detail = (uint8_t)(chunk->virtual_stage / pipeline->schedule.stages)});
    }
}

/* Puts a batch into its place. All chunks have the rows of the first one, where it is in progress the longest. */
static base_status place_rows(const pipeline_work *work, const proto_pipeline_task *task,
                              base_error *reterr)
{
    rank_pipeline *pipeline = work->pipeline;
    pipeline_place *place = pipeline_place_of(&pipeline->chunks[task->chunk], task->micro_batch);
    rank_batch batch;
    if (task->chunk > 0) {
        place->saved.rows = pipeline_place_of(&pipeline->chunks[0], task->micro_batch)->saved.rows;
        return BASE_OK;
    }
    const int64_t begun_ns = base_now_ns();
    base_status status = work->batch(work->user, task->micro_batch, &batch, reterr);
    if (status == BASE_OK) {
        status = rank_rows_place(&place->saved, &batch, NULL, reterr);
    }
    rank_trace_add(pipeline->trace, (rank_trace_span){.kind = RANK_TRACE_BATCH,
                                                      .begin_ns = begun_ns,
                                                      .index = task->micro_batch});
    pipeline->times.forward_ns += base_now_ns() - begun_ns;
    return status;
}

/* What forward needs of others: the stream of the virtual stage before, and its own buffer for the next. */
static base_status prepare_forward(const rank_pipeline *pipeline, const pipeline_chunk *chunk,
                                   pipeline_place *place, base_error *reterr)
{
    base_status status = wait_sent(pipeline, &place->out_sent, reterr);
    if (status == BASE_OK && !pipeline_chunk_is_first(chunk)) {
        status = receive(pipeline, pipeline->forward, stage_before(pipeline), place->in,
                         stream_count(pipeline, place), reterr);
    }
    return status;
}

static base_status finish_pass(const rank_pipeline *pipeline, base_error *reterr)
{
    base_status status = pipeline->device.backend->sync(pipeline->device.queue, reterr);
    if (status == BASE_OK && pipeline->cp != NULL) {
        status = rank_cp_group_check(pipeline->cp, reterr);
    }
    return status == BASE_OK ? pipeline_check_exchange(pipeline, reterr) : status;
}

/* Starts to send the stream to the virtual stage behind, or its gradient to the one before. */
static base_status send_stream(const rank_pipeline *pipeline, pipeline_place *place, bool back,
                               base_error *reterr)
{
    const int64_t begun_ns = rank_trace_begin(pipeline->trace);
    const int stage = back ? stage_before(pipeline) : stage_behind(pipeline);
    const size_t count = stream_count(pipeline, place);
    coll_op **sent = back ? &place->din_sent : &place->out_sent;
    const base_status status = pipeline_start(back ? pipeline->backward : pipeline->forward, stage,
                                              back ? place->din : place->out, count, sent, reterr);
    pipeline_progress(pipeline, *sent);
    trace_message(pipeline, RANK_TRACE_SEND, begun_ns, stage, count);
    return status;
}

static base_status run_forward(const pipeline_work *work, const proto_pipeline_task *task,
                               base_error *reterr)
{
    rank_pipeline *pipeline = work->pipeline;
    const pipeline_chunk *chunk = &pipeline->chunks[task->chunk];
    pipeline_place *place = pipeline_place_of(chunk, task->micro_batch);
    base_status status = place_rows(work, task, reterr);
    int64_t at_ns = base_now_ns();
    if (status == BASE_OK) {
        status = prepare_forward(pipeline, chunk, place, reterr);
    }
    book(&at_ns, &pipeline->times.wait_ns);
    if (status != BASE_OK) {
        return status;
    }
    const int64_t begun_ns = rank_trace_begin(pipeline->trace);
    pipeline->config.family->forward(
        &chunk->run, &(rank_forward_args){.saved = &place->saved,
                                          .in = place->in,
                                          .out = place->out,
                                          .want_loss = work->results == NULL &&
                                                       pipeline_chunk_is_last(pipeline, chunk)});
    status = finish_pass(pipeline, reterr);
    trace_pass(pipeline, RANK_TRACE_FORWARD, begun_ns, chunk);
    book(&at_ns, &pipeline->times.forward_ns);
    if (status == BASE_OK && !pipeline_chunk_is_last(pipeline, chunk)) {
        status = send_stream(pipeline, place, false, reterr);
    }
    book(&at_ns, &pipeline->times.wait_ns);
    return status;
}

/* What backward needs of others: the stream's gradient, the last stage's part of the tied gradient,
 * and its own buffers. */
static base_status prepare_backward(const rank_pipeline *pipeline, const pipeline_chunk *chunk,
                                    pipeline_place *place, pipeline_tied *tied, float *grads,
                                    base_error *reterr)
{
    base_status status = wait_sent(pipeline, &place->din_sent, reterr);
    if (status == BASE_OK && !pipeline_chunk_is_last(pipeline, chunk)) {
        status = receive(pipeline, pipeline->backward, stage_behind(pipeline), place->dout,
                         stream_count(pipeline, place), reterr);
    }
    if (status == BASE_OK && pipeline_chunk_is_first(chunk)) {
        status = receive(pipeline, pipeline->comm, pipeline->schedule.stages - 1, grads,
                         pipeline->held.tied_count, reterr);
    }
    if (status == BASE_OK && pipeline_chunk_is_last(pipeline, chunk)) {
        status = wait_sent(pipeline, &tied->sent, reterr);
    }
    return status;
}

/* Starts what others wait for: the stream's gradient, and this stage's part of the tied one. */
static base_status send_backward(const rank_pipeline *pipeline, const pipeline_chunk *chunk,
                                 pipeline_place *place, pipeline_tied *tied, const float *grads,
                                 base_error *reterr)
{
    const rank_device *device = &pipeline->device;
    const size_t count = pipeline->held.tied_count;
    if (pipeline_chunk_is_first(chunk)) {
        return BASE_OK;
    }
    const base_status status = send_stream(pipeline, place, true, reterr);
    if (status != BASE_OK || !pipeline_chunk_is_last(pipeline, chunk)) {
        return status;
    }
    device->backend->copy(device->queue, tied->at, grads, count * sizeof *grads);
    return pipeline_start(pipeline->comm, 0, tied->at, count, &tied->sent, reterr);
}

/* The next gradients are of that micro-batch's leaf. */
static float *begin_leaf(rank_pipeline *pipeline, int micro_batch)
{
    const int all = pipeline->schedule.micro_batches;
    pipeline->leaf = rank_leaf_plan_make(all, micro_batch);
    pipeline->leaf_is_last = micro_batch == all - 1;
    return pipeline->levels[pipeline->leaf.level];
}

static void merge_leaf(const rank_pipeline *pipeline, size_t place, size_t count)
{
    const int64_t begun_ns = rank_trace_begin(pipeline->trace);
    for (int merge = 0; merge < pipeline->leaf.merges; merge++) {
        const int level = pipeline->leaf.level - merge;
        pipeline->device.backend->add(pipeline->device.queue,
                                      &(rank_add){.count = count,
                                                  .from = pipeline->levels[level] + place,
                                                  .to = pipeline->levels[level - 1] + place});
    }
    if (pipeline->leaf.merges > 0) {
        rank_trace_add(
            pipeline->trace,
            (rank_trace_span){.kind = RANK_TRACE_MERGE, .begin_ns = begun_ns, .index = -1});
    }
}

void pipeline_ready(void *user, size_t offset, size_t count, rank_mark mark)
{
    rank_pipeline *pipeline = user;
    const size_t place = rank_held_place(&pipeline->held, offset);
    if (place < pipeline_own_place(pipeline)) { /* its leaf is the first stage's */
        return;
    }
    pipeline->device.backend->after(pipeline->device.queue, mark);
    merge_leaf(pipeline, place, count);
    if (pipeline->replicas != NULL && pipeline->leaf_is_last) {
        pipeline_start_sums(pipeline, place, count);
    }
}

/* What the last stage knows behind backward. */
static void take_result(const pipeline_work *work, int micro_batch, const rank_saved *saved)
{
    work->results[micro_batch] =
        (rank_result){.loss_sum = *saved->loss,
                      .target_count = (int64_t)saved->rows.target_count,
                      .router_loss_sum = saved->loads != NULL ? *saved->router_loss : 0.0};
    rank_saved_add_loads(saved, work->pipeline->loads);
}

static base_status run_backward(const pipeline_work *work, const proto_pipeline_task *task,
                                base_error *reterr)
{
    rank_pipeline *pipeline = work->pipeline;
    const int micro_batch = task->micro_batch;
    const pipeline_chunk *chunk = &pipeline->chunks[task->chunk];
    pipeline_place *place = pipeline_place_of(chunk, micro_batch);
    pipeline_tied *tied = &pipeline->tied[micro_batch % pipeline->schedule.stages];
    float *grads = begin_leaf(pipeline, micro_batch);
    int64_t at_ns = base_now_ns();
    base_status status = prepare_backward(pipeline, chunk, place, tied, grads, reterr);
    book(&at_ns, &pipeline->times.wait_ns);
    if (status != BASE_OK) {
        return status;
    }
    const int64_t begun_ns = rank_trace_begin(pipeline->trace);
    pipeline->config.family->backward(
        &chunk->run, &(rank_backward_args){.saved = &place->saved,
                                           .dout = place->dout,
                                           .din = place->din,
                                           .grads = grads,
                                           .held = &pipeline->held,
                                           .tied_begun = pipeline_chunk_is_first(chunk) &&
                                                         pipeline->held.tied_count > 0});
    status = finish_pass(pipeline, reterr);
    if (pipeline_chunk_is_last(pipeline, chunk) &&
        pipeline->part == 0) { /* the others have the same */
        take_result(work, micro_batch, &place->saved);
    }
    trace_pass(pipeline, RANK_TRACE_BACKWARD, begun_ns, chunk);
    book(&at_ns, &pipeline->times.backward_ns);
    if (status == BASE_OK) {
        status = send_backward(pipeline, chunk, place, tied, grads, reterr);
    }
    book(&at_ns, &pipeline->times.wait_ns);
    return status;
}

/* The second pass of a split backward. It needs nothing of others. */
static base_status run_weights(const pipeline_work *work, const proto_pipeline_task *task,
                               base_error *reterr)
{
    rank_pipeline *pipeline = work->pipeline;
    const pipeline_chunk *chunk = &pipeline->chunks[task->chunk];
    pipeline_place *place = pipeline_place_of(chunk, task->micro_batch);
    const int64_t begun_ns = base_now_ns();
    pipeline->config.family->weight_grads(
        &chunk->run, &(rank_backward_args){.saved = &place->saved,
                                           .dout = place->dout,
                                           .grads = begin_leaf(pipeline, task->micro_batch),
                                           .held = &pipeline->held});
    const base_status status = finish_pass(pipeline, reterr);
    trace_pass(pipeline, RANK_TRACE_WEIGHTS, begun_ns, chunk);
    const int64_t took_ns = base_now_ns() - begun_ns;
    pipeline->times.backward_ns += took_ns;
    pipeline->times.weights_ns += took_ns;
    return status;
}

static base_status wait_for_chunk(const pipeline_chunk *chunk, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int i = 0; status == BASE_OK && i < chunk->place_count; i++) {
        status = pipeline_wait(&chunk->places[i].out_sent, reterr);
        if (status == BASE_OK) {
            status = pipeline_wait(&chunk->places[i].din_sent, reterr);
        }
    }
    return status;
}

/* Waits for all that this stage has sent. */
static base_status wait_for_sends(rank_pipeline *pipeline, base_error *reterr)
{
    int64_t at_ns = base_now_ns();
    base_status status = BASE_OK;
    for (int i = 0; status == BASE_OK && i < pipeline->schedule.chunks; i++) {
        status = wait_for_chunk(&pipeline->chunks[i], reterr);
    }
    for (int i = 0; status == BASE_OK && i < pipeline->schedule.stages; i++) {
        status = pipeline_wait(&pipeline->tied[i].sent, reterr);
    }
    rank_trace_add(pipeline->trace,
                   (rank_trace_span){.kind = RANK_TRACE_SENT, .begin_ns = at_ns, .index = -1});
    book(&at_ns, &pipeline->times.wait_ns);
    return status;
}

/* Puts this rank's place in front of an error. */
static base_status say_where(const rank_pipeline *pipeline, base_status status, base_error *reterr)
{
    if (status != BASE_OK && pipeline->tensor != NULL) {
        status =
            base_error_prepend(reterr, status, "part %d of %d", pipeline->part, pipeline->tp.ranks);
    }
    if (status != BASE_OK) {
        status = base_error_prepend(reterr, status, "stage %d of %d", pipeline->stage,
                                    pipeline->schedule.stages);
    }
    return status != BASE_OK && pipeline->replicas != NULL
               ? base_error_prepend(reterr, status, "pipeline %d", pipeline->replica)
               : status;
}

/* Counts a task that comes next. */
static void count_held(rank_pipeline *pipeline, proto_pipeline_pass pass)
{
    const proto_pipeline_pass last = proto_pipeline_splits(&pipeline->schedule)
                                         ? PROTO_PIPELINE_WEIGHTS
                                         : PROTO_PIPELINE_BACKWARD;
    pipeline->in_progress += pass == PROTO_PIPELINE_FORWARD ? 1 : pass == last ? -1 : 0;
    if (pipeline->in_progress > pipeline->times.held) {
        pipeline->times.held = pipeline->in_progress;
    }
}

base_status rank_pipeline_run(rank_pipeline *pipeline, const float *params,
                              rank_pipeline_batch batch, void *user, rank_result *results,
                              base_error *reterr)
{
    const pipeline_work work = {
        .pipeline = pipeline, .batch = batch, .user = user, .results = results};
    const int64_t begun_ns = base_now_ns();
    base_status status = BASE_OK;
    pipeline->params = params;
    pipeline->times = (rank_pipeline_times){.held = 0};
    pipeline->exchange.ns = 0;
    pipeline->sums.started = 0;
    pipeline->sums.done = 0;
    pipeline->sums.ns = 0;
    for (int i = 0; i < pipeline->schedule.micro_batches; i++) {
        results[i] = (rank_result){.target_count = 0};
    }
    for (int i = 0; status == BASE_OK && i < proto_pipeline_tasks(&pipeline->schedule); i++) {
        const proto_pipeline_task task =
            proto_pipeline_task_at(&pipeline->schedule, pipeline->stage, i);
        if (pipeline->trace != NULL) {
            pipeline->trace->micro_batch = task.micro_batch;
        }
        count_held(pipeline, task.pass);
        status = task.pass == PROTO_PIPELINE_FORWARD    ? run_forward(&work, &task, reterr)
                 : task.pass == PROTO_PIPELINE_BACKWARD ? run_backward(&work, &task, reterr)
                                                        : run_weights(&work, &task, reterr);
    }
    pipeline->times.span_ns = base_now_ns() - begun_ns;
    pipeline->times.tensor_ns = pipeline->exchange.ns;
    pipeline->times.hidden_ns = pipeline->sums.ns;
    if (status == BASE_OK) {
        BASE_ASSERT(pipeline->in_progress == 0);
        BASE_ASSERT(pipeline->times.held ==
                    proto_pipeline_held(&pipeline->schedule, pipeline->stage));
        status = wait_for_sends(pipeline, reterr);
    }
    return say_where(pipeline, status, reterr);
}

base_status rank_pipeline_evaluate(rank_pipeline *pipeline, const float *params,
                                   const rank_pipeline_evaluation *evaluation, base_error *reterr)
{
    const proto_pipeline *schedule = &pipeline->schedule;
    const pipeline_work work = {
        .pipeline = pipeline, .batch = evaluation->batch, .user = evaluation->user};
    base_status status = BASE_OK;
    /* the rows of all batches that are between two chunks */
    BASE_ASSERT(schedule->chunks == 1 || pipeline->chunks[0].place_count >= schedule->stages);
    pipeline->params = params;
    for (int i = 0; status == BASE_OK && i < evaluation->batches * schedule->chunks; i++) {
        const proto_pipeline_task task =
            proto_pipeline_forward_at(schedule, evaluation->batches, i);
        const pipeline_chunk *chunk = &pipeline->chunks[task.chunk];
        const rank_saved *saved = &pipeline_place_of(chunk, task.micro_batch)->saved;
        status = run_forward(&work, &task, reterr);
        if (status == BASE_OK && pipeline_chunk_is_last(pipeline, chunk) && pipeline->part == 0) {
            evaluation->loss(evaluation->user, task.micro_batch,
                             &(rank_result){.loss_sum = *saved->loss,
                                            .target_count = (int64_t)saved->rows.target_count});
        }
    }
    if (status == BASE_OK) {
        status = wait_for_sends(pipeline, reterr);
    }
    return say_where(pipeline, status, reterr);
}

base_status rank_pipeline_reduce(rank_pipeline *pipeline, double *sum_squares, base_error *reterr)
{
    const int64_t begun_ns = base_now_ns();
    const size_t tied = pipeline->held.tied_count;
    base_status status = pipeline_wait_for_sums(pipeline, reterr);
    if (status == BASE_OK && tied > 0) {
        const int64_t tied_ns = rank_trace_begin(pipeline->trace);
        status = pipeline_is_first(pipeline)
                     ? pipeline_send(pipeline->comm, pipeline->schedule.stages - 1,
                                     pipeline->levels[0], tied, reterr)
                     : pipeline_receive(pipeline->comm, 0, pipeline->levels[0], tied, reterr);
        trace_message(pipeline, RANK_TRACE_TIED, tied_ns, -1, tied);
    }
    if (status == BASE_OK) {
        const int64_t norm_ns = rank_trace_begin(pipeline->trace);
        status = pipeline_sum_squares(pipeline, sum_squares, reterr);
        trace_message(pipeline, RANK_TRACE_NORM, norm_ns, -1, 1);
    }
    pipeline->times.reduce_ns = base_now_ns() - begun_ns;
    return status;
}

const float *rank_pipeline_sums(const rank_pipeline *pipeline)
{
    return pipeline->levels[0];
}

void rank_pipeline_get_times(const rank_pipeline *pipeline, rank_pipeline_times *times)
{
    *times = pipeline->times;
}
