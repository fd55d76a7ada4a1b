/* generate/schedule.h and requests.h: chunks, cancels, and refused requests and records. Random
 * histories are in test_schedule_histories.c. */
#include <stdlib.h>
#include <string.h>

#include "generate/requests.h"
#include "support.h"

enum { VOCAB = 50 };

static const rank_schedule_options small = {.sequence_count = 3,
                                            .context = 12,
                                            .block_count = 9,
                                            .block_tokens = 4,
                                            .chunk_tokens = 5,
                                            .vocab_size = VOCAB};

/* Two prompts of 7 and 4 tokens share chunks of 5, with a block of 4 for the first. */
static void prompts_share_chunks(void **state)
{
    (void)state;
    const int32_t prompt[7] = {1, 2, 3, 4, 5, 6, 7};
    uint64_t record[200];
    rank_schedule_entry entries[3];
    rank_schedule_event events[3];
    int count = 0;
    rank_schedule *schedule = rank_schedule_init(malloc(rank_schedule_bytes(&small)), &small);
    rank_requests *requests = rank_requests_init(malloc(rank_requests_bytes(&small, 4)), &small, 4);
    for (int i = 0; i < 2; i++) {
        rank_request request = {
            .sample = {.top_p = 1}, .prompt_count = i == 0 ? 7 : 4, .max_new_tokens = 3};
        assert_int_equal(rank_requests_submit(requests, &request, prompt, NULL), BASE_OK);
    }
    const size_t record_bytes = rank_requests_decide(requests, schedule, record);
    assert_int_equal(rank_schedule_apply(schedule, record, record_bytes, events, &count, NULL),
                     BASE_OK);
    const rank_schedule_entry wanted[4][2] = {
        {{0, 0, 4, 0, 0}, {1, 0, 1, 0, 0}},
        {{0, 4, 3, 1, 0}, {1, 1, 2, 0, 0}},
        {{0, 7, 1, 1, 0}, {1, 3, 1, 1, 0}},
        {{0, 8, 1, 1, 0}, {1, 4, 1, 1, 0}},
    };
    for (int i = 0; i < 4; i++) {
        const int32_t tokens[] = {8, 9};
        assert_int_equal(rank_schedule_plan(schedule, entries), 2);
        assert_memory_equal(entries, wanted[i], 2 * sizeof *entries);
        assert_int_equal(rank_schedule_accept(schedule, tokens, events, &count, NULL), BASE_OK);
    }
    assert_int_equal(rank_schedule_running(schedule), 1); /* the first has its three */
    assert_int_equal(events[0].finish, RANK_FINISH_LENGTH);
    free(schedule);
    free(requests);
}

/* Behind two long prompts a short one is computed at once, and they share what it leaves. */
static void a_short_prompt_does_not_wait_for_long_ones(void **state)
{
    (void)state;
    enum { LONG = 40 };
    static const rank_schedule_options options = {.sequence_count = 3,
                                                  .context = LONG + 2,
                                                  .block_count = 40,
                                                  .block_tokens = 4,
                                                  .chunk_tokens = 24,
                                                  .vocab_size = VOCAB};
    static const rank_schedule_entry wanted[2][3] = {
        {{0, 0, 10, 0, 0}, {1, 0, 10, 0, 0}, {2, 0, 3, 1, 0}},
        {{0, 10, 12, 0, 0}, {1, 10, 12, 0, 0}},
    };
    const int32_t prompt[LONG] = {1, 2, 3};
    const int32_t drawn[] = {8};
    uint64_t record[1000];
    rank_schedule_entry entries[3];
    rank_schedule_event events[3];
    int count = 0;
    rank_schedule *schedule = rank_schedule_init(malloc(rank_schedule_bytes(&options)), &options);
    rank_requests *requests =
        rank_requests_init(malloc(rank_requests_bytes(&options, 3)), &options, 3);
    for (int i = 0; i < 3; i++) {
        rank_request request = {
            .sample = {.top_p = 1}, .prompt_count = i < 2 ? LONG : 3, .max_new_tokens = 1};
        assert_int_equal(rank_requests_submit(requests, &request, prompt, NULL), BASE_OK);
    }
    const size_t record_bytes = rank_requests_decide(requests, schedule, record);
    assert_true(record_bytes <= sizeof record);
    assert_int_equal(rank_schedule_apply(schedule, record, record_bytes, events, &count, NULL),
                     BASE_OK);
    for (int i = 0; i < 2; i++) {
        const int entry_count = 3 - i;
        assert_int_equal(rank_schedule_plan(schedule, entries), entry_count);
        assert_memory_equal(entries, wanted[i], (size_t)entry_count * sizeof *entries);
        assert_int_equal(rank_schedule_accept(schedule, drawn, events, &count, NULL), BASE_OK);
        assert_int_equal(count, i == 0 ? 1 : 0);
    }
    free(schedule);
    free(requests);
}

