/* The model that drafts, without an engine: tokens are accepted and refused by chance. After each step it
 * drafts what a new one drafts that has computed the text at once: its cache has followed. */
#include <stdlib.h>
#include <string.h>

#include "engine_world.h"
#include "random.h"

enum { CHUNK = 7, TEXTS = 3, SEQUENCES = 2 * TEXTS, STEPS = 300, DRAFT = 6 };

/* A schedule with a model that drafts for it. */
typedef struct drafting {
    rank_device device;
    rank_schedule *schedule;
    rank_requests *requests;
    rank_drafter *drafter;
    void *record;
} drafting;

static const rank_schedule_options options = {.sequence_count = SEQUENCES,
                                              .context = LONG_CONTEXT,
                                              .block_count =
                                                  SEQUENCES * LONG_CONTEXT / BLOCK_TOKENS,
                                              .block_tokens = BLOCK_TOKENS,
                                              .chunk_tokens = CHUNK,
                                              .vocab_size = VOCAB,
                                              .shares = 1,
                                              .draft_max = DRAFT,
                                              .draft_context = LONG_CONTEXT};

static void open_drafting(drafting *d, const world *w)
{
    base_error error;
    assert_ok(rank_device_open("cpu", &d->device, &error), &error);
    d->schedule = rank_schedule_init(calloc(1, rank_schedule_bytes(&options)), &options);
    d->requests = rank_requests_init(calloc(1, rank_requests_bytes(&options, SEQUENCES)), &options,
                                     SEQUENCES);
    d->record = calloc(1, rank_schedule_record_bytes_max(&options));
    assert_ok(
        rank_drafter_create(&(rank_drafter_options){.model = &w->drafts[DRAFTER_NEAR],
                                                    .device = &d->device,
                                                    .schedule = d->schedule,
                                                    .table_width = LONG_CONTEXT / BLOCK_TOKENS},
                            &d->drafter, &error),
        &error);
}

static void close_drafting(drafting *d)
{
    rank_drafter_destroy(d->drafter);
    rank_device_close(&d->device);
    free(d->schedule);
    free(d->requests);
    free(d->record);
}

static void begin(drafting *d, const int32_t *text, int32_t count, int32_t most)
{
    base_error error;
    rank_schedule_event events[SEQUENCES];
    int event_count = 0;
    rank_request request = {.prompt_count = count, .max_new_tokens = most, .sample = {.top_p = 1}};
    assert_ok(rank_requests_submit(d->requests, &request, text, &error), &error);
    const size_t bytes = rank_requests_decide(d->requests, d->schedule, d->record);
    if (bytes > 0) { /* else it waits until its beginning is cached */
        assert_ok(rank_schedule_apply(d->schedule, d->record, bytes, events, &event_count, &error),
                  &error);
    }
}

static uint64_t random_state = 5;

static int32_t draw(int32_t below)
{
    return (int32_t)test_random_below(&random_state, (uint32_t)below);
}

/* One step. Of each row the token is the draft's, or by chance another; or `next`, if it is not negative. */
static void step(drafting *d, int32_t next)
{
    base_error error;
    rank_schedule_entry entries[SEQUENCES];
    rank_schedule_event events[SEQUENCES * (1 + DRAFT)];
    int32_t tokens[SEQUENCES * (1 + DRAFT)];
    int event_count = 0;
    int rows = 0;
    const int count = rank_schedule_plan(d->schedule, entries);
    for (int i = 0; i < count; i++) {
        int32_t known = 0;
        const int32_t *text = rank_schedule_tokens(d->schedule, entries[i].sequence, &known);
        const int32_t luck = entries[i].sequence % 3 == 0 ? 3 : 1; /* 1: pauses become long */
        for (int32_t row = 0; row < entries[i].samples; row++) {
            const bool right = row + 1 < entries[i].samples && draw(luck) > 0;
            tokens[rows++] = next >= 0 ? next : right ? text[known + row] : draw(VOCAB);
        }
    }
    assert_ok(rank_schedule_accept(d->schedule, tokens, events, &event_count, &error), &error);
}

/* Drafts for the text's end with a model that has not seen it. Returns how many tokens. */
static int32_t draft_anew(const world *w, const int32_t *text, int32_t count, int32_t *tokens)
{
    base_error error;
    drafting d;
    open_drafting(&d, w);
    begin(&d, text, count - 1, LONG_CONTEXT);
    while (rank_schedule_drafting(d.schedule, 0).wanted == 0) {
        step(&d, text[count - 1]);
    }
    rank_schedule_draft left = {.behind = 1};
    while (left.behind > 0) { /* it has CHUNK and SEQUENCES rows at a time */
        assert_ok(rank_drafter_run(d.drafter, &error), &error);
        const int32_t before = left.followed;
        left = rank_schedule_drafting(d.schedule, 0);
        assert_true(left.followed > before || left.behind <= 0);
    }
    int32_t known = 0;
    const int32_t *all = rank_schedule_tokens(d.schedule, 0, &known);
    assert_int_equal(known, count);
    const int32_t drafted = left.wanted;
    memcpy(tokens, all + count, (size_t)drafted * sizeof *tokens);
    close_drafting(&d);
    return drafted;
}

