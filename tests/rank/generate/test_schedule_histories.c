/* generate/schedule.h in thousands of random histories. Requests come, are cancelled and end, and
 * are preempted where blocks are few. Rank 0 decides, and two other copies follow. A toy model
 * replaces the real one: each token is a hash of all tokens before it, so that a lost, repeated or
 * foreign token changes everything after it. Its key-value cache remembers of each row the tokens
 * up to it, so that it shows whether a row that is shared is the right one. */
#include <stdlib.h>
#include <string.h>

#include "generate/requests.h"
#include "random.h"
#include "support.h"

enum {
    HISTORIES = 3000,
    COPIES = 3,
    REQUESTS_MAX = 24,
    CONTEXT_MAX = 40,
    SEQUENCES_MAX = 6,
    VOCAB = 50,
    ROWS_MAX = 400,
};

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    return test_random_below(&random_state, below);
}

static uint64_t hash_of(const int32_t *tokens, int32_t count)
{
    uint64_t hash = 14695981039346656037U;
    for (int32_t i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)tokens[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

/* How much of its text the toy model repeats: at one position in so many it looks at all tokens, at the others
 * at the last one; 1: always at all. */
static uint32_t repeats;

static int32_t next_token(const int32_t *tokens, int32_t count)
{
    const int32_t looks_at = (uint32_t)count % repeats == 0 ? count : 1;
    return (int32_t)((hash_of(tokens + count - looks_at, looks_at) >> 20) % VOCAB);
}

/* In all histories. */
static uint64_t tokens_shared;
static uint64_t tokens_drafted;
static uint64_t drafts_cut; /* that were right in part */
static uint64_t drafts_right;
static uint64_t passed; /* requests that waited to share */
static uint64_t preemptions;
static uint64_t computed_anew; /* tokens */

/* The tokens that a request must get, computed without the schedule. */
typedef struct expected {
    rank_request request;
    int32_t prompt[CONTEXT_MAX];
    int32_t made[CONTEXT_MAX];
    int32_t made_count;
    rank_finish finish;
    int32_t got; /* tokens so far */
    int32_t got_after_cancel;
    int answers; /* must be 1 in the end */
    bool submitted;
    bool cancel_asked;
} expected;

static void expect(const rank_schedule_options *options, expected *e)
{
    int32_t tokens[CONTEXT_MAX];
    int32_t count = e->request.prompt_count;
    memcpy(tokens, e->prompt, (size_t)count * sizeof *tokens);
    for (e->finish = RANK_FINISH_NOT; e->finish == RANK_FINISH_NOT;) {
        const int32_t token = next_token(tokens, count);
        tokens[count++] = token;
        e->made[e->made_count++] = token;
        if (e->made_count == e->request.max_new_tokens) {
            e->finish = RANK_FINISH_LENGTH;
        } else if (count == options->context) {
            e->finish = RANK_FINISH_CONTEXT;
        }
        for (int32_t i = 0; i < e->request.stop_count; i++) {
            e->finish = token == e->request.stops[i] ? RANK_FINISH_STOP : e->finish;
        }
    }
}

typedef struct history {
    rank_schedule_options options;
    size_t size_bytes;
    rank_schedule *copies[COPIES];
    rank_requests *requests;
    uint64_t *record;
    size_t record_bytes; /* decided, and not applied yet */
    expected wanted[REQUESTS_MAX];
    int wanted_count;
    int submitted;
    int32_t prompt_max; /* tokens */
    uint64_t last_joined;
    uint64_t cache[ROWS_MAX]; /* the hash of the tokens up to the row's */
} history;

static void start(history *h)
{
    const int32_t context = 2 + (int32_t)draw(CONTEXT_MAX - 1);
    const int32_t block_tokens = 1 + (int32_t)draw(9);
    const int32_t rows = draw(2) == 0 ? ROWS_MAX : 2 * context + 8; /* or few */
    h->options = (rank_schedule_options){
        .sequence_count = 1 + (int32_t)draw(SEQUENCES_MAX),
        .context = context,
        .block_count = 1 + (int32_t)draw((uint32_t)(rows / block_tokens)),
        .block_tokens = block_tokens,
        .chunk_tokens = 1 + (int32_t)draw(12),
        .vocab_size = VOCAB,
        .shares = (int32_t)draw(4) != 0,
        .draft_max = draw(3) == 0 ? 0 : 1 + (int32_t)draw(RANK_DRAFT_TOKENS_MAX),
        .grows = (int32_t)draw(4) != 0,
    };
    repeats = 1 + draw(12);
    h->prompt_max = draw(2) == 0 ? context - 1 : (context + 3) / 4;
    h->size_bytes = rank_schedule_bytes(&h->options);
    for (int i = 0; i < COPIES; i++) {
        void *storage = malloc(h->size_bytes);
        assert_non_null(storage);
        memset(storage, 0x11 * (i + 1), h->size_bytes);
        h->copies[i] = rank_schedule_init(storage, &h->options);
    }
    const int32_t waiting_max = 1 + (int32_t)draw(8);
    h->requests = rank_requests_init(malloc(rank_requests_bytes(&h->options, waiting_max)),
                                     &h->options, waiting_max);
    h->record = malloc(rank_schedule_record_bytes_max(&h->options));
    assert_non_null(h->record);
    h->wanted_count = 1 + (int)draw(REQUESTS_MAX);
}

static void finish(history *h)
{
    for (int i = 0; i < COPIES; i++) {
        free(h->copies[i]);
    }
    free(h->requests);
    free(h->record);
}

static expected *wanted_of(history *h, uint64_t id)
{
    for (int i = 0; i < h->submitted; i++) {
        if (h->wanted[i].submitted && h->wanted[i].request.id == id) {
            return &h->wanted[i];
        }
    }
    fail_msg("request %llu was never submitted", (unsigned long long)id);
    return NULL;
}

/* Lets a prompt begin as an earlier request did, with some of what that was answered; or be the same. */
static void begin_as_another(history *h, expected *e)
{
    if (h->submitted == 0 || draw(3) == 0) {
        return;
    }
    const expected *other = &h->wanted[draw((uint32_t)h->submitted)];
    if (draw(4) == 0) {
        e->request.prompt_count = other->request.prompt_count;
    }
    const int32_t known = other->request.prompt_count + other->made_count;
    const int32_t most = known < e->request.prompt_count ? known : e->request.prompt_count;
    const int32_t same = draw(4) == 0 ? most : 1 + (int32_t)draw((uint32_t)most);
    for (int32_t i = 0; i < same; i++) {
        const int32_t made = i - other->request.prompt_count;
        e->prompt[i] = made < 0 ? other->prompt[i] : other->made[made];
    }
}

static void submit(history *h)
{
    expected *e = &h->wanted[h->submitted];
    const uint64_t last = h->submitted == 0 ? 0 : h->wanted[h->submitted - 1].request.id;
    memset(e, 0, sizeof *e);
    e->request = (rank_request){
        .sample = {.temperature = draw(2), .top_p = 1, .seed = draw(100)},
        .prompt_count = 1 + (int32_t)draw((uint32_t)h->prompt_max),
        .max_new_tokens = 1 + (int32_t)draw(CONTEXT_MAX),
        .stop_count = (int32_t)draw(3),
        .stops = {(int32_t)draw(VOCAB), (int32_t)draw(VOCAB)},
    };
    for (int32_t i = 0; i < e->request.prompt_count; i++) {
        e->prompt[i] = (int32_t)draw(VOCAB);
    }
    begin_as_another(h, e);
    base_error error;
    const base_status status = rank_requests_submit(h->requests, &e->request, e->prompt, &error);
    if (status == BASE_ERR_LIMIT) {
        return; /* the queue is full: later */
    }
    if (status == BASE_ERR_INVALID) { /* alone it would not fit */
        assert_true(rank_schedule_tokens_max(&h->options, &e->request) >
                    h->options.block_count * h->options.block_tokens);
        e->answers = 1;
        e->request.id = last;
    } else {
        assert_int_equal(status, BASE_OK);
        assert_int_equal(e->request.id, last + 1);
        e->submitted = true;
        expect(&h->options, e);
    }
    h->submitted++;
}

static void cancel_one(history *h)
{
    expected *e = &h->wanted[draw((uint32_t)h->submitted)];
    if (!e->submitted) {
        return;
    }
    const int before = rank_requests_waiting(h->requests);
    const bool was_waiting = rank_requests_cancel(h->requests, h->copies[0], e->request.id);
    assert_int_equal(rank_requests_waiting(h->requests), before - was_waiting);
    assert_true(!was_waiting || (e->answers == 0 && e->got == 0));
    e->answers += was_waiting;
    e->cancel_asked = true;
}

static void check_event(history *h, const rank_schedule_event *event)
{
    expected *e = wanted_of(h, event->request_id);
    assert_int_equal(e->answers, 0);
    if (event->finish == RANK_FINISH_CANCELLED) {
        assert_int_equal(event->token, -1);
        assert_true(e->cancel_asked);
    } else {
        assert_true(e->got < e->made_count);
        assert_int_equal(event->token, e->made[e->got]);
        e->got++;
        e->got_after_cancel += e->cancel_asked;
        assert_true(e->got_after_cancel <= /* of the step under way, and of one decided before */
                    2 * (1 + h->options.draft_max));
        assert_int_equal(event->finish, e->got == e->made_count ? e->finish : RANK_FINISH_NOT);
    }
    e->answers += event->finish != RANK_FINISH_NOT;
    assert_true(event->preempted == 0 || event->finish != RANK_FINISH_NOT);
    preemptions += (uint64_t)event->preempted;
}

static void check_copies(const history *h)
{
    for (int i = 1; i < COPIES; i++) {
        assert_memory_equal(h->copies[0], h->copies[i], h->size_bytes);
    }
}

/* Whether an earlier request has the same prompt, which this one may wait for. */
static bool may_wait_to_share(history *h, uint64_t id)
{
    const expected *e = wanted_of(h, id);
    const size_t prompt_bytes = (size_t)e->request.prompt_count * sizeof e->prompt[0];
    for (int i = 0; h->options.shares != 0 && &h->wanted[i] != e; i++) {
        if (h->wanted[i].request.prompt_count == e->request.prompt_count &&
            memcmp(h->wanted[i].prompt, e->prompt, prompt_bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* Every copy applies the record that was decided. */
static void apply(history *h)
{
    if (h->record_bytes == 0) {
        return;
    }
    for (int i = 0; i < COPIES; i++) {
        rank_schedule_event events[SEQUENCES_MAX];
        int count = 0;
        base_error error;
        assert_ok(
            rank_schedule_apply(h->copies[i], h->record, h->record_bytes, events, &count, &error),
            &error);
        for (int e = 0; i == 0 && e < count; e++) {
            check_event(h, &events[e]);
        }
    }
    h->record_bytes = 0;
    check_copies(h);
    /* first come, first served: ids are admitted in order, but for those that wait to share */
    uint64_t newest = h->last_joined;
    for (int32_t sequence = 0; sequence < h->options.sequence_count; sequence++) {
        const rank_request *request = rank_schedule_request(h->copies[0], sequence);
        newest = request != NULL && request->id > newest ? request->id : newest;
    }
    for (uint64_t id = h->last_joined + 1; id < newest; id++) {
        const bool came = rank_schedule_find(h->copies[0], id) >= 0;
        assert_true(came || wanted_of(h, id)->answers == 1 || may_wait_to_share(h, id));
        passed += !came && wanted_of(h, id)->answers == 0;
    }
    h->last_joined = newest;
}

static void decide(history *h)
{
    h->record_bytes = rank_requests_decide(h->requests, h->copies[0], h->record);
    assert_true(h->record_bytes <= rank_schedule_record_bytes_max(&h->options));
}

/* The row of the cache for a reserved position. */
static size_t row_of(const history *h, int32_t sequence, int32_t position)
{
    const rank_blocks *blocks = rank_schedule_blocks(h->copies[0]);
    const int32_t block_tokens = h->options.block_tokens;
    const int32_t index = position / block_tokens;
    const int32_t block = rank_blocks_table(blocks, sequence)[index];
    assert_int_not_equal(block, RANK_BLOCK_NONE);
    return (size_t)(block * block_tokens + position % block_tokens);
}

/* Computes one entry: its rows are written, and all before them must be of the sequence's tokens. */
static void compute(history *h, const rank_schedule_entry *entry)
{
    const rank_schedule *schedule = h->copies[0];
    const int32_t shared = rank_schedule_shared(schedule, entry->sequence);
    int32_t known = 0;
    const int32_t *tokens = rank_schedule_tokens(schedule, entry->sequence, &known);
    assert_true(shared <= entry->first);
    assert_true(shared == 0 || h->options.shares != 0);
    assert_int_equal(shared % h->options.block_tokens, 0);
    tokens_shared += entry->first == shared ? (uint64_t)shared : 0;
    for (int32_t at = 0; at < entry->first + entry->count; at++) {
        const size_t row = row_of(h, entry->sequence, at);
        assert_true(row < ROWS_MAX);
        if (at < entry->first) {
            assert_true(h->cache[row] == hash_of(tokens, at + 1));
        }
        h->cache[row] = hash_of(tokens, at + 1);
    }
}

/* Draws of one entry's rows, and counts what becomes of its draft. */
static int sample(history *h, const rank_schedule_entry *entry, int32_t *drawn)
{
    int32_t known = 0;
    const int32_t *tokens = rank_schedule_tokens(h->copies[0], entry->sequence, &known);
    const int32_t drafted = entry->samples - 1;
    int32_t right = 0;
    if (entry->samples == 0) {
        assert_true(entry->first + entry->count < known);
        return 0;
    }
    assert_int_equal(entry->first + entry->count - drafted, known);
    for (int32_t i = 0; i < entry->samples; i++) {
        drawn[i] = next_token(tokens, known + i);
        right += right == i && i < drafted && drawn[i] == tokens[known + i];
    }
    for (int32_t i = right + 1; i < entry->samples; i++) {
        drawn[i] = -1; /* nobody looks at it */
    }
    tokens_drafted += (uint64_t)drafted;
    drafts_right += drafted > 0 && right == drafted;
    drafts_cut += right > 0 && right < drafted;
    return entry->samples;
}

/* The oldest always has blocks, and nobody joins behind one that has none. */
static void make_room(history *h)
{
    for (int i = 0; i < COPIES; i++) {
        rank_schedule_make_room(h->copies[i]);
    }
    check_copies(h);
    const int running = rank_schedule_running(h->copies[0]);
    const int placed = rank_schedule_placed(h->copies[0]);
    assert_true(placed == running || (placed > 0 && h->options.grows != 0));
    for (int i = 0; i < running; i++) {
        const int32_t sequence = rank_schedule_at(h->copies[0], i);
        const int32_t *table = rank_blocks_table(rank_schedule_blocks(h->copies[0]), sequence);
        assert_int_equal(table[0] != RANK_BLOCK_NONE, i < placed);
    }
}

/* One step of the model; returns how many entries it had. */
static int step(history *h, bool decide_early)
{
    rank_schedule_entry entries[SEQUENCES_MAX];
    rank_schedule_event events[SEQUENCES_MAX + RANK_DRAFT_STEP_MAX];
    int32_t tokens[SEQUENCES_MAX + RANK_DRAFT_STEP_MAX];
    int32_t prompt_tokens = 0;
    int32_t drafted = 0;
    int sampled = 0;
    int event_count = 0;
    if (!decide_early) {
        decide(h);
    }
    apply(h);
    make_room(h);
    const int count = rank_schedule_plan(h->copies[0], entries);
    for (int i = 0; i < count; i++) {
        const rank_request *request = rank_schedule_request(h->copies[0], entries[i].sequence);
        compute(h, &entries[i]);
        const bool is_prompt = entries[i].first < request->prompt_count;
        const bool anew = !is_prompt && entries[i].count != entries[i].samples;
        prompt_tokens += is_prompt || anew ? entries[i].count : 0;
        computed_anew += anew ? (uint64_t)entries[i].count : 0;
        assert_true(!anew || rank_schedule_preemptions(h->copies[0]) > 0);
        drafted += entries[i].samples > 1 ? entries[i].samples - 1 : 0;
        sampled += sample(h, &entries[i], tokens + sampled);
    }
    assert_true(drafted <= rank_schedule_drafts_max(&h->options));
    assert_true(prompt_tokens <= h->options.chunk_tokens);
    if (decide_early) { /* while the step computes; requests may come and go until it is applied */
        decide(h);
        if (h->submitted > 0 && draw(4) == 0) {
            cancel_one(h);
        }
    }
    for (int i = 0; i < COPIES; i++) {
        assert_int_equal(rank_schedule_accept(h->copies[i], tokens, events, &event_count, NULL),
                         BASE_OK);
    }
    assert_true(event_count <= sampled);
    for (int i = 0; i < event_count; i++) {
        check_event(h, &events[i]);
    }
    check_copies(h);
    return count;
}

static void run_history(uint64_t seed)
{
    history h = {0};
    random_state = seed;
    start(&h);
    const bool decide_early = draw(2) != 0;
    const bool cancels = draw(2) != 0;
    while (h.submitted < h.wanted_count) {
        for (uint32_t i = draw(4); i > 0 && h.submitted < h.wanted_count; i--) {
            submit(&h);
        }
        if (cancels && h.submitted > 0 && draw(3) == 0) {
            cancel_one(&h);
        }
        (void)step(&h, decide_early);
    }
    /* nothing more comes: each step must do a piece of the oldest sequence's work */
    int steps_max = 2;
    for (int i = 0; i < h.wanted_count; i++) {
        const rank_request *r = &h.wanted[i].request;
        const int made = h.wanted[i].made_count;
        steps_max += r->prompt_count / h.options.chunk_tokens + 1 + made + 2;
        steps_max += /* computed anew once it is the oldest */
            h.options.grows * ((r->prompt_count + made) / h.options.chunk_tokens + 2);
    }
    while (rank_schedule_running(h.copies[0]) > 0 || rank_requests_waiting(h.requests) > 0 ||
           h.record_bytes > 0) {
        (void)step(&h, decide_early);
        steps_max--;
        assert_true(steps_max > 0);
    }
    for (int i = 0; i < h.wanted_count; i++) {
        const expected *e = &h.wanted[i];
        assert_int_equal(e->answers, 1);
        assert_true(e->cancel_asked || !e->submitted || e->got == e->made_count);
    }
    assert_int_equal(rank_blocks_free_count(rank_schedule_blocks(h.copies[0])),
                     h.options.block_count);
    assert_int_equal(step(&h, false), 0); /* an empty step is a step, too */
    finish(&h);
}

static void random_histories_keep_copies_equal(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
        run_history(seed);
    }
    assert_true(tokens_shared > HISTORIES);
    assert_true(tokens_drafted > HISTORIES);
    assert_true(drafts_right > HISTORIES / 2);
    assert_true(drafts_cut > HISTORIES / 4);
    assert_true(passed > HISTORIES / 100);
    assert_true(preemptions > HISTORIES / 4);
    assert_true(computed_anew > HISTORIES / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_histories_keep_copies_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
