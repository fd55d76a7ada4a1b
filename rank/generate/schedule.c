/* The schedule's storage, and the records that change who runs. Called by engine.c on every rank, each with its own
 * copy; schedule_step.c makes plans and accepts tokens. Records come from another process, so they are checked and
 * never asserted. */
#include "generate/schedule.h"

#include <string.h>

#include "base/assert.h"
#include "generate/schedule_record.h"
#include "generate/schedule_state.h"

static rank_blocks_options blocks_options(const rank_schedule_options *options)
{
    return (rank_blocks_options){.block_count = options->block_count,
                                 .block_tokens = options->block_tokens,
                                 .sequence_count = options->sequence_count,
                                 .context = options->context};
}

int32_t rank_schedule_drafts_max(const rank_schedule_options *options)
{
    const int64_t all = (int64_t)options->sequence_count * options->draft_max;
    return all < RANK_DRAFT_STEP_MAX ? (int32_t)all : RANK_DRAFT_STEP_MAX;
}

size_t rank_schedule_bytes(const rank_schedule_options *options)
{
    const rank_blocks_options blocks = blocks_options(options);
    return schedule_blocks_offset(options) + rank_blocks_bytes(&blocks);
}

rank_schedule *rank_schedule_init(void *storage, const rank_schedule_options *options)
{
    rank_schedule *schedule = storage;
    const rank_blocks_options blocks = blocks_options(options);
    BASE_ASSERT(options->context >= 2);
    BASE_ASSERT(options->chunk_tokens >= 1);
    BASE_ASSERT(options->draft_max >= 0);
    BASE_ASSERT(options->draft_max <= RANK_DRAFT_TOKENS_MAX);
    memset(storage, 0, rank_schedule_bytes(options));
    schedule->options = *options;
    (void)rank_blocks_init(schedule_blocks_of(schedule), &blocks);
    for (int32_t i = 0; i < options->sequence_count; i++) {
        schedule_order_of(schedule)[i] = -1;
    }
    return schedule;
}

size_t rank_schedule_record_bytes_max(const rank_schedule_options *options)
{
    /* a padded prompt is at most 4 bytes longer */
    const size_t each = 2 * sizeof(uint64_t) + sizeof(rank_request) +
                        (size_t)options->grammar_max * sizeof(proto_grammar_step);
    return sizeof(schedule_record) + (size_t)options->sequence_count * each +
           (size_t)options->context * sizeof(int32_t);
}

/* Where the request's sequence stands in the order; -1: it does not run. */
static int32_t position_of(const rank_schedule *schedule, uint64_t request_id)
{
    for (int32_t i = 0; i < schedule->running; i++) {
        if (schedule_sequence_at(schedule, schedule_order_of(schedule)[i])->request.id ==
            request_id) {
            return i;
        }
    }
    return -1;
}

int32_t rank_schedule_find(const rank_schedule *schedule, uint64_t request_id)
{
    const int32_t position = position_of(schedule, request_id);
    return position >= 0 ? schedule_order_of(schedule)[position] : -1;
}

void schedule_leave(rank_schedule *schedule, int32_t position)
{
    int32_t *order = schedule_order_of(schedule);
    const int32_t index = order[position];
    sequence_state *s = schedule_sequence_at(schedule, index);
    rank_blocks_release(schedule_blocks_of(schedule), index);
    memset(s, 0, sizeof *s);
    schedule->running--;
    schedule->placed -= position < schedule->placed ? 1 : 0;
    memmove(order + position, order + position + 1,
            (size_t)(schedule->running - position) * sizeof *order);
    order[schedule->running] = -1;
}

static void cancel(rank_schedule *schedule, uint64_t id, rank_schedule_event *events, int *count)
{
    const int32_t position = position_of(schedule, id);
    if (position >= 0) {
        const int32_t index = schedule_order_of(schedule)[position];
        events[(*count)++] =
            (rank_schedule_event){.request_id = id,
                                  .token = -1,
                                  .finish = RANK_FINISH_CANCELLED,
                                  .preempted = schedule_sequence_at(schedule, index)->preempted};
        schedule_leave(schedule, position);
    }
}

static bool join(rank_schedule *schedule, const rank_request *request,
                 const proto_grammar_step *grammar, const int32_t *prompt)
{
    int32_t index = 0;
    while (index < schedule->options.sequence_count &&
           schedule_sequence_at(schedule, index)->request.id != 0) {
        index++;
    }
    if (index == schedule->options.sequence_count || schedule->placed < schedule->running) {
        return false;
    }
    sequence_state *s = schedule_sequence_at(schedule, index);
    s->request = *request;
    memcpy(schedule_grammar_of(schedule, index), grammar, schedule_grammar_bytes(request));
    s->token_count = request->prompt_count;
    memcpy(schedule_tokens_of(schedule, index), prompt,
           (size_t)request->prompt_count * sizeof *prompt);
    schedule_order_of(schedule)[schedule->running++] = index;
    return schedule_place(schedule);
}

