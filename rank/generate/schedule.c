/* The transitions of the schedule: applies records, makes plans, accepts tokens. Called by engine.c
 * on every rank, each with its own copy. Records come from another process, so they are checked and
 * never asserted. */
#include "generate/schedule.h"

#include <string.h>

#include "base/assert.h"
#include "generate/schedule_record.h"

/* A sequence; all 0 if none runs at this index. No request has the id 0. */
typedef struct sequence_state {
    rank_request request;
    int32_t token_count; /* known: the prompt and what was drawn */
    int32_t computed;    /* of them, in the key-value cache */
    int32_t finish;      /* rank_finish, between the two passes of accept */
    int32_t shared;      /* of the prompt, cached when it joined */
    int32_t drafted;     /* tokens that stand behind those that are known */
    int32_t may_draft;   /* tokens that a model may draft for the next step, */
    int32_t followed;    /* and how many of the text's are in its cache, drafted ones too */
    rank_draft_pace pace;
} sequence_state;

/* Followed by sequences (sequence_count), order (sequence_count), tokens (sequence_count, context),
 * and the blocks. */
struct rank_schedule {
    uint64_t records;
    rank_schedule_options options;
    int32_t running;
};

_Static_assert(sizeof(struct rank_schedule) == 48, "no padding");
_Static_assert(sizeof(sequence_state) == sizeof(rank_request) + 40, "no padding");

static rank_blocks_options blocks_options(const rank_schedule_options *options)
{
    return (rank_blocks_options){.block_count = options->block_count,
                                 .block_tokens = options->block_tokens,
                                 .sequence_count = options->sequence_count,
                                 .context = options->context};
}

static size_t order_offset(const rank_schedule_options *options)
{
    return sizeof(rank_schedule) + (size_t)options->sequence_count * sizeof(sequence_state);
}

static size_t blocks_offset(const rank_schedule_options *options)
{
    const size_t offset = order_offset(options) + (size_t)options->sequence_count *
                                                      (1 + (size_t)options->context) *
                                                      sizeof(int32_t);
    return (offset + 7) / 8 * 8; /* blocks are aligned for uint64_t */
}

static sequence_state *sequence_at(const rank_schedule *schedule, int32_t index)
{
    BASE_ASSERT(index >= 0);
    BASE_ASSERT(index < schedule->options.sequence_count);
    return (sequence_state *)(void *)((uint8_t *)(uintptr_t)schedule + sizeof *schedule) + index;
}

/* The indices of running sequences, in the order of admission, then -1. */
static int32_t *order_of(const rank_schedule *schedule)
{
    return (int32_t *)(void *)((uint8_t *)(uintptr_t)schedule + order_offset(&schedule->options));
}

static int32_t *tokens_of(const rank_schedule *schedule, int32_t index)
{
    return order_of(schedule) + schedule->options.sequence_count +
           (size_t)index * (size_t)schedule->options.context;
}

static rank_blocks *blocks_of(const rank_schedule *schedule)
{
    return (rank_blocks *)(void *)((uint8_t *)(uintptr_t)schedule +
                                   blocks_offset(&schedule->options));
}

int32_t rank_schedule_drafts_max(const rank_schedule_options *options)
{
    const int64_t all = (int64_t)options->sequence_count * options->draft_max;
    return all < RANK_DRAFT_STEP_MAX ? (int32_t)all : RANK_DRAFT_STEP_MAX;
}

size_t rank_schedule_bytes(const rank_schedule_options *options)
{
    const rank_blocks_options blocks = blocks_options(options);
    return blocks_offset(options) + rank_blocks_bytes(&blocks);
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
    (void)rank_blocks_init(blocks_of(schedule), &blocks);
    for (int32_t i = 0; i < options->sequence_count; i++) {
        order_of(schedule)[i] = -1;
    }
    return schedule;
}

size_t rank_schedule_record_bytes_max(const rank_schedule_options *options)
{
    /* a padded prompt is at most 4 bytes longer */
    const size_t each = sizeof(uint64_t) + schedule_join_bytes(1, RANK_LOGIT_BIASES_MAX);
    return sizeof(schedule_record) + (size_t)options->sequence_count * each +
           (size_t)options->context * sizeof(int32_t);
}

/* Where the request's sequence stands in the order; -1: it does not run. */
static int32_t position_of(const rank_schedule *schedule, uint64_t request_id)
{
    for (int32_t i = 0; i < schedule->running; i++) {
        if (sequence_at(schedule, order_of(schedule)[i])->request.id == request_id) {
            return i;
        }
    }
    return -1;
}

