/* Impossible data files and options are refused, with file and line if there is one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "data_fixture.h"
#include "limits.h"
#include "random.h"

static void refuse(const data_fixture *fixture, const char *text, const char *reason)
{
    base_error error = {.status = BASE_OK};
    rank_data *data = NULL;
    const rank_data_options options = data_options(fixture, 2, 0, 1);
    data_write(fixture, text);
    const base_status status = rank_data_open(&options, &data, &error);
    assert_null(data);
    if (status != BASE_ERR_INVALID || strstr(error.message, reason) == NULL ||
        strstr(error.message, fixture->path) == NULL) {
        fail_msg("%s: \"%s\", expected \"%s\"", text, error.message, reason);
    }
}

static void malformed_files_are_refused_with_file_and_line(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data *data = NULL;
    refuse(fixture, "", "no sentences");
    refuse(fixture, "\n", "no sentences");
    refuse(fixture, "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"c\"", ":3: not JSON: column");
    refuse(fixture, "{\"text\":\"a\"}\n\n \t\r\n{\"text\":\"b\"}\n{}\n", ":5: no \"text\"");
    refuse(fixture, "{\"text\":\"a\"}\n{\"text\":\"b\"}\nnot json\n", ":3: not JSON: column");
    refuse(fixture, "{\"verb\":\"a\",\"rule\":\"b\"}\n", ":1: no \"text\"");

    /* Other ranks' lines are only counted. */
    data_write(fixture, "{\"text\":\"a\"}\nnot json\n");
    const rank_data_options first = data_options(fixture, 2, 0, 1);
    assert_ok(rank_data_open(&first, &data, &error), &error);
    rank_data_close(data);
    const rank_data_options second = data_options(fixture, 2, 1, 1);
    assert_status(rank_data_open(&second, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, ":2: "));
}

static void a_line_has_a_limit(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data *data = NULL;
    const size_t most = RANK_DATA_LINE_BYTES_MAX;
    char *text = malloc(4 * most);
    assert_non_null(text);
    const rank_data_options options = data_options(fixture, 2, 0, 1);
    for (size_t over = 0; over < 2; over++) {
        /* A short line, one of most + over bytes, and another short one. */
        size_t used = (size_t)snprintf(text, 4 * most, "{\"text\":\"a\"}\n{\"text\":\"");
        const size_t fill = most + over - strlen("{\"text\":\"\"}");
        memset(text + used, 'x', fill);
        used += fill;
        used += (size_t)snprintf(text + used, 4 * most - used, "\"}\n{\"text\":\"c\"}");
        assert_ok(base_file_write(fixture->path, text, used, &error), &error);
        const base_status status = rank_data_open(&options, &data, &error);
        assert_int_equal(status, over ? BASE_ERR_INVALID : BASE_OK);
        assert_true(!over || strstr(error.message, ":2: longer than") != NULL);
        rank_data_close(data);
        data = NULL;
    }
    memset(text, 'x', 4 * most);
    assert_ok(base_file_write(fixture->path, text, 4 * most, &error), &error);
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, ":1: longer than 1048576 bytes: cut it"));
    free(text);
}

static void impossible_files_and_options_are_refused(void **state)
{
    const data_fixture *fixture = *state;
    base_error error;
    rank_data *data = NULL;
    data_write(fixture, "{\"text\":\"a\"}\n");
    rank_data_options options = data_options(fixture, 1, 0, 1);
    options.path = test_directory_path(&fixture->directory, "none");
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_NOTFOUND);
    assert_non_null(strstr(error.message, "none"));
    options.path = fixture->directory.path;
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_IO);
    options.path = test_directory_path(&fixture->directory, "fifo");
    assert_int_equal(mkfifo(options.path, 0600), 0);
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "fifo is not a regular file"));
    options.path = "/dev/null";
    assert_status(rank_data_open(&options, &data, &error), BASE_ERR_IO);
    static const struct {
        int slots, first, here, batch, context;
    } wrong[] = {
        {0, 0, 1, 1, 1},         {1, -1, 1, 1, 1}, {1, 0, 0, 1, 1},          {1, 0, 2, 1, 1},
        {2, 2, 1, 1, 1},         {1, 0, 1, 0, 1},  {1, 0, 1, 1, 0},          {1, 0, 1, 1 << 20, 64},
        {1 << 20, 0, 1, 16, 64}, {1, 0, 1, -1, 4}, {1, 2147483647, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options = data_options(fixture, wrong[i].slots, wrong[i].first, wrong[i].here);
        options.batch = wrong[i].batch;
        options.context = wrong[i].context;
        assert_status(rank_data_open(&options, &data, &error), BASE_ERR_INVALID);
        assert_null(data);
    }
    rank_data_close(NULL);
    rank_pairs_close(NULL);
}

/* Files with a few bytes changed are read or refused, never worse.
 * Seeded, so it can be repeated. */
static void changed_files_are_read_or_refused(void **state)
{
    const data_fixture *fixture = *state;
    static const char good[] = "{\"text\":\"a \xe2\x86\x92 b\",\"wrong\":\"a\",\"right\":\"b\"}\n"
                               "{\"text\":\"he went\"}\n{\"text\":\"c\\u00e9\",\"n\":1}\n";
    uint64_t random = 35000;
    int read_count = 0;
    for (int i = 0; i < 600; i++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (int edit = 0; edit < 1 + i % 3; edit++) {
            text[test_random_below(&random, sizeof good - 1)] = (char)test_random(&random);
        }
        base_error error;
        rank_data *data = NULL;
        const rank_data_options options = data_options(fixture, 1, 0, 1);
        assert_ok(base_file_write(fixture->path, text, sizeof good - 1, &error), &error);
        const base_status status = rank_data_open(&options, &data, &error);
        assert_true(status == BASE_OK || status == BASE_ERR_INVALID);
        if (status == BASE_OK) {
            rank_batch batch;
            data_next_batch(data, 0, &batch);
            assert_true(batch.token_count > 0);
            read_count++;
        }
        rank_data_close(data);
    }
    assert_true(read_count > 0 && read_count < 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_files_are_refused_with_file_and_line),
        cmocka_unit_test(a_line_has_a_limit),
        cmocka_unit_test(impossible_files_and_options_are_refused),
        cmocka_unit_test(changed_files_are_read_or_refused),
    };
    return cmocka_run_group_tests(tests, data_set_up, data_tear_down);
}
