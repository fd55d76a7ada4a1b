/* What is kept of a failed job's ranks: its own output, and nothing of an earlier job's. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/rank_logs.h"
#include "support.h"

static void write_logs(int ranks, const char *text)
{
    launch_rank_logs logs = {.begun = false};
    for (int rank = 0; rank < ranks; rank++) {
        launch_rank_logs_write(&logs, test_shared_path("out"), false, rank, text, strlen(text));
        assert_string_equal(logs.directory, test_shared_path("out.failed"));
    }
}

static void check_log(const char *name, const char *text)
{
    char found[64];
    FILE *file = fopen(test_shared_path(name), "r");
    assert_non_null(file);
    assert_non_null(fgets(found, sizeof found, file));
    assert_string_equal(found, text);
    (void)fclose(file);
}

static void a_job_with_fewer_ranks_leaves_only_its_own(void **state)
{
    base_error error;
    (void)state;
    write_logs(3, "first");
    check_log("out.failed/rank-2.log", "first");
    assert_ok(base_file_write(test_shared_path("out.failed/rank-one.log"), "kept", 4, &error),
              &error);
    write_logs(2, "second");
    check_log("out.failed/rank-0.log", "second");
    check_log("out.failed/rank-1.log", "second");
    assert_int_equal(access(test_shared_path("out.failed/rank-2.log"), F_OK), -1);
    check_log("out.failed/rank-one.log", "kept");
}

static void without_a_directory_nothing_is_kept(void **state)
{
    launch_rank_logs logs = {.begun = false};
    (void)state;
    launch_rank_logs_write(&logs, "", false, 0, "text", 4);
    assert_string_equal(logs.directory, "");
    char name[BASE_PATH_BYTES + 8];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    launch_rank_logs_write(&logs, name, false, 0, "text", 4); /* a warning */
    assert_string_equal(logs.directory, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_with_fewer_ranks_leaves_only_its_own),
        cmocka_unit_test(without_a_directory_nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
