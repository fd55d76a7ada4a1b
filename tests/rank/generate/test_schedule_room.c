/* generate/schedule.h where blocks are few: sequences grow, are preempted and go on. That texts
 * stay the same is in test_schedule_histories.c and test_engine.c. */
#include <stdlib.h>
#include <string.h>

#include "generate/requests.h"
#include "support.h"

enum {
    VOCAB = 50,
    CONTEXT = 16,
    SEQUENCES = 4,
    WAITING = 4,
    REQUESTS_MAX = 12,
    STEPS_MAX = 60,
    DRAFT_MAX = 3,
    ROWS_MAX = SEQUENCES * (1 + DRAFT_MAX),
    DRAWN = 7
};

static const rank_schedule_options few = {.sequence_count = SEQUENCES,
                                          .context = CONTEXT,
                                          .block_count = 5,
                                          .block_tokens = 4,
                                          .chunk_tokens = 5,
                                          .vocab_size = VOCAB,
                                          .grows = 1};

typedef struct scene {
    rank_schedule *schedule;
    rank_requests *requests;
    uint64_t record[400];
    rank_schedule_entry entries[SEQUENCES];
    int entry_count;
    rank_schedule_event events[ROWS_MAX];
    int event_count;
    int asked;
    int drawn[REQUESTS_MAX + 1]; /* tokens of each request, by its id, */
    int ended;                   /* and the one that ended last */
} scene;

static void open_scene(scene *s, const rank_schedule_options *options)
{
    memset(s, 0, sizeof *s);
    s->schedule = rank_schedule_init(malloc(rank_schedule_bytes(options)), options);
    s->requests =
        rank_requests_init(malloc(rank_requests_bytes(options, WAITING)), options, WAITING);
    assert_true(rank_schedule_record_bytes_max(options) >= sizeof s->record);
}

static void close_scene(scene *s)
{
    assert_int_equal(rank_blocks_free_count(rank_schedule_blocks(s->schedule)),
                     rank_schedule_get_options(s->schedule)->block_count);
    free(s->schedule);
    free(s->requests);
}

static void submit(scene *s, const int32_t *prompt, int32_t prompt_count, int32_t new_tokens,
                   int32_t scores)
{
    rank_request request = {.sample = {.top_p = 1},
                            .prompt_count = prompt_count,
                            .max_new_tokens = new_tokens,
                            .scores = scores};
    assert_int_equal(rank_requests_submit(s->requests, &request, prompt, NULL), BASE_OK);
    s->asked++;
}

/* A prompt of the tokens 1, 2, 3 and so on. */
static void ask(scene *s, int32_t prompt_count, int32_t new_tokens, int32_t scores)
{
    int32_t prompt[CONTEXT];
    for (int32_t i = 0; i < prompt_count; i++) {
        prompt[i] = i + 1;
    }
    submit(s, prompt, prompt_count, new_tokens, scores);
}

static void step(scene *s)
{
    int32_t tokens[ROWS_MAX];
    const size_t bytes = rank_requests_decide(s->requests, s->schedule, s->record);
    for (int i = 0; i < ROWS_MAX; i++) {
        tokens[i] = DRAWN;
    }
    assert_true(bytes <= sizeof s->record);
    if (bytes > 0) {
        assert_int_equal(
            rank_schedule_apply(s->schedule, s->record, bytes, s->events, &s->event_count, NULL),
            BASE_OK);
    }
    rank_schedule_make_room(s->schedule);
    s->entry_count = rank_schedule_plan(s->schedule, s->entries);
    assert_int_equal(rank_schedule_accept(s->schedule, tokens, s->events, &s->event_count, NULL),
                     BASE_OK);
    for (int i = 0; i < s->event_count; i++) {
        const rank_schedule_event *event = &s->events[i];
        s->drawn[event->request_id] += event->scored == 0 ? 1 : 0;
        s->ended = event->finish != RANK_FINISH_NOT ? (int)event->request_id : s->ended;
    }
}

/* Three sequences, of which only one would fit with all its tokens: they run together, the last one
 * is preempted first, none joins meanwhile, and they end in their order. */
static void the_last_is_preempted_and_goes_on_first(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, &few);
    for (int i = 0; i < 4; i++) {
        ask(&s, 3, 13, 0);
    }
    step(&s); /* a fourth would leave none of the blocks that those before it soon need */
    assert_int_equal(rank_schedule_running(s.schedule), 3);
    int ended = 0;
    int steps = 1;
    bool alone = false;
    for (; ended < 4 && steps < STEPS_MAX; steps++) {
        const int placed = rank_schedule_placed(s.schedule);
        const bool preempted = placed < rank_schedule_running(s.schedule);
        const bool waits = rank_schedule_find(s.schedule, 4) < 0;
        alone = alone || (preempted && placed == 1);
        step(&s);
        assert_true(!preempted || !waits || rank_schedule_find(s.schedule, 4) < 0);
        if (s.ended == ended + 1) {
            ended = s.ended;
            assert_int_equal(s.drawn[ended], 13);
        }
        assert_int_equal(s.ended, ended);
    }
    assert_int_equal(ended, 4);
    assert_true(alone);
    assert_true(rank_schedule_preemptions(s.schedule) > 0);
    close_scene(&s);
}

