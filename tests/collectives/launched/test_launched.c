/* What a program that the launcher starts tells of its failure. This program is also the rank. */
#include <stdio.h>
#include <string.h>

#include "coll/launched.h"
#include "program.h"
#include "support.h"

static test_program program;
static const char *own_path;

/* A rank that fails, and has no coll_error to say why. */
static int fail_without_reason(void)
{
    coll_launched *launched = NULL;
    if (coll_launched_open(&launched, NULL) != COLL_OK) {
        return 2;
    }
    coll_launched_fail(launched, NULL);
    (void)coll_launched_close(launched, NULL);
    return 1;
}

static void test_no_reason_is_no_crash(void **state)
{
    (void)state;
    const char *const arguments[] = {LAUNCHER_PATH, "--ranks", "1", "--no-bind",
                                     "--",          own_path,  NULL};
    static const char *const variables[] = {NULL};
    test_program_start(&program, arguments, variables);
    assert_int_equal(test_program_wait(&program), 1);
    test_program_assert_no_children();
    assert_non_null(strstr(program.text[TEST_STDERR], "failed: it gave no reason"));
}

int main(int argc, char **argv)
{
    if (argc > 0 && coll_launched_here()) {
        return fail_without_reason();
    }
    own_path = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_reason_is_no_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
