/* Rank 0's queue of requests. Called by engine.c on rank 0, once per step, and when requests are
 * submitted. */
#include "generate/requests.h"

#include <string.h>

#include "base/assert.h"
#include "generate/schedule_record.h"

/* Then the waiting requests (waiting_max), their grammars (waiting_max, grammar_max), ids to cancel and ids that were just admitted
 * (sequence_count each, the former twice), the order (waiting_max), and the prompts (waiting_max,
 * context). */
struct rank_requests {
    rank_schedule_options options;
    int32_t waiting_max;
    int32_t waiting; /* how many at the beginning of the order wait; the entries after them are
                      * free */
    uint64_t last_id;
    uint64_t records;
    int32_t cancel_count;
    int32_t admitted_count; /* by the last record, which may not be applied yet */
};

static rank_request *entries_of(const rank_requests *requests)
{
    return (rank_request *)(void *)((uint8_t *)(uintptr_t)requests + sizeof *requests);
}

static proto_grammar_step *grammar_of(const rank_requests *requests, int32_t entry)
{
    return (proto_grammar_step *)(void *)(entries_of(requests) + requests->waiting_max) +
           (size_t)entry * (size_t)requests->options.grammar_max;
}

static uint64_t *cancels_of(const rank_requests *requests)
{
    return (uint64_t *)(void *)grammar_of(requests, requests->waiting_max);
}

static uint64_t *admitted_of(const rank_requests *requests)
{
    return cancels_of(requests) + 2 * (size_t)requests->options.sequence_count;
}

static int32_t *order_of(const rank_requests *requests)
{
    return (int32_t *)(void *)(admitted_of(requests) + requests->options.sequence_count);
}

static int32_t *prompt_of(const rank_requests *requests, int32_t entry)
{
    return order_of(requests) + requests->waiting_max +
           (size_t)entry * (size_t)requests->options.context;
}

size_t rank_requests_bytes(const rank_schedule_options *options, int32_t waiting_max)
{
    const size_t entry = sizeof(rank_request) +
                         (size_t)options->grammar_max * sizeof(proto_grammar_step) +
                         (1 + (size_t)options->context) * sizeof(int32_t);
    BASE_ASSERT(waiting_max >= 1);
    return sizeof(rank_requests) + (size_t)waiting_max * entry +
           3 * (size_t)options->sequence_count * sizeof(uint64_t);
}

rank_requests *rank_requests_init(void *storage, const rank_schedule_options *options,
                                  int32_t waiting_max)
{
    rank_requests *requests = storage;
    memset(storage, 0, rank_requests_bytes(options, waiting_max));
    requests->options = *options;
    requests->waiting_max = waiting_max;
    for (int32_t i = 0; i < waiting_max; i++) {
        order_of(requests)[i] = i;
    }
    return requests;
}

int32_t rank_requests_waiting(const rank_requests *requests)
{
    return requests->waiting;
}

base_status rank_requests_submit(rank_requests *requests, rank_request *request,
                                 const int32_t *prompt, base_error *reterr)
{
    const base_status status = rank_schedule_check(&requests->options, request, prompt, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (requests->waiting == requests->waiting_max) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%d requests wait already", requests->waiting);
    }
    const int32_t entry = order_of(requests)[requests->waiting++];
    request->id = ++requests->last_id;
    if (request->grammar_count > 0) {
        memcpy(grammar_of(requests, entry), request->grammar, schedule_grammar_bytes(request));
    }
    entries_of(requests)[entry] = *request;
    entries_of(requests)[entry].grammar = NULL;
    memcpy(prompt_of(requests, entry), prompt, (size_t)request->prompt_count * sizeof *prompt);
    return BASE_OK;
}

/* Removes the request at `position` of the queue; its entry becomes free. */
static void take_out(rank_requests *requests, int32_t position)
{
    int32_t *order = order_of(requests);
    const int32_t entry = order[position];
    requests->waiting--;
    memmove(order + position, order + position + 1,
            (size_t)(requests->waiting - position) * sizeof *order);
    order[requests->waiting] = entry;
}

