/* The ranks' flight records in one page: asked for, after a failure, and of a user's program. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "record/flight_page.h"
#include "training.h"

static training_run run; /* its buffers are big */

static json_t *flight_of(int rank)
{
    char name[64];
    (void)snprintf(name, sizeof name, "flight-rank-%d.json", rank);
    return training_json(&run, name);
}

static void asked_for_while_it_trains(void **state)
{
    (void)state;
    test_directory directory;
    test_directory_make(&directory);
    training_start(&run, &directory, "asked", (const char *const[]){"--steps", "100000000", NULL});
    test_program_wait_text(&run.program, TEST_STDERR, "step ");
    assert_int_equal(kill(run.program.pid, SIGUSR1), 0);
    test_program_wait_text(&run.program, TEST_STDERR, "flight.html");
    for (int rank = 0; rank < 2; rank++) {
        json_t *json = flight_of(rank);
        assert_int_equal(json_integer_value(json_object_get(json, "rank")), rank);
        assert_true(json_array_size(json_object_get(json, "completed")) > 0);
        json_decref(json);
    }
    assert_int_equal(kill(run.program.pid, SIGTERM), 0);
    assert_int_equal(test_program_wait(&run.program), 128 + SIGTERM);
    test_program_assert_no_children();
    test_directory_remove(&directory);
}

/* A rank that stands still answers nobody: the others' records tell what they wait for. */
static void asked_for_while_a_rank_is_stopped(void **state)
{
    (void)state;
    test_directory directory;
    test_directory_make(&directory);
    training_start(&run, &directory, "asked", (const char *const[]){"--steps", "100000000", NULL});
    test_program_wait_text(&run.program, TEST_STDERR, "step ");
    const pid_t stopped = training_rank_pid(&run, 1);
    assert_int_equal(kill(stopped, SIGSTOP), 0);
    test_program_wait_text(&run.program, TEST_STDERR, "is stopped by SIGSTOP");
    assert_int_equal(kill(run.program.pid, SIGUSR1), 0);
    test_program_wait_text(&run.program, TEST_STDERR,
                           "1 rank has not answered, the first of them rank 1: stopped");
    test_program_wait_text(&run.program, TEST_STDERR, "flight.html");
    json_decref(flight_of(0));
    assert_int_equal(kill(stopped, SIGCONT), 0);
    assert_int_equal(kill(run.program.pid, SIGTERM), 0);
    assert_int_equal(test_program_wait(&run.program), 128 + SIGTERM);
    test_program_assert_no_children();
    test_directory_remove(&directory);
}

static void after_a_rank_was_killed(void **state)
{
    (void)state;
    test_directory directory;
    test_directory_make(&directory);
    training_start(&run, &directory, "killed", (const char *const[]){"--steps", "100000000", NULL});
    test_program_wait_text(&run.program, TEST_STDERR, "step ");
    char path[64];
    int first = 0;
    int second = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", run.program.pid,
                   run.program.pid);
    FILE *children = fopen(path, "re");
    assert_non_null(children);
    char line[128] = "";
    assert_non_null(fgets(line, sizeof line, children));
    (void)fclose(children);
    char *end = NULL;
    first = (int)strtol(line, &end, 10);
    second = (int)strtol(end, NULL, 10);
    assert_true(first > 1 && second > 1);
    assert_int_equal(kill(second, SIGKILL), 0);
    assert_int_equal(test_program_wait(&run.program), 128 + SIGKILL);
    const char *error_line = strstr(run.program.text[TEST_STDERR], "error: rank 1");
    assert_non_null(error_line);
    assert_non_null(strstr(error_line, "flight.html")); /* the error first, then where to look */
    json_t *json = flight_of(0);
    const char *reason = json_string_value(json_object_get(json, "reason"));
    assert_non_null(strstr(reason, "rank 1"));
    json_decref(json);
    char *page = training_file(&run, "flight.html", NULL);
    assert_non_null(strstr(page, "no record: it was killed"));
    assert_non_null(strstr(page, "was ended by SIGKILL"));
    assert_non_null(strstr(page, "all_reduce float"));
    free(page);
    test_directory_remove(&directory);
}