/* A prompt that scores shares no blocks, and gives each of its tokens but the first, with as many rows in a step as
 * other sequences leave; then it draws. */
static void a_prompt_may_be_scored(void **state)
{
    (void)state;
    const int32_t prompt[7] = {1, 2, 3, 4, 5, 6, 7};
    static const rank_schedule_entry wanted[] = {
        {0, 0, 3, 3, 3}, {0, 3, 3, 3, 3}, {0, 6, 1, 1, 0}, {0, 7, 1, 1, 0}};
    const int32_t drawn[] = {8, 9, 10};
    rank_schedule_options options = small;
    uint64_t record[200];
    rank_schedule_entry entry;
    rank_schedule_event events[3];
    int count = 0;
    options.shares = 1;
    rank_schedule *schedule = rank_schedule_init(malloc(rank_schedule_bytes(&options)), &options);
    rank_requests *requests =
        rank_requests_init(malloc(rank_requests_bytes(&options, 4)), &options, 4);
    for (int round = 0; round < 2; round++) { /* at the second all blocks are cached */
        rank_request request = {
            .sample = {.top_p = 1}, .prompt_count = 7, .max_new_tokens = 2, .scores = 1};
        int32_t next = 2;
        assert_int_equal(rank_requests_submit(requests, &request, prompt, NULL), BASE_OK);
        const size_t bytes = rank_requests_decide(requests, schedule, record);
        assert_int_equal(rank_schedule_apply(schedule, record, bytes, events, &count, NULL),
                         BASE_OK);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(rank_schedule_plan(schedule, &entry), 1);
            assert_memory_equal(&entry, &wanted[i], sizeof entry);
            assert_int_equal(rank_schedule_accept(schedule, drawn, events, &count, NULL), BASE_OK);
            assert_int_equal(count, entry.samples);
            for (int k = 0; k < count; k++) {
                assert_int_equal(events[k].row, k);
                assert_int_equal(events[k].scored, i < 2);
                assert_int_equal(events[k].token, i < 2 ? next++ : drawn[0]);
                assert_int_equal(events[k].finish, i == 3 ? RANK_FINISH_LENGTH : RANK_FINISH_NOT);
            }
        }
    }
    free(schedule);
    free(requests);
}

/* Of three equal prompts two wait until the first is computed, and share its whole blocks. A fourth request passes
 * them. With no blocks to share none waits. */
