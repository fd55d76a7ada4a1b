/* The steps of the engine. engine_make.c makes it, engine_draw.c draws tokens; generate.c, modes and
 * benchmarks call it. */
#include "generate/engine.h"

#include <string.h>

#include "base/clock.h"
#include "generate/engine_parts.h"
#include "proto/request.h"
#include "ringfence/coll_error.h"

static const rank_request *request_of(const rank_engine *engine, const rank_schedule_entry *entry)
{
    return rank_schedule_request(engine->schedule, entry->sequence);
}

/* Lists the entry's rows that are sampled. */
static void gather_sampled(rank_engine *engine, const rank_schedule_entry *entry, int32_t end_row)
{
    int32_t known = 0;
    const int32_t *text = rank_schedule_tokens(engine->schedule, entry->sequence, &known);
    const rank_request *request = request_of(engine, entry);
    const rank_adjustment adjustment = rank_request_adjustment(request);
    const int32_t end = entry->first + entry->count;
    for (int32_t left = entry->samples; left > 0; left--) {
        const int32_t row = end_row - left;
        const bool given = entry->samples - left < entry->scored;
        engine->logit_rows[engine->sampled_count] = row;
        engine->sampled[engine->sampled_count++] = (engine_sampled){
            .params = &request->sample,
            .request = request,
            .text = text,
            .sequence = entry->sequence,
            .known = known,
            .adjusted = !given && (rank_adjust_any(&adjustment) || request->grammar_count > 0),
            .position = (uint64_t)(end - left + 1),
            .logprob_count = request->logprob_count,
            .drafted = left > 1 && !given ? engine->batch_ids[row + 1] : -1,
            .given = given ? text[end - left + 1] : -1,
        };
    }
}

/* Makes the batch from the plan's entries, and lists the rows that are sampled. */
static void gather_rows(rank_engine *engine)
{
    engine->batch_start[0] = 0;
    engine->sampled_count = 0;
    for (int i = 0; i < engine->entry_count; i++) {
        const rank_schedule_entry *entry = &engine->entries[i];
        int32_t count = 0;
        const int32_t *tokens = rank_schedule_tokens(engine->schedule, entry->sequence, &count);
        const int32_t *table =
            rank_blocks_table(rank_schedule_blocks(engine->schedule), entry->sequence);
        const int32_t start = engine->batch_start[i];
        memcpy(engine->batch_ids + start, tokens + entry->first,
               (size_t)entry->count * sizeof *tokens);
        memcpy(engine->blocks + (size_t)i * engine->table_width, table,
               engine->table_width * sizeof *table);
        engine->lengths[i] = entry->first;
        engine->batch_start[i + 1] = start + entry->count;
        gather_sampled(engine, entry, engine->batch_start[i + 1]);
    }
}

/* Adds rows of padding to a step in which each sequence has one row, all of them sampled, so that
 * few shapes come again and again. Padding has no token: its embedding is zero, its attention too,
 * and it writes nothing into the cache. Its logits stand behind the others. */
static void pad(rank_engine *engine)
{
    rank_rows *rows = &engine->saved.rows;
    const size_t count = rows->count;
    const int most = rank_schedule_get_options(engine->schedule)->sequence_count;
    const size_t size = rank_step_size((size_t)most, count);
    if (engine->run.device.backend->capture == NULL || rows->segment_count != count ||
        rows->active_count != count) {
        return;
    }
    for (size_t i = count; i < size; i++) {
        rows->ids[i] = -1;
        rows->positions[i] = 0;
        rows->active[i] = (int32_t)i;
        rows->active_targets[i] = -1;
        rows->segment_start[i + 1] = (int32_t)i + 1;
        engine->lengths[i] = -1;
    }
    rows->count = size;
    rows->segment_count = size;
    rows->active_count = size;
}

/* Whether the device draws: then the host need not read the logits. Lists how. Where a row's logits
 * are changed first, the host draws. */
static bool plan_draw(rank_engine *engine)
{
    int32_t first = 0;
    if (engine->draw_rows == NULL) {
        return false;
    }
    for (int i = 0; i < engine->sampled_count; i++) {
        const engine_sampled *of = &engine->sampled[i];
        if (of->adjusted) {
            return false;
        }
        engine->draw_rows[i] = rank_sample_draw_row(of->params, of->position);
    }
    const rank_tp *tp = engine->run.shape.tp;
    return engine->sampled_count > 0 && rank_sample_tokens(&engine->vocab, tp->rank, &first) > 0;
}