int32_t rank_schedule_find(const rank_schedule *schedule, uint64_t request_id)
{
    const int32_t position = position_of(schedule, request_id);
    return position >= 0 ? order_of(schedule)[position] : -1;
}

/* Removes the sequence at `position` of the order. */
static void leave(rank_schedule *schedule, int32_t position)
{
    int32_t *order = order_of(schedule);
    const int32_t index = order[position];
    sequence_state *s = sequence_at(schedule, index);
    rank_blocks_release(blocks_of(schedule), index);
    memset(s, 0, sizeof *s);
    schedule->running--;
    memmove(order + position, order + position + 1,
            (size_t)(schedule->running - position) * sizeof *order);
    order[schedule->running] = -1;
}

static void cancel(rank_schedule *schedule, uint64_t id, rank_schedule_event *events, int *count)
{
    const int32_t position = position_of(schedule, id);
    if (position >= 0) {
        leave(schedule, position);
        events[(*count)++] =
            (rank_schedule_event){.request_id = id, .token = -1, .finish = RANK_FINISH_CANCELLED};
    }
}

static bool join(rank_schedule *schedule, const rank_request *request, const int32_t *prompt)
{
    int32_t index = 0;
    while (index < schedule->options.sequence_count &&
           sequence_at(schedule, index)->request.id != 0) {
        index++;
    }
    if (index == schedule->options.sequence_count) {
        return false;
    }
    const int32_t shared =
        schedule->options.shares != 0 /* the last token's logits are needed */
            ? rank_blocks_share(blocks_of(schedule), index, prompt, request->prompt_count - 1)
            : 0;
    if (!rank_blocks_reserve(blocks_of(schedule), index,
                             rank_schedule_tokens_max(&schedule->options, request))) {
        return false;
    }
    sequence_state *s = sequence_at(schedule, index);
    s->request = *request;
    s->token_count = request->prompt_count;
    s->shared = shared * schedule->options.block_tokens;
    s->computed = s->shared;
    memcpy(tokens_of(schedule, index), prompt, (size_t)request->prompt_count * sizeof *prompt);
    order_of(schedule)[schedule->running++] = index;
    return true;
}