/* What an earlier attempt has left does not pass for the later one's. */
static void the_page_says_of_which_attempt_it_is(void **state)
{
    (void)state;
    static const char record[] = "{\"rank\":0,\"pending\":[],\"completed\":[]}";
    static const char *const both[] = {record, record};
    static const char *const second[] = {NULL, record};
    test_directory directory;
    base_error error;
    test_directory_make(&directory);
    assert_ok(launch_flight_write(directory.path, both, 2, 1, "because", &error), &error);
    assert_int_equal(access(test_directory_path(&directory, "flight-rank-0.json"), F_OK), 0);
    assert_ok(launch_flight_write(directory.path, second, 2, 2, "because", &error), &error);
    void *page = test_file_read(test_directory_path(&directory, "flight.html"), NULL);
    assert_non_null(strstr(page, "<h1>Flight records of "));
    assert_non_null(strstr(page, strrchr(directory.path, '/') + 1));
    assert_non_null(strstr(page, "Attempt 2 of the job"));
    assert_int_equal(access(test_directory_path(&directory, "flight-rank-0.json"), F_OK), -1);
    assert_int_equal(access(test_directory_path(&directory, "flight-rank-1.json"), F_OK), 0);
    free(page);
    test_directory_remove(&directory);
}

/* The page of these records; the caller frees it. */
static char *page_of(const char *const *records, int ranks)
{
    test_directory directory;
    base_error error;
    test_directory_make(&directory);
    assert_ok(launch_flight_write(directory.path, records, ranks, 0, "because", &error), &error);
    void *page = test_file_read(test_directory_path(&directory, "flight.html"), NULL);
    test_directory_remove(&directory);
    return page;
}

/* Two ranks that disagree, and one that sends no JSON at all. */
static void the_page_shows_which_ranks_disagree(void **state)
{
    (void)state;
    static const char *const records[] = {
        "{\"rank\":0,\"host\":\"a<b\",\"pid\":1,\"pending\":[{\"comm\":\"7\",\"sequence\":2,"
        "\"operation\":\"all_reduce\",\"type\":\"float\",\"reduce\":\"sum\",\"count\":10,"
        "\"root\":0,\"began_unix_us\":100}],\"completed\":[]}",
        "{\"rank\":1,\"host\":\"b\",\"pid\":2,\"pending\":[],\"completed\":[{\"comm\":\"7\","
        "\"sequence\":2,\"operation\":\"broadcast\",\"type\":\"float\",\"reduce\":\"sum\","
        "\"count\":10,\"root\":0,\"began_unix_us\":130,\"took_us\":4.5}]}",
        "not JSON",
        NULL,
    };
    char *page = page_of(records, 4);
    assert_non_null(strstr(page, "because"));
    assert_non_null(strstr(page, "a&lt;b"));
    assert_null(strstr(page, "a<b"));
    assert_non_null(strstr(page, "calls broadcast float × 10"));
    assert_non_null(strstr(page, "; 4.5 µs <span class=\"none\">(began +30 µs)"));
    assert_non_null(strstr(page, "<td>pending: #2 all_reduce float × 10</td>"));
    assert_non_null(strstr(page, "<td>nothing</td>")); /* rank 1 has ended what it began */
    assert_non_null(strstr(page, "<td class=\"none\">no record</td>"));
    assert_null(strstr(page, "not begun"));
    free(page);
}

/* Rank 2 is no member of communicator 8; rank 1 is, and late. */
static void strangers_are_not_late(void **state)
{
    (void)state;
    static const char *const records[] = {
        "{\"rank\":0,\"written_unix_us\":1003000000,\"pending\":[{\"comm\":\"8\",\"sequence\":2,"
        "\"operation\":\"barrier\",\"began_unix_us\":1000000000}],\"completed\":[]}",
        "{\"rank\":1,\"pending\":[],\"completed\":[{\"comm\":\"8\",\"sequence\":1,"
        "\"operation\":\"barrier\",\"began_unix_us\":999999000,\"took_us\":23144}]}",
        "{\"rank\":2,\"pending\":[],\"completed\":[{\"comm\":\"7\",\"sequence\":2,"
        "\"operation\":\"barrier\",\"began_unix_us\":999999000,\"took_us\":4}]}",
    };
    char *page = page_of(records, 3);
    const char *row = strstr(page, "Communicator 8</h2>");
    row = row != NULL ? strstr(row, "<tr><td>#2</td>") : NULL;
    assert_non_null(row);
    assert_non_null(strstr(row, "<td class=\"none\">not begun, or long ago</td><td "
                                "class=\"none\">–</td></tr>"));
    assert_non_null(strstr(page, "<td>23.1 ms</td>"));
    assert_non_null(strstr(page, "began at 1.000 ms, pending for 3000 ms</title>"));
    free(page);
}