/* Lets the device draw as planned, if it is. */
static void draw_on_device(const rank_engine *engine, const rank_draw_row *of)
{
    const rank_device *device = &engine->run.device;
    const rank_tp *tp = engine->run.shape.tp;
    int32_t first = 0;
    bool keeps = false;
    bool weighs = false;
    if (!engine->drawn_on_device) {
        return;
    }
    for (int row = 0; row < engine->sampled_count; row++) {
        keeps = keeps || engine->draw_rows[row].kept > 0;
        weighs = weighs || engine->draw_rows[row].weighed != 0;
    }
    const int32_t tokens = rank_sample_tokens(&engine->vocab, tp->rank, &first);
    device->backend->draw(
        device->queue, &(rank_draw){.rows = (size_t)engine->sampled_count,
                                    .columns = (size_t)tokens,
                                    .row_floats = (size_t)tp->vocab_count,
                                    .values = engine->logits,
                                    .first_token = first,
                                    .of = of,
                                    .drawn = engine->drawn,
                                    .kept = keeps ? engine->kept : NULL,
                                    .masses = weighs ? engine->masses : NULL,
                                    .leaves = (size_t)rank_sample_leaves(&engine->vocab, tp->rank),
                                    .leaf_columns = (size_t)engine->vocab.leaf_width});
}

/* Computes this rank's part of the logits of the rows that are sampled. */
static base_status decode(rank_engine *engine, base_error *reterr)
{
    const rank_batch batch = {.token_count = engine->batch_start[engine->entry_count],
                              .ids = engine->batch_ids,
                              .segment_count = engine->entry_count,
                              .segment_start = engine->batch_start};
    const rank_logits wanted = {.rows = engine->logit_rows, .count = engine->sampled_count};
    base_status status =
        rank_rows_place_step(&engine->saved, &batch, engine->lengths, &wanted, reterr);
    if (status != BASE_OK) {
        return status;
    }
    pad(engine);
    rank_decode_args args = {.saved = &engine->saved,
                             .cache = &engine->cache,
                             .lengths = engine->lengths,
                             .block_table = engine->blocks,
                             .table_width = engine->table_width,
                             .exchanged = rank_tp_group_memory(engine->group),
                             .logits = engine->logits};
    engine->drawn_on_device = plan_draw(engine);
    const rank_draw_row *of = rank_step_tables_place(
        &engine->tables, &args, engine->drawn_on_device ? engine->draw_rows : NULL);
    status = rank_step_enqueue(engine->graphs,
                               &(rank_step){.run = &engine->run,
                                            .tables = &engine->tables,
                                            .args = &args,
                                            .group = engine->group,
                                            .comm = engine->comm},
                               reterr);
    if (status != BASE_OK) {
        return status;
    }
    draw_on_device(engine, of);
    engine->costs.tokens += (uint64_t)batch.token_count;
    status = rank_tp_group_check(engine->group, reterr); /* which listens to peers; sync does not */
    return status == BASE_OK ? engine->run.device.backend->sync(engine->run.device.queue, reterr)
                             : status;
}

void rank_engine_trace_exchange(rank_engine *engine, rank_trace_kind kind, rank_span span,
                                size_t size_bytes)
{
    rank_trace_add(
        engine->timeline,
        (rank_trace_span){.kind = kind,
                          .of = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE | RANK_TRACE_ALL_RANKS,
                          .begin_ns = span.begin_ns,
                          .end_ns = span.end_ns,
                          .index = -1,
                          .bytes = size_bytes});
}

static base_status exchange(rank_engine *engine, size_t size_bytes, base_error *reterr)
{
    if (engine->comm == NULL) {
        memcpy(engine->messages, engine->message, size_bytes);
        return BASE_OK;
    }
    rank_step_trace_reduced(engine->trace);
    rank_span span = {.begin_ns = base_now_ns()};
    const base_status status =
        (base_status)coll_all_gather(engine->comm, engine->message, engine->messages, size_bytes,
                                     COLL_UINT8, coll_error_of(reterr));
    span.end_ns = base_now_ns();
    engine->costs.gather_ns += engine->entry_count > 0 ? span.end_ns - span.begin_ns : 0;
    rank_engine_trace_exchange(engine, RANK_TRACE_CANDIDATES, span, size_bytes);
    if (engine->trace != NULL) {
        rank_exchange_log_add(rank_step_trace_log(engine->trace), span);
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "exchanging candidates");
}

static void tell(const rank_engine *engine, int event_count)
{
    for (int i = 0; i < event_count; i++) {
        engine->on_event(engine->user, &engine->events[i]);
    }
}

/* Broadcasts rank 0's record, and applies it. */
static base_status change(rank_engine *engine, size_t record_bytes, base_error *reterr)
{
    base_status status = BASE_OK;
    int event_count = 0;
    if (record_bytes > engine->record_bytes_max) {
        return base_fail(reterr, BASE_ERR_PEER, "rank 0 announced a record of %zu bytes",
                         record_bytes);
    }
    if (engine->comm != NULL) {
        status = (base_status)coll_broadcast(engine->comm, engine->record, record_bytes, COLL_UINT8,
                                             0, coll_error_of(reterr));
    }
    if (status == BASE_OK) {
        status = rank_schedule_apply(engine->schedule, engine->record, record_bytes, engine->events,
                                     &event_count, reterr);
    }
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "rank 0's record");
    }
    tell(engine, event_count);
    return BASE_OK;
}

