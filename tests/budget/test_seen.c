/* client/seen.h: what several processes remember of the ledger in one file. */
#include "client/seen.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "support.h"

enum { LINE_BYTES = 256 };

/* Does this process wait for a lock of a file? */
static bool waits_for_a_lock(pid_t process)
{
    char line[LINE_BYTES];
    char wanted[64];
    bool found = false;
    FILE *locks = fopen("/proc/locks", "re");
    assert_non_null(locks);
    (void)snprintf(wanted, sizeof wanted, " WRITE %d ", (int)process);
    while (fgets(line, sizeof line, locks) != NULL) {
        found = found || (strstr(line, "->") != NULL && strstr(line, wanted) != NULL);
    }
    (void)fclose(locks);
    return found;
}

/* Another process reads while a row is being written: it must wait, and see all of it. */
static void test_a_reader_waits_for_the_writer(void **state)
{
    base_error error = {0};
    budget_seen writer;
    budget_seen_row row = {.sequence = 7};
    char line[LINE_BYTES];
    int status = 0;
    test_directory *directory = *state;
    const char *path = test_directory_path(directory, "seen");
    assert_ok(budget_seen_open(path, &writer, &error), &error);
    assert_ok(budget_seen_update(&writer, &row, &error), &error);
    const ssize_t line_bytes = pread(writer.fd, line, sizeof line, 0);
    assert_true(line_bytes > 2);
    assert_ok(base_lock_wait(writer.fd, "seen", &error), &error);
    assert_int_equal(ftruncate(writer.fd, line_bytes / 2), 0);
    const pid_t reader = fork();
    assert_true(reader >= 0);
    if (reader == 0) {
        budget_seen seen;
        budget_seen_row got = {0};
        const bool good = budget_seen_open(path, &seen, NULL) == BASE_OK &&
                          budget_seen_read(&seen, &got, NULL) == BASE_OK && got.sequence == 7;
        _exit(good ? 0 : 1);
    }
    pid_t ended = 0;
    const int64_t deadline_ns = base_deadline_after_ns(20 * BASE_NS_PER_S);
    while (ended == 0 && !waits_for_a_lock(reader) && base_now_ns() < deadline_ns) {
        ended = waitpid(reader, &status, WNOHANG);
    }
    assert_int_equal(ended, 0); /* else it has read a half */
    assert_int_equal(pwrite(writer.fd, line, (size_t)line_bytes, 0), line_bytes);
    base_lock_drop(writer.fd);
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    budget_seen_close(&writer);
}

/* A row that is older than what is remembered changes nothing, and a damaged file is not empty. */
static void test_what_is_remembered_stays(void **state)
{
    base_error error = {0};
    budget_seen seen;
    budget_seen_row row = {.sequence = 9};
    test_directory *directory = *state;
    assert_ok(budget_seen_open(test_directory_path(directory, "seen"), &seen, &error), &error);
    assert_ok(budget_seen_update(&seen, &row, &error), &error);
    row.sequence = 8;
    assert_ok(budget_seen_update(&seen, &row, &error), &error);
    assert_ok(budget_seen_read(&seen, &row, &error), &error);
    assert_int_equal(row.sequence, 9);
    assert_int_equal(ftruncate(seen.fd, 10), 0);
    assert_status(budget_seen_read(&seen, &row, &error), BASE_ERR_INVALID);
    budget_seen_close(&seen);
}

/* The first row, of which only a part could be written, leaves no damaged file. */
static void test_no_room_for_the_first_row(void **state)
{
    base_error error = {0};
    budget_seen seen;
    struct rlimit before;
    budget_seen_row row = {.sequence = 9};
    test_directory *directory = *state;
    assert_ok(budget_seen_open(test_directory_path(directory, "seen"), &seen, &error), &error);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 100, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_status(budget_seen_update(&seen, &row, &error), BASE_ERR_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(strstr(error.message, "No space left"));
    assert_ok(budget_seen_read(&seen, &row, &error), &error);
    assert_int_equal(row.sequence, 0);
    row.sequence = 9;
    assert_ok(budget_seen_update(&seen, &row, &error), &error);
    assert_ok(budget_seen_read(&seen, &row, &error), &error);
    assert_int_equal(row.sequence, 9);
    budget_seen_close(&seen);
}

static int setup(void **state)
{
    static test_directory directory;
    test_directory_make(&directory);
    *state = &directory;
    return 0;
}

static int teardown(void **state)
{
    test_directory_remove(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_reader_waits_for_the_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_remembered_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_room_for_the_first_row, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