static bool contains(const uint64_t *ids, int32_t count, uint64_t id)
{
    for (int32_t i = 0; i < count; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

bool rank_requests_cancel(rank_requests *requests, const rank_schedule *schedule, uint64_t id)
{
    for (int32_t position = 0; position < requests->waiting; position++) {
        if (entries_of(requests)[order_of(requests)[position]].id == id) {
            take_out(requests, position);
            return true;
        }
    }
    const bool may_run = rank_schedule_find(schedule, id) >= 0 ||
                         contains(admitted_of(requests), requests->admitted_count, id);
    if (may_run && !contains(cancels_of(requests), requests->cancel_count, id)) {
        BASE_ASSERT(requests->cancel_count < 2 * requests->options.sequence_count);
        cancels_of(requests)[requests->cancel_count++] = id;
    }
    return false;
}

/* What will be free in the schedule. */
typedef struct room {
    int32_t sequences;
    int32_t blocks; /* beyond one for each that may grow */
    size_t bytes;   /* of the record */
} room;

/* Writes the ids of cancelled requests that still run. Returns how many. */
static int32_t decide_leaves(rank_requests *requests, const rank_schedule *schedule, uint8_t *to,
                             room *left)
{
    int32_t count = 0;
    for (int32_t i = 0; i < requests->cancel_count; i++) {
        const uint64_t id = cancels_of(requests)[i];
        const int32_t sequence = rank_schedule_find(schedule, id);
        if (sequence < 0) {
            continue; /* it has ended by itself */
        }
        memcpy(to + (size_t)count * sizeof id, &id, sizeof id);
        left->sequences++;
        left->blocks += rank_blocks_held_alone(rank_schedule_blocks(schedule), sequence) +
                        (rank_schedule_may_grow(schedule, sequence) ? 1 : 0);
        left->bytes -= sizeof id;
        count++;
    }
    requests->cancel_count = 0;
    return count;
}

/* Whether the request shares not all whole blocks of its prompt now, but will soon: a sequence computes the same
 * prompt at present, or begins to with this record. */
static bool should_wait(const rank_requests *requests, const rank_schedule *schedule, int32_t entry)
{
    const rank_schedule_options *options = &requests->options;
    const int32_t prompt_count = entries_of(requests)[entry].prompt_count;
    const int32_t *prompt = prompt_of(requests, entry);
    const int32_t whole = (prompt_count - 1) / options->block_tokens;
    const size_t prompt_bytes = (size_t)prompt_count * sizeof *prompt;
    if (options->shares == 0 || entries_of(requests)[entry].scores != 0 ||
        rank_blocks_cached(rank_schedule_blocks(schedule), prompt, prompt_count - 1) == whole) {
        return false;
    }
    for (int32_t i = 0; i < options->sequence_count; i++) {
        int32_t count = 0;
        const rank_request *other = rank_schedule_request(schedule, i);
        const int32_t *tokens = rank_schedule_tokens(schedule, i, &count);
        if (other != NULL && count == prompt_count && other->prompt_count == prompt_count &&
            memcmp(tokens, prompt, prompt_bytes) == 0) {
            return true;
        }
    }
    for (int32_t i = 0; i < requests->admitted_count; i++) { /* they have just become free */
        const int32_t other = order_of(requests)[requests->waiting + i];
        if (entries_of(requests)[other].prompt_count == prompt_count &&
            memcmp(prompt_of(requests, other), prompt, prompt_bytes) == 0) {
            return true;
        }
    }
    return false;
}

static void write_join(const rank_requests *requests, int32_t entry, uint8_t *to)
{
    const rank_request *request = &entries_of(requests)[entry];
    const size_t biases_bytes = schedule_biases_bytes(request);
    const size_t grammar_bytes = schedule_grammar_bytes(request);
    memset(to, 0, schedule_join_bytes(request));
    memcpy(to, request, SCHEDULE_HEAD_BYTES + biases_bytes);
    to += SCHEDULE_HEAD_BYTES + biases_bytes;
    memcpy(to, grammar_of(requests, entry), grammar_bytes);
    memcpy(to + grammar_bytes, prompt_of(requests, entry),
           (size_t)request->prompt_count * sizeof(int32_t));
}

/* Writes the request at *position of the queue, if there is room for it, even where it shares no block. One that only
 * waits to share is passed: *position is then the next. Returns the bytes; 0: nothing was written. */
static size_t decide_join(rank_requests *requests, const rank_schedule *schedule, int32_t *position,
                          uint8_t *to, room *left)
{
    const int32_t entry = order_of(requests)[*position];
    const rank_request *request = &entries_of(requests)[entry];
    const int32_t most = rank_blocks_needed(rank_schedule_blocks(schedule),
                                            rank_schedule_tokens_max(&requests->options, request));
    const int32_t blocks =
        requests->options.grows != 0
            ? rank_blocks_needed(rank_schedule_blocks(schedule), request->prompt_count)
            : most;
    const size_t size_bytes = schedule_join_bytes(request);
    if (left->sequences < 1 || left->blocks < blocks || left->bytes < size_bytes) {
        *position = requests->waiting; /* nobody overtakes it */
        return 0;
    }
    if (should_wait(requests, schedule, entry)) {
        ++*position;
        return 0;
    }
    write_join(requests, entry, to);
    admitted_of(requests)[requests->admitted_count++] = request->id;
    left->sequences--;
    left->blocks -= blocks + (blocks < most ? 1 : 0);
    left->bytes -= size_bytes;
    take_out(requests, *position);
    return size_bytes;
}

size_t rank_requests_decide(rank_requests *requests, const rank_schedule *schedule, void *record)
{
    uint8_t *to = record;
    const int running = rank_schedule_running(schedule);
    room left = {
        .sequences = requests->options.sequence_count - running,
        .blocks = rank_blocks_free_count(rank_schedule_blocks(schedule)) -
                  rank_schedule_growing(schedule),
        .bytes = rank_schedule_record_bytes_max(&requests->options) - sizeof(schedule_record),
    };
    schedule_record header = {.number = requests->records + 1};
    size_t at = sizeof header;
    BASE_ASSERT(requests->records == rank_schedule_records(schedule));
    requests->admitted_count = 0;
    header.leave_count = decide_leaves(requests, schedule, to + at, &left);
    at += (size_t)header.leave_count * sizeof(uint64_t);
    left.sequences = rank_schedule_placed(schedule) < running ? 0 : left.sequences;
    for (int32_t position = 0; position < requests->waiting;) {
        const size_t size_bytes = decide_join(requests, schedule, &position, to + at, &left);
        at += size_bytes;
        header.join_count += size_bytes > 0 ? 1 : 0;
    }
    if (header.leave_count == 0 && header.join_count == 0) {
        return 0;
    }
    requests->records++;
    memcpy(to, &header, sizeof header);
    return at;
}
