/* A step of the schedule: which tokens it computes, and what becomes of those that it draws. Called by engine.c on every
 * rank, and by drafter.c between steps. */
#include "generate/schedule_state.h"

#include "base/assert.h"

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Nothing was drawn yet. */
static bool is_prompt(const sequence_state *s)
{
    return s->token_count == s->request.prompt_count;
}

/* It computes its prompt, or its text anew. */
static bool prefills(const sequence_state *s)
{
    return is_prompt(s) || s->token_count - s->computed > 1;
}

/* Whether all prompts together have at most a chunk, if each has at most `share` tokens in a step. */
static bool share_fits(const rank_schedule *schedule, int32_t share)
{
    int64_t tokens = 0;
    for (int32_t i = 0; i < schedule->placed; i++) {
        const sequence_state *s = schedule_sequence_at(schedule, schedule_order_of(schedule)[i]);
        tokens += prefills(s) ? smaller(s->token_count - s->computed, share) : 0;
    }
    return tokens <= schedule->options.chunk_tokens;
}

/* How far a walk over a step's entries is. */
typedef struct walk {
    int32_t position;     /* the next of the order */
    int32_t share;        /* of a sequence's prompt, in this step */
    int32_t chunk_tokens; /* prompt tokens that may still be computed */
    int32_t drafts;       /* and drafted tokens */
    int32_t spare;        /* rows that may be sampled beyond one of each sequence and its draft */
} walk;

/* The share is the largest that fits: what a short prompt does not need is left to the long ones. It is a block at
 * least. If that does not fit, the first come first. */
static walk walk_begin(const rank_schedule *schedule)
{
    const rank_schedule_options *options = &schedule->options;
    int32_t share = 0;
    for (int32_t above = options->chunk_tokens + 1; above - share > 1;) {
        const int32_t middle = share + (above - share) / 2;
        *(share_fits(schedule, middle) ? &share : &above) = middle;
    }
    return (walk){.share = share > options->block_tokens ? share : options->block_tokens,
                  .chunk_tokens = options->chunk_tokens,
                  .spare = options->sequence_count - schedule->running,
                  .drafts = rank_schedule_drafts_max(options)};
}

/* Makes the step's next entry; false at the end. It depends on its own sequence, and on how many
 * prompt tokens and drafts the entries before it have. */