/* Where nothing grows, one runs after the other, and none is preempted. */
static void what_does_not_grow_is_never_preempted(void **state)
{
    (void)state;
    scene s;
    rank_schedule_options options = few;
    options.grows = 0;
    open_scene(&s, &options);
    for (int i = 0; i < 3; i++) {
        ask(&s, 3, 13, 0);
    }
    for (int steps = 0; s.ended < 3 && steps < STEPS_MAX; steps++) {
        step(&s);
        assert_true(rank_schedule_running(s.schedule) <= 1);
    }
    assert_int_equal(s.ended, 3);
    assert_int_equal(rank_schedule_preemptions(s.schedule), 0);
    close_scene(&s);
}

/* Where there are blocks for as many whole contexts as sequences, a request waits for a sequence
 * only. */
static void with_whole_contexts_nobody_waits_for_blocks(void **state)
{
    (void)state;
    scene s;
    rank_schedule_options options = few;
    options.block_count = SEQUENCES * CONTEXT / options.block_tokens;
    open_scene(&s, &options);
    for (int steps = 0; s.ended < REQUESTS_MAX; steps++) {
        assert_true(steps < STEPS_MAX);
        while (rank_requests_waiting(s.requests) < WAITING && s.asked < REQUESTS_MAX) {
            ask(&s, 3 + s.asked % 9, 13, 0);
        }
        const int wait = rank_requests_waiting(s.requests);
        const int room = SEQUENCES - rank_schedule_running(s.schedule);
        step(&s);
        assert_int_equal(rank_requests_waiting(s.requests), wait > room ? wait - room : 0);
    }
    assert_int_equal(rank_schedule_preemptions(s.schedule), 0);
    close_scene(&s);
}

/* A prompt that scores is preempted half-way: what was told of it is computed again, but told once. */
static void a_scored_prompt_is_told_once(void **state)
{
    (void)state;
    enum { PROMPT = 11 };
    scene s;
    rank_schedule_options options = few;
    options.sequence_count = 2; /* so that a step has room for one of its rows */
    open_scene(&s, &options);
    ask(&s, 3, 8, 0);
    ask(&s, PROMPT, 2, 1);
    int32_t told = 1;
    int32_t again = 0;
    for (int steps = 0; s.ended < 2 && steps < STEPS_MAX; steps++) {
        step(&s);
        for (int i = 0; i < s.event_count; i++) {
            if (s.events[i].scored != 0) {
                assert_int_equal(s.events[i].request_id, 2);
                assert_int_equal(s.events[i].token, ++told);
            }
        }
        for (int i = 0; i < s.entry_count; i++) {
            const bool is_second = s.entries[i].sequence == 1;
            again += is_second && s.entries[i].samples == 0 ? s.entries[i].count : 0;
        }
    }
    assert_int_equal(s.ended, 2);
    assert_int_equal(told, PROMPT);
    assert_true(again > 0 && again < PROMPT - 1);
    assert_int_equal(s.drawn[1], 8);
    assert_int_equal(s.drawn[2], 2);
    assert_int_equal(rank_schedule_preemptions(s.schedule), 1);
    close_scene(&s);
}

/* A cancel takes one that was preempted, and says how often it was. */
static void one_that_was_preempted_can_be_cancelled(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, &few);
    ask(&s, 3, 13, 0);
    ask(&s, 3, 13, 0);
    for (int steps = 0; rank_schedule_preemptions(s.schedule) == 0 && steps < STEPS_MAX; steps++) {
        step(&s);
    }
    assert_int_equal(rank_schedule_placed(s.schedule), 1);
    assert_false(rank_requests_cancel(s.requests, s.schedule, 2));
    const size_t bytes = rank_requests_decide(s.requests, s.schedule, s.record);
    assert_int_equal(
        rank_schedule_apply(s.schedule, s.record, bytes, s.events, &s.event_count, NULL), BASE_OK);
    assert_int_equal(s.event_count, 1);
    assert_int_equal(s.events[0].finish, RANK_FINISH_CANCELLED);
    assert_int_equal(s.events[0].preempted, 1);
    assert_int_equal(rank_schedule_running(s.schedule), 1);
    while (s.ended == 0) {
        step(&s);
    }
    close_scene(&s);
}

/* The older text could draft into the block that the younger one needs for a token: it drafts nothing then. */
static void drafts_preempt_nobody(void **state)
{
    (void)state;
    static const int32_t repeated[] = {DRAWN, DRAWN, DRAWN};
    scene s;
    rank_schedule_options options = few;
    options.block_count = 3;
    options.chunk_tokens = CONTEXT;
    options.draft_max = DRAFT_MAX;
    open_scene(&s, &options);
    submit(&s, repeated, 3, 5, 0);
    ask(&s, 4, 2, 0);
    step(&s); /* now both have a full block */
    assert_int_equal(rank_schedule_placed(s.schedule), 2);
    step(&s);
    assert_int_equal(s.ended, 2);
    assert_int_equal(s.drawn[1], 2);
    for (int steps = 0; s.ended == 2 && steps < STEPS_MAX; steps++) {
        step(&s);
        assert_true(s.entries[0].samples > 1 || steps > 0); /* there is room for a draft again */
    }
    assert_int_equal(s.drawn[1], 5);
    assert_int_equal(rank_schedule_preemptions(s.schedule), 0);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_is_preempted_and_goes_on_first),
        cmocka_unit_test(what_does_not_grow_is_never_preempted),
        cmocka_unit_test(with_whole_contexts_nobody_waits_for_blocks),
        cmocka_unit_test(a_scored_prompt_is_told_once),
        cmocka_unit_test(one_that_was_preempted_can_be_cancelled),
        cmocka_unit_test(drafts_preempt_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
