/* A program that the launcher starts: what it tells of its failure, and how it learns that it shall
 * stop. This program is also the rank. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "coll/launched.h"
#include "program.h"
#include "support.h"

static test_program program;
static const char *own_path;

/* Closes as the examples do, and prints what that returns. */
static int say_close(coll_launched *launched)
{
    coll_error error = {.message = ""};
    const coll_status status = coll_launched_close(launched, &error);
    (void)printf("closed: %s: %s\n", coll_status_name(status), error.message);
    return status == COLL_OK ? 0 : 1;
}

/* A rank that fails with a reason, but for its status. */
static int fail_with_reason(void)
{
    coll_launched *launched = NULL;
    const coll_error error = {.message = "no wind today"};
    if (coll_launched_open(&launched, NULL) != COLL_OK) {
        return 2;
    }
    coll_launched *again = NULL;
    coll_error twice = {.message = ""};
    if (coll_launched_open(&again, &twice) != COLL_ERR_STATE ||
        strstr(twice.message, "has joined its launcher already") == NULL) {
        return 3;
    }
    coll_launched_fail(launched, &error);
    return say_close(launched);
}

/* A rank that fails, and has no coll_error to say why. */
static int fail_without_reason(void)
{
    coll_launched *launched = NULL;
    if (coll_launched_open(&launched, NULL) != COLL_OK) {
        return 2;
    }
    coll_launched_fail(launched, NULL);
    return say_close(launched);
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
    assert_non_null(strstr(program.text[TEST_STDOUT], "closed: wrong state: it gave no reason"));
}

static void test_close_returns_the_failure(void **state)
{
    (void)state;
    const char *const arguments[] = {LAUNCHER_PATH, "--ranks", "1",    "--no-bind",
                                     "--",          own_path,  "fail", NULL};
    static const char *const variables[] = {NULL};
    test_program_start(&program, arguments, variables);
    assert_int_equal(test_program_wait(&program), 1);
    test_program_assert_no_children();
    assert_non_null(strstr(program.text[TEST_STDERR], "failed: no wind today"));
    assert_non_null(strstr(program.text[TEST_STDOUT], "closed: wrong state: no wind today"));
}

/* A rank that works until the user asks for the end. The signal itself it blocks. */
static int work_until_stop(void)
{
    sigset_t interrupt;
    coll_launched *launched = NULL;
    (void)sigemptyset(&interrupt);
    (void)sigaddset(&interrupt, SIGINT);
    if (sigprocmask(SIG_BLOCK, &interrupt, NULL) != 0 ||
        coll_launched_open(&launched, NULL) != COLL_OK) {
        return 2;
    }
    (void)printf(coll_launched_stop_requested(launched) ? "too early\n" : "at work\n");
    (void)fflush(stdout);
    const int64_t deadline_ns = base_deadline_after_ns(30 * BASE_NS_PER_S);
    while (!coll_launched_stop_requested(launched) && base_now_ns() < deadline_ns) {
        (void)sched_yield();
    }
    const bool stopped = coll_launched_stop_requested(launched);
    if (coll_launched_close(launched, NULL) == COLL_OK && stopped) {
        (void)printf("left in order\n");
    }
    return 0;
}

static void test_a_rank_learns_that_it_shall_stop(void **state)
{
    (void)state;
    const char *const arguments[] = {LAUNCHER_PATH, "--ranks", "1",    "--no-bind",
                                     "--",          own_path,  "stop", NULL};
    static const char *const variables[] = {NULL};
    test_program_start(&program, arguments, variables);
    test_program_wait_text(&program, TEST_STDOUT, "at work");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&program), 128 + SIGINT);
    test_program_assert_no_children();
    assert_non_null(strstr(program.text[TEST_STDOUT], "left in order"));
}

int main(int argc, char **argv)
{
    if (argc > 0 && coll_launched_here()) {
        const char *what = argc > 1 ? argv[1] : "";
        return strcmp(what, "stop") == 0   ? work_until_stop()
               : strcmp(what, "fail") == 0 ? fail_with_reason()
                                           : fail_without_reason();
    }
    own_path = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_reason_is_no_crash),
        cmocka_unit_test(test_close_returns_the_failure),
        cmocka_unit_test(test_a_rank_learns_that_it_shall_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