static void equal_prompts_are_computed_once(void **state)
{
    (void)state;
    const int32_t prompt[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    for (int shares = 0; shares < 2; shares++) {
        rank_schedule_options options = small;
        uint64_t record[400];
        rank_schedule_entry entries[4];
        rank_schedule_event events[4];
        int count = 0;
        options.sequence_count = 4;
        options.block_count = 12;
        options.shares = shares;
        rank_schedule *schedule =
            rank_schedule_init(malloc(rank_schedule_bytes(&options)), &options);
        rank_requests *requests =
            rank_requests_init(malloc(rank_requests_bytes(&options, 4)), &options, 4);
        for (int i = 0; i < 4; i++) {
            rank_request request = {
                .sample = {.top_p = 1}, .prompt_count = i == 3 ? 2 : 9, .max_new_tokens = 3};
            assert_int_equal(rank_requests_submit(requests, &request, prompt, NULL), BASE_OK);
        }
        int steps = 0;
        for (; rank_schedule_running(schedule) < 4 && steps < 10; steps++) {
            const int32_t tokens[] = {8, 9, 10, 11};
            const size_t bytes = rank_requests_decide(requests, schedule, record);
            assert_true(bytes > 0 || steps == 1);
            if (bytes > 0) {
                assert_int_equal(rank_schedule_apply(schedule, record, bytes, events, &count, NULL),
                                 BASE_OK);
            }
            if (rank_schedule_running(schedule) < 4) {
                (void)rank_schedule_plan(schedule, entries);
                assert_int_equal(rank_schedule_accept(schedule, tokens, events, &count, NULL),
                                 BASE_OK);
            }
        }
        assert_int_equal(steps, shares != 0 ? 3 : 1); /* two chunks of 5 lie between */
        for (int32_t i = 0; i < 4; i++) {
            const uint64_t id = rank_schedule_request(schedule, i)->id;
            assert_int_equal(id, shares == 0 ? i + 1 : i == 0 ? 1 : i == 1 ? 4 : i);
            assert_int_equal(rank_schedule_shared(schedule, i),
                             shares != 0 && (id == 2 || id == 3) ? 8 : 0);
        }
        free(schedule);
        free(requests);
    }
}

/* One record frees what a cancelled sequence had, and gives it to the next. */
static void a_cancel_makes_room_at_once(void **state)
{
    (void)state;
    const int32_t prompt[4] = {1, 2, 3, 4};
    rank_schedule_options options = small;
    uint64_t record[200];
    rank_schedule_event events[3];
    int count = 0;
    options.sequence_count = 1;
    rank_schedule *schedule = rank_schedule_init(malloc(rank_schedule_bytes(&options)), &options);
    rank_requests *requests =
        rank_requests_init(malloc(rank_requests_bytes(&options, 4)), &options, 4);
    rank_request request = {.sample = {.top_p = 1}, .prompt_count = 4, .max_new_tokens = 8};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rank_requests_submit(requests, &request, prompt, NULL), BASE_OK);
    }
    for (uint64_t id = 1; id <= 2; id++) {
        const size_t record_bytes = rank_requests_decide(requests, schedule, record);
        assert_int_equal(rank_schedule_apply(schedule, record, record_bytes, events, &count, NULL),
                         BASE_OK);
        assert_int_equal(rank_schedule_find(schedule, id), 0);
        assert_int_equal(count, id - 1);
        assert_int_equal(rank_requests_decide(requests, schedule, record), 0);
        assert_false(rank_requests_cancel(requests, schedule, id));
    }
    assert_int_equal(events[0].request_id, 1);
    assert_int_equal(events[0].finish, RANK_FINISH_CANCELLED);
    free(schedule);
    free(requests);
}

