/* coll-simulate as its users run it. */
#include <stdio.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plot_that_cannot_be_written_is_refused_first),
    };
    return cmocka_run_group_tests_name("coll-simulate-program", tests, NULL, NULL);
}