/* Parts of different sizes are no mismatch where the counts agree; other counts are one. */
static void parts_may_differ_in_size(void **state)
{
    (void)state;
    static const char *const records[] = {
        "{\"rank\":0,\"pending\":[],\"completed\":[{\"comm\":\"7\",\"sequence\":1,\"operation\":"
        "\"all_gather\",\"type\":\"float\",\"counts\":\"41db82e5\",\"count\":4,\"bytes\":28,"
        "\"root\":0,\"began_unix_us\":100,\"took_us\":5}]}",
        "{\"rank\":1,\"pending\":[],\"completed\":[{\"comm\":\"7\",\"sequence\":1,\"operation\":"
        "\"all_gather\",\"type\":\"float\",\"counts\":\"41db82e5\",\"count\":3,\"bytes\":28,"
        "\"root\":0,\"began_unix_us\":100,\"took_us\":5}]}",
        "{\"rank\":2,\"pending\":[],\"completed\":[{\"comm\":\"7\",\"sequence\":1,\"operation\":"
        "\"all_gather\",\"type\":\"float\",\"counts\":\"00000002\",\"count\":4,\"bytes\":28,"
        "\"root\":0,\"began_unix_us\":100,\"took_us\":5}]}",
    };
    char *page = page_of(records, 2);
    assert_non_null(strstr(page, "<td>all_gather float, 28 bytes in parts 41db82e5</td>"));
    assert_null(strstr(page, "class=\"bad\""));
    free(page);
    page = page_of(records, 3);
    assert_non_null(strstr(page, "calls all_gather float, 28 bytes in parts 00000002"));
    free(page);
}

/* In an all-to-all with counts each rank sends what it likes; without counts it is another call. */
static void pairs_may_have_counts(void **state)
{
    (void)state;
    static const char *const records[] = {
        "{\"rank\":0,\"pending\":[],\"completed\":[{\"comm\":\"7\",\"sequence\":1,\"operation\":"
        "\"alltoall\",\"type\":\"float\",\"counts\":\"pairwise\",\"count\":4,\"bytes\":16,"
        "\"root\":0,\"began_unix_us\":100,\"took_us\":5}]}",
        "{\"rank\":1,\"pending\":[],\"completed\":[{\"comm\":\"7\",\"sequence\":1,\"operation\":"
        "\"alltoall\",\"type\":\"float\",\"counts\":\"pairwise\",\"count\":3,\"bytes\":12,"
        "\"root\":0,\"began_unix_us\":100,\"took_us\":5}]}",
        "{\"rank\":2,\"pending\":[],\"completed\":[{\"comm\":\"7\",\"sequence\":1,\"operation\":"
        "\"alltoall\",\"type\":\"float\",\"count\":4,\"bytes\":48,"
        "\"root\":0,\"began_unix_us\":100,\"took_us\":5}]}",
    };
    char *page = page_of(records, 2);
    assert_non_null(strstr(page, "<td>alltoall float with counts</td>"));
    assert_null(strstr(page, "class=\"bad\""));
    free(page);
    page = page_of(records, 3);
    assert_non_null(strstr(page, "calls alltoall float × 4"));
    free(page);
}