static void impossible_requests_are_refused(void **state)
{
    (void)state;
    const int32_t prompt[12] = {0};
    const int32_t wrong_prompt[2] = {3, VOCAB};
    rank_schedule_options options = small;
    options.block_count = 2; /* eight tokens */
    rank_requests *requests =
        rank_requests_init(malloc(rank_requests_bytes(&options, 1)), &options, 1);
    const rank_sample_params greedy = {.top_p = 1};
    const rank_request wrong[] = {
        {.sample = greedy, .prompt_count = 0, .max_new_tokens = 1},
        {.sample = greedy, .prompt_count = 12, .max_new_tokens = 1},
        {.sample = greedy, .prompt_count = 2, .max_new_tokens = 0},
        {.sample = greedy, .prompt_count = 5, .max_new_tokens = 4},
        {.sample = greedy,
         .prompt_count = 1,
         .max_new_tokens = 1,
         .stop_count = RANK_STOP_TOKENS_MAX + 1},
        {.sample = greedy, .prompt_count = 1, .max_new_tokens = 1, .stop_count = -1},
        {.sample = {.top_p = 2}, .prompt_count = 1, .max_new_tokens = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rank_request request = wrong[i];
        assert_status(rank_requests_submit(requests, &request, prompt, NULL), BASE_ERR_INVALID);
    }
    rank_request request = {.sample = greedy, .prompt_count = 2, .max_new_tokens = 6};
    base_error error;
    assert_status(rank_requests_submit(requests, &request, wrong_prompt, &error), BASE_ERR_INVALID);
    assert_string_equal(error.message, "token 1 of the prompt is 50, the vocabulary has 50");
    assert_status(rank_requests_submit(requests, &request, prompt, &error), BASE_OK);
    assert_status(rank_requests_submit(requests, &request, prompt, &error), BASE_ERR_LIMIT);
    free(requests);
}

/* A record that is cut off anywhere is refused; one with a changed byte is refused or does
 * something else, but never leaves the storage (sanitizers look), and a repeated one is refused. */
static void broken_records_are_refused(void **state)
{
    (void)state;
    const int32_t prompt[5] = {1, 2, 3, 4, 5};
    const size_t size_bytes = rank_schedule_bytes(&small);
    uint64_t record[200];
    uint64_t changed[200];
    rank_schedule_event events[3];
    rank_schedule_entry entries[3];
    int count = 0;
    int refused = 0;
    void *storage = malloc(size_bytes);
    assert_non_null(storage);
    rank_schedule *schedule = rank_schedule_init(storage, &small);
    rank_requests *requests = rank_requests_init(malloc(rank_requests_bytes(&small, 4)), &small, 4);
    rank_request request = {.sample = {.top_p = 1}, .prompt_count = 5, .max_new_tokens = 3};
    assert_int_equal(rank_requests_submit(requests, &request, prompt, NULL), BASE_OK);
    assert_int_equal(rank_requests_submit(requests, &request, prompt, NULL), BASE_OK);
    const size_t record_bytes = rank_requests_decide(requests, schedule, record);
    for (size_t bytes = 0; bytes < record_bytes; bytes++) {
        schedule = rank_schedule_init(storage, &small);
        assert_status(rank_schedule_apply(schedule, record, bytes, events, &count, NULL),
                      BASE_ERR_PEER);
    }
    for (size_t at = 0; at < record_bytes; at++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(changed, record, sizeof record);
            ((uint8_t *)changed)[at] ^= (uint8_t)(1 << bit);
            schedule = rank_schedule_init(storage, &small);
            const base_status status =
                rank_schedule_apply(schedule, changed, record_bytes, events, &count, NULL);
            assert_true(status == BASE_OK || status == BASE_ERR_PEER);
            refused += status != BASE_OK;
            if (status == BASE_OK) {
                (void)rank_schedule_plan(schedule, entries);
            }
        }
    }
    assert_true(refused > 500);
    schedule = rank_schedule_init(storage, &small);
    assert_int_equal(rank_schedule_apply(schedule, record, record_bytes, events, &count, NULL),
                     BASE_OK);
    assert_status(rank_schedule_apply(schedule, record, record_bytes, events, &count, NULL),
                  BASE_ERR_PEER);
    free(storage);
    free(requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_share_chunks),
        cmocka_unit_test(a_short_prompt_does_not_wait_for_long_ones),
        cmocka_unit_test(a_prompt_may_be_scored),
        cmocka_unit_test(equal_prompts_are_computed_once),
        cmocka_unit_test(a_cancel_makes_room_at_once),
        cmocka_unit_test(impossible_requests_are_refused),
        cmocka_unit_test(broken_records_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