static bool next_entry(const rank_schedule *schedule, walk *w, rank_schedule_entry *entry)
{
    while (w->position < schedule->placed) {
        const int32_t index = schedule_order_of(schedule)[w->position++];
        const sequence_state *s = schedule_sequence_at(schedule, index);
        const int32_t drafted = s->drafted < w->drafts ? s->drafted : w->drafts;
        int32_t count = s->token_count - s->computed;
        const int32_t told = is_prompt(s) ? s->told - s->computed : 0; /* before it was preempted */
        const bool scores = is_prompt(s) && s->request.scores != 0 && told <= 0;
        BASE_ASSERT(count >= 1);
        count = told > 0 ? smaller(count, told) : count;
        if (prefills(s)) {
            count = smaller(count, smaller(w->share, w->chunk_tokens));
            count = scores ? smaller(count, 1 + w->spare) : count;
            w->spare -= scores && count > 1 ? count - 1 : 0;
            w->chunk_tokens -= count;
        }
        if (count > 0) {
            const bool whole = s->computed + count == s->token_count;
            *entry = (rank_schedule_entry){.sequence = index,
                                           .first = s->computed,
                                           .count = count + drafted,
                                           .samples = scores  ? count
                                                      : whole ? 1 + drafted
                                                              : 0,
                                           .scored = scores ? count - (whole ? 1 : 0) : 0};
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
    const int32_t full = schedule_sequence_at(schedule, index)->computed / each;
    for (int32_t i = computed / each; schedule->options.shares != 0 && i < full; i++) {
        rank_blocks_fill(schedule_blocks_of(schedule), index, i,
                         schedule_tokens_of(schedule, index) + (size_t)i * (size_t)each);
    }
}

/* Adds the tokens that were drawn of the entry's rows, to the first that was not drafted, or that
 * ends the text. */
static base_status grow(rank_schedule *schedule, const rank_schedule_entry *entry,
                        const int32_t *tokens, rank_schedule_event *events, int *event_count,
                        base_error *reterr)
{
    sequence_state *s = schedule_sequence_at(schedule, entry->sequence);
    int32_t *own = schedule_tokens_of(schedule, entry->sequence);
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
        events[(*event_count)++] =
            (rank_schedule_event){.request_id = s->request.id,
                                  .token = token,
                                  .finish = (rank_finish)s->finish,
                                  .drafted = i == 0 ? entry->samples - 1 : 0,
                                  .accepted = i > 0 ? 1 : 0,
                                  .preempted = s->finish != RANK_FINISH_NOT ? s->preempted : 0};
    }
    return BASE_OK;
}

/* Drafts what the sequence may draw behind the next token, as far as it can go on; or notes how much a
 * model may draft of it, which computes all tokens but the last one drafted. */
static void draft(rank_schedule *schedule, int32_t index)
{
    sequence_state *s = schedule_sequence_at(schedule, index);
    const rank_schedule_options *options = &schedule->options;
    const int32_t left = rank_schedule_tokens_max(options, &s->request) - s->token_count - 1;
    const int32_t most = smaller(rank_draft_length(&s->pace, options->draft_max), left);
    if (options->draft_context == 0) {
        s->drafted = rank_draft_find(schedule_tokens_of(schedule, index), s->token_count, most);
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
    sequence_state *s = schedule_sequence_at(schedule, entry->sequence);
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

/* Says of the entry's scored rows which tokens of the prompt they give. */
static void tell_scored(rank_schedule *schedule, const rank_schedule_entry *entry,
                        rank_schedule_event *events, int *event_count)
{
    sequence_state *s = schedule_sequence_at(schedule, entry->sequence);
    const int32_t *own = schedule_tokens_of(schedule, entry->sequence);
    for (int32_t i = 0; i < entry->scored; i++) {
        s->told = entry->first + i + 1;
        events[(*event_count)++] =
            (rank_schedule_event){.request_id = s->request.id, .token = own[s->told], .scored = 1};
    }
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
        const int first = *event_count;
        tell_scored(schedule, &entry, events, event_count);
        if (entry.samples == entry.scored) {
            schedule_sequence_at(schedule, entry.sequence)->computed += entry.count;
        } else {
            const int32_t *drawn = tokens + row + entry.scored;
            rank_schedule_entry rest = entry;
            rest.samples -= entry.scored;
            status = end_draw(schedule, &rest, drawn, events, event_count, reterr);
        }
        for (int i = first; i < *event_count; i++) {
            events[i].row = row + i - first;
        }
        row += entry.samples;
        fill_blocks(schedule, entry.sequence, entry.first);
    }
    for (int32_t position = schedule->running - 1; position >= 0; position--) {
        if (schedule_sequence_at(schedule, schedule_order_of(schedule)[position])->finish !=
            RANK_FINISH_NOT) {
            schedule_leave(schedule, position);
        }
    }
    return status;
}

rank_schedule_draft rank_schedule_drafting(const rank_schedule *schedule, int32_t sequence)
{ /* a draft stands between two tokens that are drawn */
    const sequence_state *s = schedule_sequence_at(schedule, sequence);
    const int32_t most = rank_schedule_tokens_max(&schedule->options, &s->request) - 2;
    const bool begins = s->token_count == s->request.prompt_count && s->token_count < most &&
                        s->token_count < schedule->options.draft_context;
    const int32_t behind = begins || s->may_draft > 0 ? s->token_count - s->followed : 0;
    return (rank_schedule_draft){.followed = s->followed, .behind = behind, .wanted = s->may_draft};
}

void rank_schedule_follow(rank_schedule *schedule, int32_t sequence, int32_t count)
{
    sequence_state *s = schedule_sequence_at(schedule, sequence);
    s->followed += count;
    BASE_ASSERT(s->followed <= s->token_count + s->drafted);
    BASE_ASSERT(s->followed <= schedule->options.draft_context);
}

void rank_schedule_add_draft(rank_schedule *schedule, int32_t sequence, int32_t token)
{
    sequence_state *s = schedule_sequence_at(schedule, sequence);
    BASE_ASSERT(s->drafted < s->may_draft);
    schedule_tokens_of(schedule, sequence)[s->token_count + s->drafted++] = token;
}
