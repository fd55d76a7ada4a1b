/* spend.jsonl and the export: every row that counts, once, and in order. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "service_fixture.h"

enum { WAIT_MS = 20 * 1000, FILE_BYTES_MAX = 1 << 20 };

static void count_line(void *user, const char *line)
{
    assert_int_equal(line[0], '{');
    *(int *)user += 1;
}

static void test_spend_and_export(void **state)
{
    enum { RUNS = 5 };
    service_fixture *fixture = *state;
    base_error why;
    char extra[BASE_PATH_BYTES + 64];
    int lines = 0;
    int exported = 0;
    void *data = NULL;
    size_t data_bytes = 0;
    (void)snprintf(extra, sizeof extra, "\"spend\": \"%s/deep/spend.jsonl\"", fixture->dir);
    fixture_write_policy(fixture, extra);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    for (int i = 0; i < RUNS; i++) {
        char label[32];
        (void)snprintf(label, sizeof label, "run-%d", i);
        fixture_begin_run(fixture, label, 3600);
        if (i == 2) { /* what is there is not written again */
            assert_int_equal(fixture_stop(fixture), 0);
            fixture_start(fixture);
        }
    }
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_export(admin, count_line, &exported, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    assert_int_equal(fixture_stop(fixture), 0);
    assert_ok(base_file_read(test_directory_path(&fixture->directory, "deep/spend.jsonl"),
                             FILE_BYTES_MAX, &data, &data_bytes, &why),
              &why);
    for (size_t i = 0; i < data_bytes; i++) {
        lines += ((const char *)data)[i] == '\n' ? 1 : 0;
    }
    free(data);
    assert_true(exported >= RUNS);
    assert_int_equal(lines, exported);
}

static void write_spend_policy(const service_fixture *fixture)
{
    char extra[BASE_PATH_BYTES + 64];
    (void)snprintf(extra, sizeof extra, "\"spend\": \"%s/spend.jsonl\"", fixture->dir);
    fixture_write_policy(fixture, extra);
}

static char *read_spend(const service_fixture *fixture, size_t *bytes)
{
    base_error why;
    void *data = NULL;
    assert_ok(base_file_read(test_directory_path(&fixture->directory, "spend.jsonl"),
                             FILE_BYTES_MAX, &data, bytes, &why),
              &why);
    return data;
}

/* Wherever a crash cuts the file off, it is the same again after the next start. */
static void test_a_cut_spend_line_is_written_anew(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    size_t bytes = 0;
    write_spend_policy(fixture);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    fixture_begin_run(fixture, "run-1", 3600);
    fixture_begin_run(fixture, "run-2", 3600);
    assert_int_equal(fixture_stop(fixture), 0);
    char *whole = read_spend(fixture, &bytes);
    const char *last = (const char *)memrchr(whole, '\n', bytes - 1) + 1;
    const size_t cuts[] = {bytes - 1, bytes - 2, (size_t)(last - whole) + 1, (size_t)(last - whole),
                           3,         0};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        size_t again_bytes = 0;
        assert_ok(base_file_write(test_directory_path(&fixture->directory, "spend.jsonl"), whole,
                                  cuts[i], &why),
                  &why);
        fixture_start(fixture);
        assert_int_equal(fixture_stop(fixture), 0);
        char *again = read_spend(fixture, &again_bytes);
        if (again_bytes != bytes || memcmp(again, whole, bytes) != 0) {
            fail_msg("cut after %zu of %zu bytes, then: %s", cuts[i], bytes, again);
        }
        free(again);
    }
    free(whole);
}

/* Another ledger's rows, or a file of another kind, is neither added to nor cut. */
static void test_a_file_of_others_is_left(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    size_t bytes = 0;
    write_spend_policy(fixture);
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    fixture_begin_run(fixture, "run-1", 3600);
    assert_int_equal(fixture_stop(fixture), 0);
    char *own = read_spend(fixture, &bytes);
    char *later = strndup(own, bytes);
    char *other = strndup(own, bytes);
    assert_non_null(later);
    assert_non_null(other);
    *strstr(later, "\"seq\":") = '\0'; /* the row, of a number that this ledger has not reached */
    char *beyond = NULL;
    assert_true(asprintf(&beyond, "%s\"seq\":9%s", later, own + strlen("{\"seq\":")) > 0);
    memcpy(strstr(other, "run-1"), "run-9", 5); /* the row of that number, of another run */
    const char *const files[] = {"notes", "notes\nwithout an end", "\n", beyond, other};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        size_t left_bytes = 0;
        assert_ok(base_file_write(test_directory_path(&fixture->directory, "spend.jsonl"), files[i],
                                  strlen(files[i]), &why),
                  &why);
        assert_false(fixture_start_with(fixture, NULL, NULL));
        assert_non_null(strstr(fixture->failure, "move it away"));
        char *left = read_spend(fixture, &left_bytes);
        assert_int_equal(left_bytes, strlen(files[i]));
        assert_memory_equal(left, files[i], left_bytes);
        free(left);
    }
    assert_int_equal(unlink(test_directory_path(&fixture->directory, "spend.jsonl")), 0);
    fixture_start(fixture);
    assert_int_equal(fixture_stop(fixture), 0);
    size_t again_bytes = 0;
    char *again = read_spend(fixture, &again_bytes);
    assert_int_equal(again_bytes, bytes);
    assert_memory_equal(again, own, bytes);
    free(again);
    free(beyond);
    free(other);
    free(later);
    free(own);
}

