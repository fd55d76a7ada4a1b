/* generate/draft.h: what is looked up, and the pace. */
#include <stdlib.h>
#include <string.h>

#include "generate/draft.h"
#include "support.h"

enum { MOST = 16, TEXT_MAX = 64 };

/* Looks for the longest end that stands before, as the header says it. */
static int32_t find_slowly(const int32_t *tokens, int32_t count)
{
    for (int32_t same = RANK_DRAFT_SAME_TOKENS; same >= 1; same--) {
        for (int32_t from = count - same - 1; from >= 0; from--) {
            if (memcmp(tokens + from, tokens + count - same, (size_t)same * sizeof *tokens) == 0) {
                return from + same;
            }
        }
    }
    return -1;
}

static void an_end_that_stood_before_is_followed_by_the_same(void **state)
{
    (void)state;
    static const struct {
        int32_t text[12];
        int32_t count;
        int32_t draft[5];
        int32_t drafted;
    } cases[] = {
        {{5, 6, 7, 8, 9, 5, 6, 7}, 8, {8, 9, 5, 6, 7}, 5},           /* three */
        {{6, 7, 1, 7, 2, 6, 7}, 7, {1, 7, 2, 6, 7}, 5},              /* two, farther than one */
        {{7, 1, 7, 2, 3, 7}, 6, {2, 3, 7, 2, 3}, 5},                 /* one: the latest */
        {{1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 3}, 11, {8, 1, 2, 3, 8}, 5}, /* three: the latest */
        {{4, 4}, 2, {4, 4, 4, 4, 4}, 5},                             /* into itself */
        {{1, 2, 1}, 3, {2, 1, 2, 1, 2}, 5},
        {{1, 2, 3, 4}, 4, {0}, 0},
        {{1}, 1, {0}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t text[12 + 5] = {0};
        memcpy(text, cases[i].text, sizeof cases[i].text);
        assert_int_equal(rank_draft_find(text, cases[i].count, 5), cases[i].drafted);
        assert_memory_equal(text, cases[i].text, (size_t)cases[i].count * sizeof *text);
        assert_memory_equal(text + cases[i].count, cases[i].draft,
                            (size_t)cases[i].drafted * sizeof *text);
    }
}

static void every_text_is_looked_up_as_said(void **state)
{
    (void)state;
    int found = 0;
    srand(1);
    for (int round = 0; round < 20000; round++) {
        int32_t text[TEXT_MAX + MOST];
        int32_t before[TEXT_MAX];
        const int32_t count = 1 + rand() % TEXT_MAX;
        const int32_t most = rand() % (MOST + 1);
        const int32_t kinds = 1 + rand() % 40;
        for (int32_t i = 0; i < TEXT_MAX + MOST; i++) {
            text[i] = i < count ? rand() % kinds : -1;
        }
        memcpy(before, text, sizeof before);
        const int32_t from = find_slowly(text, count);
        const int32_t drafted = rank_draft_find(text, count, most);
        assert_int_equal(drafted, from < 0 ? 0 : most);
        assert_memory_equal(text, before, (size_t)count * sizeof *text);
        for (int32_t i = 0; i < drafted; i++) {
            assert_int_equal(text[count + i], text[from + i]);
        }
        for (int32_t i = count + drafted; i < TEXT_MAX + MOST; i++) {
            assert_int_equal(text[i], -1);
        }
        found += from >= 0 && from < count ? 1 : 0;
    }
    assert_in_range(found, 5000, 19000);
}

/* Drafts that are right become longer, up to the most; one that is right in part is followed by one of
 * that length and one more. */
static void right_drafts_become_longer(void **state)
{
    (void)state;
    static const int32_t lengths[] = {2, 4, 8, 10, 10};
    rank_draft_pace pace = {0};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        assert_int_equal(rank_draft_length(&pace, 10), lengths[i]);
        rank_draft_learn(&pace, lengths[i], lengths[i], 0);
    }
    assert_int_equal(rank_draft_length(&pace, 10), 10);
    rank_draft_learn(&pace, 10, 3, 0);
    assert_int_equal(rank_draft_length(&pace, 10), 4);
    assert_int_equal(rank_draft_length(&(rank_draft_pace){0}, 1), 1);
    assert_int_equal(rank_draft_length(&(rank_draft_pace){0}, 0), 0);
}

/* Where no draft is ever right, one step in 32 checks one token more. */
static void wrong_drafts_become_rare(void **state)
{
    (void)state;
    static const int pauses[] = {1, 3, 7, 15, 31, 31, 31};
    rank_draft_pace pace = {0};
    int32_t length = rank_draft_length(&pace, MOST);
    for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
        assert_int_equal(length, i == 0 ? 2 : 1);
        rank_draft_learn(&pace, length, 0, 0);
        for (int step = 0; step < pauses[i]; step++) {
            assert_int_equal(rank_draft_length(&pace, MOST), 0);
        }
        length = rank_draft_length(&pace, MOST);
    }
    rank_draft_learn(&pace, length, 1, 0); /* one that was right ends it */
    assert_int_equal(rank_draft_length(&pace, MOST), 2);
    rank_draft_learn(&pace, 2, 0, 0);
    assert_int_equal(rank_draft_length(&pace, MOST), 0);
    assert_int_equal(rank_draft_length(&pace, MOST), 1);
}

/* A model's first misses in a row make its draft short, and only the next ones make a pause. */
static void a_model_may_miss(void **state)
{
    (void)state;
    static const int pauses[] = {0, 0, 0, 1, 3, 7, 15, 31, 31};
    rank_draft_pace pace = {0};
    for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
        assert_int_equal(rank_draft_length(&pace, MOST), i == 0 ? 2 : 1);
        rank_draft_learn(&pace, i == 0 ? 2 : 1, 0, RANK_DRAFT_MODEL_MISSES);
        for (int step = 0; step < pauses[i]; step++) {
            assert_int_equal(rank_draft_length(&pace, MOST), 0);
        }
    }
    assert_int_equal(rank_draft_length(&pace, MOST), 1);
    rank_draft_learn(&pace, 1, 1, RANK_DRAFT_MODEL_MISSES);
    rank_draft_learn(&pace, 2, 0, RANK_DRAFT_MODEL_MISSES);
    assert_int_equal(rank_draft_length(&pace, MOST), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_that_stood_before_is_followed_by_the_same),
        cmocka_unit_test(every_text_is_looked_up_as_said),
        cmocka_unit_test(right_drafts_become_longer),
        cmocka_unit_test(wrong_drafts_become_rare),
        cmocka_unit_test(a_model_may_miss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
