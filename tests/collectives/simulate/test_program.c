/* coll-simulate as its users run it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "program.h"
#include "support.h"

static test_program program;

/* Before the first row: a long sweep does not run for nothing. */
static void a_plot_that_cannot_be_written_is_refused_first(void **state)
{
    (void)state;
    test_directory directory;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "none/x.svg");
    const char *const arguments[] = {COLL_SIMULATE_PATH, "-n", "4", "--plot", path, NULL};
    const char *const variables[] = {NULL};
    char wanted[4096];
    test_program_start(&program, arguments, variables);
    assert_int_equal(test_program_wait(&program), 2);
    (void)snprintf(wanted, sizeof wanted,
                   "coll-simulate: error: cannot write %s: No such file or directory\n", path);
    assert_string_equal(program.text[TEST_STDERR], wanted);
    assert_string_equal(program.text[TEST_STDOUT], "");
    test_program_assert_no_children();
    test_directory_remove(&directory);
}

/* A circle for each algorithm and number of ranks, a line for each algorithm. */
static void a_sweep_is_drawn(void **state)
{
    (void)state;
    enum { ALGORITHMS = 6, ROWS = 4 }; /* of 2, 3, 4 and 6 ranks */
    test_directory directory;
    base_error error;
    void *text = NULL;
    size_t bytes = 0;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "x.svg");
    const char *const arguments[] = {COLL_SIMULATE_PATH, "-n", "6", "--plot", path, NULL};
    const char *const variables[] = {NULL};
    test_program_start(&program, arguments, variables);
    assert_int_equal(test_program_wait(&program), 0);
    assert_ok(base_file_read(path, 1 << 20, &text, &bytes, &error), &error);
    assert_int_equal(test_count(text, "<circle"), ALGORITHMS * (ROWS + 1)); /* one in the key */
    assert_int_equal(test_count(text, "<polyline"), ALGORITHMS);
    assert_has(text, ">halving_doubling</text>");
    assert_has(text, ">us (points simulated, lines by formula)</text>");
    free(text);
    test_directory_remove(&directory);
}

/* The page has the picture, a table for each round, and no closing tag too few. */
static void a_trace_is_a_page(void **state)
{
    (void)state;
    test_directory directory;
    base_error error;
    void *text = NULL;
    size_t bytes = 0;
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "ring.html");
    const char *const arguments[] = {
        COLL_SIMULATE_PATH, "--trace", "--algorithm", "ring", "--ranks", "4", "--plot", path, NULL};
    const char *const variables[] = {NULL};
    test_program_start(&program, arguments, variables);
    assert_int_equal(test_program_wait(&program), 0);
    assert_has(program.text[TEST_STDOUT], "all_reduce by ring: 4 ranks, 4 blocks, 6 rounds");
    assert_ok(base_file_read(path, 1 << 20, &text, &bytes, &error), &error);
    assert_has(text, "<h1>all_reduce by ring: 4 ranks, 4 blocks, 6 rounds</h1>");
    assert_has(text, "<caption>round 5</caption>");
    assert_has(text, "<p>In the tables, A0 is what rank 0 has of block A in the beginning, A alone "
                     "the sum of all ranks,\n");
    assert_has(text, "the busiest rank sends 1.50 vectors. In every all-reduce of 4 ranks that is "
                     "2 (n-1)/n = 1.50 at least.");
    assert_has(text, "A = ((A1+A2)+A3)+A0   computed on rank 0, copied to ranks 1 2 3");
    assert_has(text, "</script>\n</body></html>\n");
    free(text);
    test_directory_remove(&directory);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    const char *const arguments[] = {
        "/bin/sh", "-c", "exec " COLL_SIMULATE_PATH " --trace --algorithm ring >/dev/full", NULL};
    const char *const variables[] = {NULL};
    test_program_start(&program, arguments, variables);
    assert_int_equal(test_program_wait(&program), 1);
    assert_string_equal(program.text[TEST_STDERR],
                        "coll-simulate: error: cannot write to standard output\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plot_that_cannot_be_written_is_refused_first),
        cmocka_unit_test(a_sweep_is_drawn),
        cmocka_unit_test(a_trace_is_a_page),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests_name("coll-simulate-program", tests, NULL, NULL);
}
