/* rank_pairs: wrong and right sentences, divided among ranks. */
#include <string.h>

#include "data_fixture.h"

static void pairs_are_shared_out(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    const char *wrong = NULL;
    const char *right = NULL;
    rank_pairs *pairs = NULL;
    data_write(fixture, "{\"text\":\"a \xe2\x86\x92 b\",\"wrong\":\"a\",\"right\":\"b\"}\n\n"
                        "{\"text\":\"c \xe2\x86\x92 \",\"wrong\":\"c\",\"right\":\"\"}\n"
                        "{\"text\":\"e \\u2192 f\",\"wrong\":\"e\",\"right\":\"f\"}\n");
    assert_ok(rank_pairs_open(fixture->path, 0, 2, &pairs, &error), &error);
    assert_int_equal(rank_pairs_count(pairs), 2);
    rank_pairs_get(pairs, 0, &wrong, &right);
    assert_string_equal(wrong, "a");
    assert_string_equal(right, "b");
    rank_pairs_get(pairs, 1, &wrong, &right);
    assert_string_equal(wrong, "e");
    assert_string_equal(right, "f");
    rank_pairs_close(pairs);
    assert_ok(rank_pairs_open(fixture->path, 1, 2, &pairs, &error), &error);
    assert_int_equal(rank_pairs_count(pairs), 1);
    rank_pairs_close(pairs);
    assert_ok(rank_pairs_open(fixture->path, 7, 8, &pairs, &error), &error);
    assert_int_equal(rank_pairs_count(pairs), 0);
    rank_pairs_close(pairs);

    data_write(fixture, "{\"wrong\":\"a\",\"right\":\"b\"}\n{\"text\":\"a\"}\n");
    assert_status(rank_pairs_open(fixture->path, 0, 1, &pairs, &error), BASE_ERR_INVALID);
    assert_null(pairs);
    assert_non_null(strstr(error.message, "data.jsonl:2: no \"wrong\""));
    /* a file of something else has none, for each rank */
    data_write(fixture, "{\"text\":\"a\"}\n{\"wrong\":\"a\",\"right\":\"b\"}\n");
    for (int rank = 0; rank < 2; rank++) {
        assert_ok(rank_pairs_open(fixture->path, rank, 2, &pairs, &error), &error);
        assert_int_equal(rank_pairs_count(pairs), 0);
        rank_pairs_close(pairs);
    }
    data_write(fixture, "");
    assert_status(rank_pairs_open(fixture->path, 0, 1, &pairs, &error), BASE_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_shared_out),
    };
    return cmocka_run_group_tests(tests, data_set_up, data_tear_down);
}