/* Applies the join at *at of the record. */
static base_status apply_join(rank_schedule *schedule, const uint8_t *record, size_t record_bytes,
                              size_t *at, base_error *reterr)
{
    rank_request request = {.id = 0};
    if (record_bytes - *at < SCHEDULE_HEAD_BYTES) {
        return base_fail(reterr, BASE_ERR_PEER, "a record of the schedule is too short");
    }
    memcpy(&request, record + *at, SCHEDULE_HEAD_BYTES);
    if (request.id == 0 || request.prompt_count < 1 ||
        request.prompt_count >= schedule->options.context || request.bias_count < 0 ||
        request.bias_count > RANK_LOGIT_BIASES_MAX || request.grammar_count < 0 ||
        request.grammar_count > schedule->options.grammar_max ||
        record_bytes - *at < schedule_join_bytes(&request)) {
        return base_fail(reterr, BASE_ERR_PEER, "a record of the schedule is broken");
    }
    const uint8_t *from = record + *at + SCHEDULE_HEAD_BYTES;
    memcpy(request.biases, from, schedule_biases_bytes(&request));
    from += schedule_biases_bytes(&request);
    const proto_grammar_step *grammar = (const void *)from;
    const int32_t *prompt = (const void *)(from + schedule_grammar_bytes(&request));
    request.grammar = NULL;
    if (rank_schedule_check(&schedule->options, &request, prompt, reterr) != BASE_OK) {
        return base_error_prepend(reterr, BASE_ERR_PEER, "a record of the schedule");
    }
    if (rank_schedule_find(schedule, request.id) >= 0 ||
        !join(schedule, &request, grammar, prompt)) {
        return base_fail(reterr, BASE_ERR_PEER,
                         "a record of the schedule admits request %llu, which runs or has no room",
                         (unsigned long long)request.id);
    }
    if (request.grammar_count > 0 &&
        proto_grammar_check(schedule_grammar_of(schedule, rank_schedule_find(schedule, request.id)),
                            (size_t)request.grammar_count, reterr) != BASE_OK) {
        return base_error_prepend(reterr, BASE_ERR_PEER, "a record of the schedule");
    }
    *at += schedule_join_bytes(&request);
    return BASE_OK;
}

base_status rank_schedule_apply(rank_schedule *schedule, const void *record, size_t record_bytes,
                                rank_schedule_event *events, int *event_count, base_error *reterr)
{
    schedule_record header;
    size_t at = sizeof header;
    *event_count = 0;
    if (record_bytes < sizeof header) {
        return base_fail(reterr, BASE_ERR_PEER, "a record of the schedule is too short");
    }
    memcpy(&header, record, sizeof header);
    if (header.number != schedule->records + 1 || header.leave_count < 0 ||
        header.leave_count > schedule->options.sequence_count || header.join_count < 0 ||
        header.join_count > schedule->options.sequence_count ||
        record_bytes - at < (size_t)header.leave_count * sizeof(uint64_t)) {
        return base_fail(reterr, BASE_ERR_PEER,
                         "record %llu of the schedule is broken, or not next",
                         (unsigned long long)header.number);
    }
    for (int32_t i = 0; i < header.leave_count; i++, at += sizeof(uint64_t)) {
        uint64_t id = 0;
        memcpy(&id, (const uint8_t *)record + at, sizeof id);
        cancel(schedule, id, events, event_count);
    }
    for (int32_t i = 0; i < header.join_count; i++) {
        const base_status status = apply_join(schedule, record, record_bytes, &at, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    if (at != record_bytes) {
        return base_fail(reterr, BASE_ERR_PEER, "a record of the schedule is too long");
    }
    schedule->records++;
    return BASE_OK;
}

uint64_t rank_schedule_records(const rank_schedule *schedule)
{
    return schedule->records;
}

int rank_schedule_running(const rank_schedule *schedule)
{
    return schedule->running;
}

int rank_schedule_placed(const rank_schedule *schedule)
{
    return schedule->placed;
}

uint64_t rank_schedule_preemptions(const rank_schedule *schedule)
{
    return schedule->preemptions;
}

const rank_schedule_options *rank_schedule_get_options(const rank_schedule *schedule)
{
    return &schedule->options;
}

const rank_blocks *rank_schedule_blocks(const rank_schedule *schedule)
{
    return schedule_blocks_of(schedule);
}

const rank_request *rank_schedule_request(const rank_schedule *schedule, int32_t sequence)
{
    const sequence_state *s = schedule_sequence_at(schedule, sequence);
    return s->request.id != 0 ? &s->request : NULL;
}

const proto_grammar_step *rank_schedule_grammar(const rank_schedule *schedule, int32_t sequence)
{
    return schedule_grammar_of(schedule, sequence);
}

int32_t rank_schedule_shared(const rank_schedule *schedule, int32_t sequence)
{
    return schedule_sequence_at(schedule, sequence)->shared;
}

const int32_t *rank_schedule_tokens(const rank_schedule *schedule, int32_t sequence, int32_t *count)
{
    *count = schedule_sequence_at(schedule, sequence)->token_count;
    return schedule_tokens_of(schedule, sequence);
}

int32_t rank_schedule_at(const rank_schedule *schedule, int position)
{
    BASE_ASSERT(position < schedule->running);
    return schedule_order_of(schedule)[position];
}