/* Lets the model draft that is there for it. */
static base_status draft(rank_engine *engine, base_error *reterr)
{
    const int64_t before_ns = base_now_ns();
    if (engine->drafter == NULL) {
        return BASE_OK;
    }
    const int64_t begun_ns = rank_trace_begin(engine->timeline);
    const base_status status = rank_drafter_run(engine->drafter, reterr);
    engine->costs.draft_ns += base_now_ns() - before_ns;
    rank_trace_add(engine->timeline,
                   (rank_trace_span){.kind = RANK_TRACE_DRAFT, .begin_ns = begun_ns, .index = -1});
    return status;
}

/* FNV-1a of the step's tokens; 0: no model drafts, and all ranks have the same. */
static uint64_t digest_rows(const rank_engine *engine)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (int32_t i = 0; engine->drafter != NULL && i < engine->batch_start[engine->entry_count];
         i++) {
        digest = (digest ^ (uint32_t)engine->batch_ids[i]) * UINT64_C(0x100000001b3);
    }
    return engine->drafter != NULL ? digest : 0;
}

/* Checks that all ranks have drafted the same. */
static base_status compare_rows(const rank_engine *engine, uint64_t rows, size_t size_bytes,
                                base_error *reterr)
{
    const int ranks = engine->run.shape.tp->ranks;
    for (int rank = 0; rank < ranks; rank++) {
        engine_head head;
        memcpy(&head, engine->messages + (size_t)rank * size_bytes, sizeof head);
        if (head.rows != rows) {
            return base_fail(reterr, BASE_ERR_PEER,
                             "rank %d has drafted other tokens: its draft model, or the bits of "
                             "its processor, are others than this rank's",
                             rank);
        }
    }
    return BASE_OK;
}

/* How many of the step's tokens are drafted. */
static uint8_t drafted_rows(const rank_engine *engine)
{
    int32_t drafted = 0;
    for (int i = 0; i < engine->entry_count; i++) {
        const int32_t drawn = engine->entries[i].samples - engine->entries[i].scored;
        drafted += drawn > 1 ? drawn - 1 : 0;
    }
    return (uint8_t)drafted; /* RANK_DRAFT_STEP_MAX at most */
}

/* Computes a step of the plan; nothing if it is empty. */
static base_status compute(rank_engine *engine, base_error *reterr)
{
    engine->entry_count = rank_schedule_plan(engine->schedule, engine->entries);
    for (int i = 0; engine->on_begin != NULL && i < engine->entry_count; i++) {
        const rank_schedule_entry *entry = &engine->entries[i];
        const int32_t shared = rank_schedule_shared(engine->schedule, entry->sequence);
        if (entry->first == shared) {
            engine->on_begin(engine->user, request_of(engine, entry)->id, shared);
        }
    }
    gather_rows(engine);
    engine->drawn_on_device = false;
    if (engine->entry_count == 0) {
        return BASE_OK;
    }
    const int64_t begun_ns = rank_trace_begin(engine->timeline);
    const base_status status = decode(engine, reterr);
    rank_trace_add(engine->timeline,
                   (rank_trace_span){.kind = RANK_TRACE_DECODE,
                                     .begin_ns = begun_ns,
                                     .index = engine->batch_start[engine->entry_count],
                                     .detail = drafted_rows(engine)});
    return status;
}