/* The oldest of several pending operations is named; of a rank that waits, for what. */
static void the_page_says_what_each_rank_was_in(void **state)
{
    (void)state;
    static const char *const records[] = {
        "{\"rank\":0,\"pending\":[{\"comm\":\"7\",\"sequence\":3,\"operation\":\"barrier\","
        "\"began_unix_us\":120},{\"comm\":\"7\",\"sequence\":2,\"operation\":\"barrier\","
        "\"began_unix_us\":100}],\"completed\":[]}",
        "{\"rank\":1,\"doing\":\"barrier #2, waiting for rank 0\",\"pending\":[{\"comm\":\"7\","
        "\"sequence\":2,\"operation\":\"barrier\",\"began_unix_us\":100}],\"completed\":[]}",
        NULL,
    };
    char *page = page_of(records, 2);
    assert_non_null(strstr(page, "<td>pending: #2 barrier, and 1 more</td>"));
    assert_non_null(strstr(page, "<td>barrier #2, waiting for rank 0</td>"));
    assert_non_null(strstr(page, "not begun, or long ago")); /* #3, by rank 1 */
    free(page);
}

static double attribute_of(const char *element, const char *name)
{
    const char *at = strstr(element, name);
    assert_non_null(at);
    return strtod(at + strlen(name), NULL);
}

/* Two ranks on one clock. An operation that began 10 ms later in 50 is so much to the right. A
 * pending one is drawn to the right end. Nonsense is left out. */
static void the_timeline_has_one_clock(void **state)
{
    (void)state;
    static const char *const records[] = {
        "{\"rank\":0,\"host\":\"a\",\"pid\":1,\"pending\":[{\"comm\":\"7\",\"sequence\":2,"
        "\"operation\":\"barrier\",\"began_unix_us\":1000050000}],\"completed\":[{\"comm\":\"7\","
        "\"sequence\":1,\"operation\":\"all_reduce\",\"type\":\"float\",\"count\":10,"
        "\"began_unix_us\":1000000000,\"took_us\":20000}]}",
        "{\"rank\":1,\"host\":\"a\",\"pid\":2,\"pending\":[],\"completed\":[{\"comm\":\"7\","
        "\"sequence\":1,\"operation\":\"all_reduce\",\"type\":\"<b>\",\"count\":10,"
        "\"began_unix_us\":1000010000,\"took_us\":10000},{\"comm\":\"7\",\"sequence\":3,"
        "\"operation\":\"broadcast\",\"began_unix_us\":-5,\"took_us\":-1}]}",
        NULL,
    };
    char *page = page_of(records, 3);
    const char *first = strstr(page, "<rect class=\"compute\"");
    const char *second = strstr(first + 1, "<rect class=\"compute\"");
    const char *pending = strstr(page, "<rect class=\"exchange\"");
    assert_true(first != NULL && second != NULL && pending != NULL);
    assert_null(strstr(second + 1, "<rect "));
    const double zero = attribute_of(first, " x=\"");
    const double ms = attribute_of(first, " width=\"") / 20; /* it took 20 ms */
    assert_true(fabs(attribute_of(second, " x=\"") - (zero + 10 * ms)) < 0.1);
    assert_true(fabs(attribute_of(second, " width=\"") - 10 * ms) < 0.1);
    assert_true(fabs(attribute_of(pending, " x=\"") - (zero + 50 * ms)) < 0.1);
    assert_true(fabs(attribute_of(pending, " width=\"") - 5 * ms) < 0.1); /* to the right end */
    assert_non_null(strstr(page, "#1 all_reduce float × 10, communicator 7: began at 0.000 ms, "
                                 "took 20.000 ms</title>"));
    assert_non_null(strstr(page, "began at 50.000 ms, pending</title>"));
    assert_non_null(strstr(page, "no record</text>"));
    assert_null(strstr(page, "<b>"));
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asked_for_while_it_trains),
        cmocka_unit_test(asked_for_while_a_rank_is_stopped),
        cmocka_unit_test(after_a_rank_was_killed),
        cmocka_unit_test(the_timeline_has_one_clock),
        cmocka_unit_test(the_page_says_of_which_attempt_it_is),
        cmocka_unit_test(the_page_shows_which_ranks_disagree),
        cmocka_unit_test(strangers_are_not_late),
        cmocka_unit_test(parts_may_differ_in_size),
        cmocka_unit_test(pairs_may_have_counts),
        cmocka_unit_test(the_page_says_what_each_rank_was_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