/* Applies the join at *at of the record. */
static base_status apply_join(rank_schedule *schedule, const uint8_t *record, size_t record_bytes,
                              size_t *at, base_error *reterr)
{
    rank_request request = {.id = 0};
    const size_t head_bytes = schedule_request_bytes(0);
    if (record_bytes - *at < head_bytes) {
        return base_fail(reterr, BASE_ERR_PEER, "a record of the schedule is too short");
    }
    memcpy(&request, record + *at, head_bytes);
    if (request.id == 0 || request.prompt_count < 1 ||
        request.prompt_count >= schedule->options.context || request.bias_count < 0 ||
        request.bias_count > RANK_LOGIT_BIASES_MAX ||
        record_bytes - *at < schedule_join_bytes(request.prompt_count, request.bias_count)) {
        return base_fail(reterr, BASE_ERR_PEER, "a record of the schedule is broken");
    }
    const size_t request_bytes = schedule_request_bytes(request.bias_count);
    memcpy(&request, record + *at, request_bytes);
    const int32_t *prompt = (const int32_t *)(const void *)(record + *at + request_bytes);
    if (rank_schedule_check(&schedule->options, &request, prompt, reterr) != BASE_OK) {
        return base_error_prepend(reterr, BASE_ERR_PEER, "a record of the schedule");
    }
    if (rank_schedule_find(schedule, request.id) >= 0 || !join(schedule, &request, prompt)) {
        return base_fail(reterr, BASE_ERR_PEER,
                         "a record of the schedule admits request %llu, which runs or has no room",
                         (unsigned long long)request.id);
    }
    *at += schedule_join_bytes(request.prompt_count, request.bias_count);
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

/* How far a walk over a step's entries is. */
typedef struct walk {
    int32_t position;     /* the next of the order */
    int32_t chunk_tokens; /* prompt tokens that may still be computed */
    int32_t drafts;       /* and drafted tokens */
} walk;

static walk walk_begin(const rank_schedule *schedule)
{
    return (walk){.chunk_tokens = schedule->options.chunk_tokens,
                  .drafts = rank_schedule_drafts_max(&schedule->options)};
}

/* Makes the step's next entry; false at the end. It depends on its own sequence, and on how many
 * prompt tokens and drafts the entries before it have. */
static bool next_entry(const rank_schedule *schedule, walk *w, rank_schedule_entry *entry)
{
    while (w->position < schedule->running) {
        const int32_t index = order_of(schedule)[w->position++];
        const sequence_state *s = sequence_at(schedule, index);
        const int32_t drafted = s->drafted < w->drafts ? s->drafted : w->drafts;
        int32_t count = s->token_count - s->computed;
        BASE_ASSERT(count >= 1);
        if (s->token_count == s->request.prompt_count) { /* nothing was drawn yet: prefill */
            count = count < w->chunk_tokens ? count : w->chunk_tokens;
            w->chunk_tokens -= count;
        }
        if (count > 0) {
            const bool whole = s->computed + count == s->token_count;
            *entry = (rank_schedule_entry){.sequence = index,
                                           .first = s->computed,
                                           .count = count + drafted,
                                           .samples = whole ? 1 + drafted : 0};
            w->drafts -= drafted;
            return true;
        }
    }
    return false;
}

int rank_schedule_plan(const rank_schedule *schedule, rank_schedule_entry *entries)
{
    int count = 0;
    walk w = walk_begin(schedule);
    while (next_entry(schedule, &w, &entries[count])) {
        count++;
        if (count == schedule->options.sequence_count) {
            break;
        }
    }
    return count;
}

static rank_finish finish_of(const rank_schedule *schedule, const sequence_state *s, int32_t token)
{
    for (int32_t i = 0; i < s->request.stop_count; i++) {
        if (token == s->request.stops[i]) {
            return RANK_FINISH_STOP;
        }
    }
    if (s->token_count - s->request.prompt_count == s->request.max_new_tokens) {
        return RANK_FINISH_LENGTH;
    }
    return s->token_count == schedule->options.context ? RANK_FINISH_CONTEXT : RANK_FINISH_NOT;
}

/* Notes the blocks that are full since `computed` tokens of the sequence were. */
static void fill_blocks(rank_schedule *schedule, int32_t index, int32_t computed)
{
    const int32_t each = schedule->options.block_tokens;
    const int32_t full = sequence_at(schedule, index)->computed / each;
    for (int32_t i = computed / each; schedule->options.shares != 0 && i < full; i++) {
        rank_blocks_fill(blocks_of(schedule), index, i,
                         tokens_of(schedule, index) + (size_t)i * (size_t)each);
    }
}

/* Adds the tokens that were drawn of the entry's rows, to the first that was not drafted, or that
 * ends the text. */
static base_status grow(rank_schedule *schedule, const rank_schedule_entry *entry,
                        const int32_t *tokens, rank_schedule_event *events, int *event_count,
                        base_error *reterr)
{
    sequence_state *s = sequence_at(schedule, entry->sequence);
    int32_t *own = tokens_of(schedule, entry->sequence);
    bool drafted = true;
    for (int32_t i = 0; i < entry->samples && drafted && s->finish == RANK_FINISH_NOT; i++) {
        const int32_t token = tokens[i];
        if (token < 0 || token >= schedule->options.vocab_size) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "token %d was sampled, the vocabulary has %d", token,
                             schedule->options.vocab_size);
        }
        BASE_ASSERT(s->token_count < schedule->options.context);
        drafted = i + 1 < entry->samples && own[s->token_count] == token;
        own[s->token_count++] = token;
        s->finish = (int32_t)finish_of(schedule, s, token);
        events[(*event_count)++] = (rank_schedule_event){.request_id = s->request.id,
                                                         .token = token,
                                                         .finish = (rank_finish)s->finish,
                                                         .drafted = i == 0 ? entry->samples - 1 : 0,
                                                         .accepted = i > 0 ? 1 : 0};
    }
    return BASE_OK;
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Drafts what the sequence may draw behind the next token, as far as it can go on; or notes how much a
 * model may draft of it, which computes all tokens but the last one drafted. */
static void draft(rank_schedule *schedule, int32_t index)
{
    sequence_state *s = sequence_at(schedule, index);
    const rank_schedule_options *options = &schedule->options;
    const int32_t left = rank_schedule_tokens_max(options, &s->request) - s->token_count - 1;
    const int32_t most = smaller(rank_draft_length(&s->pace, options->draft_max), left);
    if (options->draft_context == 0) {
        s->drafted = rank_draft_find(tokens_of(schedule, index), s->token_count, most);
        return;
    }
    const int32_t room = smaller(most, options->draft_context + 1 - s->token_count);
    s->may_draft = room > 0 ? room : 0;
}

/* Ends a step of a sequence that has drawn. Rows of the draft that were wrong are computed again, also
 * by the model that has drafted them. */