/* Until the file ends without a newline. Such a line is dropped and tried again now and then. */
static void wait_for_cut(const service_fixture *fixture, int watch)
{
    const int64_t deadline_ns = base_deadline_after_ns(WAIT_MS * BASE_NS_PER_MS);
    for (;;) {
        char events[4096];
        size_t bytes = 0;
        struct pollfd waited = {.fd = watch, .events = POLLIN};
        char *text = read_spend(fixture, &bytes);
        const bool is_cut = bytes > 0 && text[bytes - 1] != '\n';
        free(text);
        if (is_cut) {
            return;
        }
        assert_int_equal(poll(&waited, 1, base_deadline_poll_ms(deadline_ns, WAIT_MS)), 1);
        assert_true(read(watch, events, sizeof events) > 0);
    }
}

/* While the disk is full, a line is cut off. When there is room again, it is written anew, with what
 * has come since. */
static void test_spend_goes_on_after_a_full_disk(void **state)
{
    service_fixture *fixture = *state;
    base_error why;
    char setting[BASE_PATH_BYTES + 64];
    char full[BASE_PATH_BYTES];
    size_t bytes = 0;
    int lines = 0;
    int exported = 0;
    (void)snprintf(setting, sizeof setting, "BUDGET_FULL_FILE=%s/spend.jsonl", fixture->dir);
    (void)snprintf(full, sizeof full, "%s",
                   test_directory_path(&fixture->directory, "spend.jsonl.full"));
    write_spend_policy(fixture);
    assert_true(fixture_start_with(fixture, setting, NULL));
    fixture_account(fixture, "phase35", USD(500));
    fixture_begin_run(fixture, "run-1", 3600);
    const int watch = inotify_init1(IN_CLOEXEC);
    assert_true(inotify_add_watch(watch, test_directory_path(&fixture->directory, "spend.jsonl"),
                                  IN_MODIFY) >= 0);
    assert_ok(base_file_write(full, "", 0, &why), &why);
    fixture_begin_run(fixture, "run-2", 3600);
    wait_for_cut(fixture, watch);
    (void)close(watch);
    assert_int_equal(unlink(full), 0);
    fixture_begin_run(fixture, "run-3", 3600);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_export(admin, count_line, &exported, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    assert_int_equal(fixture_stop(fixture), 0);
    char *whole = read_spend(fixture, &bytes);
    for (const char *line = whole; *line != '\0'; lines++) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        assert_int_equal(strncmp(line, "{\"seq\":", 7), 0);
        line = end + 1;
    }
    assert_int_equal(lines, exported);
    free(whole);
}

typedef struct exported_lines {
    int count;
    long sequence; /* of the last one */
} exported_lines;

static void follow_line(void *user, const char *line)
{
    exported_lines *lines = user;
    const char *sequence = strstr(line, "\"seq\":");
    assert_non_null(sequence);
    const long found = strtol(sequence + strlen("\"seq\":"), NULL, 10);
    assert_true(found > lines->sequence);
    lines->sequence = found;
    lines->count++;
}

/* More events than an answer holds: each once, in order. */
static void test_export_goes_on_page_by_page(void **state)
{
    enum { EVENTS = BUDGET_PAGE_MAX + 5 };
    service_fixture *fixture = *state;
    base_error why;
    static budget_grant grant;
    exported_lines lines = {0};
    fixture_write_policy(fixture, "\"token_seconds\": 900");
    fixture_start(fixture);
    fixture_account(fixture, "phase35", USD(500));
    budget_client *client = fixture_client(fixture, "request", 0);
    for (int i = 0; i < EVENTS; i++) {
        char label[32];
        (void)snprintf(label, sizeof label, "run-%d", i);
        const budget_claims ask = fixture_ask("phase35", label, USD(0.1));
        assert_verdict(budget_authorize(client, &ask, &grant, &why), BUDGET_GRANTED, &why);
    }
    budget_client_close(client);
    budget_client *admin = fixture_client(fixture, "admin", 0);
    assert_verdict(budget_export(admin, follow_line, &lines, &why), BUDGET_GRANTED, &why);
    budget_client_close(admin);
    assert_int_equal(lines.count, EVENTS);
}

int main(void)
{
#define SPEND_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        SPEND_TEST(test_spend_and_export),
        SPEND_TEST(test_a_cut_spend_line_is_written_anew),
        SPEND_TEST(test_a_file_of_others_is_left),
        SPEND_TEST(test_spend_goes_on_after_a_full_disk),
        SPEND_TEST(test_export_goes_on_page_by_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