/* Compares the draft of a text that has one with a new one. Returns whether it has. */
static bool compare(const world *w, const drafting *d, int32_t sequence)
{
    int32_t known = 0;
    int32_t anew[DRAFT];
    const rank_schedule_draft at = rank_schedule_drafting(d->schedule, sequence);
    const int32_t *text = rank_schedule_tokens(d->schedule, sequence, &known);
    const int32_t drafted = at.followed - known + 1;
    if (at.wanted == 0 || drafted < 1) {
        return false;
    }
    const int32_t count = draft_anew(w, text, known, anew);
    for (int32_t i = 0; i < drafted && i < count; i++) {
        assert_int_equal(text[known + i], anew[i]);
    }
    return true;
}

typedef struct text {
    int32_t tokens[LONG_CONTEXT];
    int32_t count;
} text;

/* A running text, or what is left of the last one. */
static void remember(const drafting *d, text *earlier)
{
    const int running = rank_schedule_running(d->schedule);
    if (running > 0 && draw(2) == 0) {
        const int32_t sequence = rank_schedule_at(d->schedule, draw(running));
        const int32_t *tokens = rank_schedule_tokens(d->schedule, sequence, &earlier->count);
        memcpy(earlier->tokens, tokens, (size_t)earlier->count * sizeof *tokens);
    }
}

/* Equal beginnings; or an earlier text, of which some was drafted, and some was never seen by the model that
 * drafts. Returns the number of tokens. */
static int32_t make_prompt(const text *earlier, int32_t *prompt)
{
    const bool goes_on = earlier->count > 0 && draw(3) > 0;
    const int32_t count = goes_on ? earlier->count - draw(earlier->count < 9 ? earlier->count : 9)
                                  : 1 + draw(LONG_CONTEXT - 10);
    for (int32_t k = 0; k < count; k++) {
        prompt[k] = goes_on ? earlier->tokens[k] : k < 2 * BLOCK_TOKENS ? k : draw(VOCAB);
    }
    return count < LONG_CONTEXT - 10 ? count : LONG_CONTEXT - 10;
}

/* How far the model's cache follows each running text. */
static void find_followed(const drafting *d, int32_t followed[SEQUENCES])
{
    memset(followed, 0, SEQUENCES * sizeof *followed);
    for (int p = 0; p < rank_schedule_running(d->schedule); p++) {
        const int32_t sequence = rank_schedule_at(d->schedule, p);
        followed[sequence] = rank_schedule_drafting(d->schedule, sequence).followed;
    }
}

/* Runs the model. Returns the texts that it follows further than it can compute: the rest was cached. */
static int run(const drafting *d)
{
    base_error error;
    int32_t before[SEQUENCES];
    int32_t after[SEQUENCES];
    int cached = 0;
    find_followed(d, before);
    assert_ok(rank_drafter_run(d->drafter, &error), &error);
    find_followed(d, after);
    for (int i = 0; i < SEQUENCES; i++) {
        cached += after[i] - before[i] > CHUNK + SEQUENCES + DRAFT ? 1 : 0;
    }
    return cached;
}

static void a_cache_follows_its_text(void **state)
{
    (void)state;
    static world w;
    text earlier = {.count = 0};
    drafting d;
    int compared = 0;
    int cached = 0;
    world_open(&w, LONG_CONTEXT);
    for (int round = 0; round < 4; round++) {
        int32_t prompt[LONG_CONTEXT];
        open_drafting(&d, &w);
        for (int i = 0; i < STEPS; i++) {
            if (rank_schedule_running(d.schedule) < TEXTS) {
                begin(&d, prompt, make_prompt(&earlier, prompt), 1 + draw(LONG_CONTEXT));
            }
            cached += run(&d);
            for (int p = 0; p < rank_schedule_running(d.schedule); p++) {
                compared += compare(&w, &d, rank_schedule_at(d.schedule, p)) ? 1 : 0;
            }
            remember(&d, &earlier);
            step(&d, -1);
        }
        close_drafting(&d);
    }
    assert_true(compared > 100);
    assert_true(cached > 20);
    world_close(&w);
}

/* A draft stands between two tokens that are drawn: of a text of two the model need not know the prompt. */
static void a_text_without_drafts_is_not_followed(void **state)
{
    (void)state;
    enum { LENGTH = 5 };
    static world w;
    static const int32_t prompt[LENGTH] = {3, 1, 4, 1, 5};
    base_error error;
    world_open(&w, LONG_CONTEXT);
    for (int32_t most = 1; most <= 3; most++) {
        drafting d;
        open_drafting(&d, &w);
        begin(&d, prompt, LENGTH, most);
        assert_ok(rank_drafter_run(d.drafter, &error), &error);
        const rank_schedule_draft at = rank_schedule_drafting(d.schedule, 0);
        assert_int_equal(at.followed, most < 3 ? 0 : LENGTH);
        assert_int_equal(at.behind, 0);
        step(&d, 7);
        if (most == 3) {
            assert_int_equal(rank_schedule_drafting(d.schedule, 0).wanted, 1);
        }
        close_drafting(&d);
    }
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_follows_its_text),
        cmocka_unit_test(a_text_without_drafts_is_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