/* Passes the drawn tokens to the schedule. */
static base_status accept_tokens(rank_engine *engine, base_error *reterr)
{
    int drawn = 0;
    if (engine->entry_count == 0) {
        return BASE_OK;
    }
    const base_status status =
        rank_schedule_accept(engine->schedule, engine->tokens, engine->events, &drawn, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (int i = 0; i < drawn; i++) {
        engine->costs.sampled += engine->events[i].scored == 0 ? 1 : 0;
        const size_t row = (size_t)engine->events[i].row;
        engine->events[i].logprob_count = engine->sampled[row].logprob_count;
        engine->events[i].logprobs = engine->logprobs + row * RANK_LOGPROBS_MAX;
        engine->costs.drafted += (uint64_t)engine->events[i].drafted;
        engine->costs.accepted += (uint64_t)engine->events[i].accepted;
    }
    tell(engine, drawn);
    return BASE_OK;
}

/* Draws the step's tokens. */
static base_status draw(rank_engine *engine, size_t size_bytes, base_error *reterr)
{
    const int64_t begun_ns = rank_trace_begin(engine->timeline);
    const rank_engine_costs before = engine->costs;
    base_status status = rank_engine_draw(engine, size_bytes, reterr);
    if (status == BASE_OK) {
        status = accept_tokens(engine, reterr);
    }
    rank_trace_add(
        engine->timeline,
        (rank_trace_span){.kind = RANK_TRACE_DRAW,
                          .begin_ns = begun_ns,
                          .index = (int32_t)(engine->costs.sampled - before.sampled),
                          .detail = (uint8_t)(engine->costs.accepted - before.accepted)});
    return status;
}

base_status rank_engine_step(rank_engine *engine, bool last, bool *ended, base_error *reterr)
{
    const int64_t before_ns = base_now_ns();
    engine_head head = {.magic = ENGINE_HEAD_MAGIC};
    size_t size_bytes = 0;
    const uint64_t tokens_before = engine->costs.tokens;
    const uint64_t drawn_before = engine->costs.sampled;
    rank_step_trace_begin(engine->trace, before_ns);
    if (rank_schedule_running(engine->schedule) > 0) { /* then the plan is not empty */
        rank_trace_step_begin(engine->timeline, before_ns);
    }
    rank_schedule_make_room(engine->schedule);
    base_status status = rank_alone_tick(engine->alone, reterr);
    if (status == BASE_OK) {
        status = draft(engine, reterr);
    }
    if (status == BASE_OK) {
        status = compute(engine, reterr);
    }
    *ended = false;
    if (status == BASE_OK && engine->requests != NULL) {
        head.record_bytes =
            rank_requests_decide(engine->requests, engine->schedule, engine->record);
        head.last = last;
    }
    if (status == BASE_OK) {
        head.rows = digest_rows(engine);
        status = rank_engine_make_message(engine, &head, &size_bytes, reterr);
    }
    if (status == BASE_OK) {
        status = exchange(engine, size_bytes, reterr);
    }
    if (status == BASE_OK) {
        status = compare_rows(engine, head.rows, size_bytes, reterr);
    }
    if (status == BASE_OK) {
        status = draw(engine, size_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    memcpy(&head, engine->messages, sizeof head); /* rank 0's */
    if (head.magic != ENGINE_HEAD_MAGIC) {
        return base_fail(reterr, BASE_ERR_PEER, "rank 0 sent no head of a step");
    }
    if (head.record_bytes > 0) {
        const int64_t begun_ns = rank_trace_begin(engine->timeline);
        status = change(engine, head.record_bytes, reterr);
        rank_trace_add(engine->timeline,
                       (rank_trace_span){.kind = RANK_TRACE_RECORD,
                                         .of = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE,
                                         .begin_ns = begun_ns,
                                         .index = -1,
                                         .bytes = head.record_bytes});
    }
    *ended = head.last != 0;
    const int64_t now_ns = base_now_ns();
    if (engine->entry_count > 0) {
        engine->costs.steps++;
        engine->costs.step_ns += now_ns - before_ns;
        rank_trace_step_end_next(engine->timeline, now_ns);
    }
    rank_step_trace_end(engine->trace, now_ns, (int32_t)(engine->costs.tokens - tokens_before),
                        (int32_t)(engine->costs.sampled - drawn_before));
    return status;
}

base_status rank_engine_submit(rank_engine *engine, rank_request *request, const int32_t *prompt,
                               base_error *reterr)
{
    const rank_backend *backend = engine->run.device.backend;
    if (request->scores != 0 && backend->capture != NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "the backend %s weighs no prompt's tokens",
                         backend->name);
    }
    const base_status status = rank_grammars_check(engine->grammars, request, reterr);
    return status == BASE_OK
               ? rank_requests_submit(engine->requests, request, prompt, reterr)
               : base_error_prepend(reterr, status, PROTO_FORMAT_KEY " or tool_choice");
}

bool rank_engine_cancel(rank_engine *engine, uint64_t id)
{
    return rank_requests_cancel(engine->requests, engine->schedule, id);
}

int32_t rank_engine_waiting(const rank_engine *engine)
{
    return rank_requests_waiting(engine->requests);
}

bool rank_engine_is_idle(const rank_engine *engine)
{
    return rank_requests_waiting(engine->requests) == 0 &&
           rank_schedule_running(engine->schedule) == 0;
}

rank_engine_costs rank_engine_get_costs(const rank_engine *engine)
{
    rank_engine_costs costs = engine->costs;
    costs.preemptions = rank_schedule_preemptions(engine->schedule);
    costs.all_reduce = rank_tp_group_costs(engine->group);
    return costs;
}

rank_graphs_info rank_engine_get_graphs(const rank_engine *engine)
{
    return rank_graphs_get_info(engine->graphs);
}

void rank_engine_drop_graphs(rank_engine *engine)
{
    if (engine != NULL) {
        rank_graphs_stop(engine->graphs);
    }
}