static base_status end_draw(rank_schedule *schedule, const rank_schedule_entry *entry,
                            const int32_t *tokens, rank_schedule_event *events, int *event_count,
                            base_error *reterr)
{
    sequence_state *s = sequence_at(schedule, entry->sequence);
    const int32_t known = s->token_count;
    const base_status status = grow(schedule, entry, tokens, events, event_count, reterr);
    s->computed = s->token_count - 1;
    if (entry->samples > 1) {
        rank_draft_learn(&s->pace, entry->samples - 1, s->computed - known,
                         schedule->options.draft_context > 0 ? RANK_DRAFT_MODEL_MISSES : 0);
    }
    s->followed = smaller(s->followed, s->computed); /* what was drafted behind is wrong */
    s->drafted = 0;
    s->may_draft = 0;
    if (s->finish == RANK_FINISH_NOT && schedule->options.draft_max > 0) {
        draft(schedule, entry->sequence);
    }
    return status;
}

base_status rank_schedule_accept(rank_schedule *schedule, const int32_t *tokens,
                                 rank_schedule_event *events, int *event_count, base_error *reterr)
{
    base_status status = BASE_OK;
    rank_schedule_entry entry;
    walk w = walk_begin(schedule);
    int32_t row = 0;
    *event_count = 0;
    while (status == BASE_OK && next_entry(schedule, &w, &entry)) {
        if (entry.samples == 0) {
            sequence_at(schedule, entry.sequence)->computed += entry.count;
        } else {
            const int first = *event_count;
            status = end_draw(schedule, &entry, tokens + row, events, event_count, reterr);
            for (int i = first; i < *event_count; i++) {
                events[i].row = row + i - first;
            }
            row += entry.samples;
        }
        fill_blocks(schedule, entry.sequence, entry.first);
    }
    for (int32_t position = schedule->running - 1; position >= 0; position--) {
        if (sequence_at(schedule, order_of(schedule)[position])->finish != RANK_FINISH_NOT) {
            leave(schedule, position);
        }
    }
    return status;
}

uint64_t rank_schedule_records(const rank_schedule *schedule)
{
    return schedule->records;
}

int rank_schedule_running(const rank_schedule *schedule)
{
    return schedule->running;
}

const rank_schedule_options *rank_schedule_get_options(const rank_schedule *schedule)
{
    return &schedule->options;
}

const rank_blocks *rank_schedule_blocks(const rank_schedule *schedule)
{
    return blocks_of(schedule);
}

const rank_request *rank_schedule_request(const rank_schedule *schedule, int32_t sequence)
{
    const sequence_state *s = sequence_at(schedule, sequence);
    return s->request.id != 0 ? &s->request : NULL;
}

int32_t rank_schedule_shared(const rank_schedule *schedule, int32_t sequence)
{
    return sequence_at(schedule, sequence)->shared;
}

const int32_t *rank_schedule_tokens(const rank_schedule *schedule, int32_t sequence, int32_t *count)
{
    *count = sequence_at(schedule, sequence)->token_count;
    return tokens_of(schedule, sequence);
}

int32_t rank_schedule_at(const rank_schedule *schedule, int position)
{
    BASE_ASSERT(position < schedule->running);
    return order_of(schedule)[position];
}

rank_schedule_draft rank_schedule_drafting(const rank_schedule *schedule, int32_t sequence)
{ /* a draft stands between two tokens that are drawn */
    const sequence_state *s = sequence_at(schedule, sequence);
    const int32_t most = rank_schedule_tokens_max(&schedule->options, &s->request) - 2;
    const bool begins = s->token_count == s->request.prompt_count && s->token_count < most &&
                        s->token_count < schedule->options.draft_context;
    const int32_t behind = begins || s->may_draft > 0 ? s->token_count - s->followed : 0;
    return (rank_schedule_draft){.followed = s->followed, .behind = behind, .wanted = s->may_draft};
}

void rank_schedule_follow(rank_schedule *schedule, int32_t sequence, int32_t count)
{
    sequence_state *s = sequence_at(schedule, sequence);
    s->followed += count;
    BASE_ASSERT(s->followed <= s->token_count + s->drafted);
    BASE_ASSERT(s->followed <= schedule->options.draft_context);
}

void rank_schedule_add_draft(rank_schedule *schedule, int32_t sequence, int32_t token)
{
    sequence_state *s = sequence_at(schedule, sequence);
    BASE_ASSERT(s->drafted < s->may_draft);
    tokens_of(schedule, sequence)[s->token_count + s->drafted++] = token;
}
