/* Ctrl-C, Ctrl-Z and the rest, sent to a launcher with fake ranks;
 * and one that is killed itself. */
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "fake_job.h"

static test_program program; /* its buffers are big */

static void ctrl_c_ends_after_the_step(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        fake_job_start_endless(&program);
        assert_int_equal(kill(program.pid, signals[i]), 0);
        assert_int_equal(test_program_wait(&program), 128 + signals[i]);
        test_program_assert_no_children();
        assert_non_null(strstr(program.text[TEST_STDERR], "ending after the current step"));
        assert_non_null(strstr(program.text[TEST_STDOUT], "parameters byte-equal")); /* finished */
        struct stat info;
        assert_int_equal(stat(test_shared_path("out/manifest.json"), &info), 0);
    }
}

/* Before the first step no rank would receive a Stop, and there is nothing to save. */
static void ctrl_c_before_the_first_step_ends_at_once(void **state)
{
    (void)state;
    static const char *const points[] = {"FAKE_AT=1", "FAKE_AT=2", "FAKE_AT=3"};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        const int signal_number = i % 2 == 0 ? SIGTERM : SIGINT;
        fake_job_start(&program, FLAGS("--steps", "10"),
                       FLAGS("FAKE_WHAT=ignore-term", "FAKE_RANK=1", points[i], "FAKE_SAY=1"));
        test_program_wait_text(&program, TEST_STDOUT, "here I stay");
        assert_int_equal(kill(program.pid, signal_number), 0);
        assert_int_equal(test_program_wait(&program), 128 + signal_number);
        test_program_assert_no_children();
        assert_non_null(strstr(program.text[TEST_STDERR], "before the first step"));
    }
}

static void a_second_ctrl_c_ends_at_once(void **state)
{
    (void)state;
    /* rank 1 hangs, so that an orderly end never comes */
    fake_job_start(&program, FLAGS("--steps", "10"),
                   FLAGS("FAKE_WHAT=ignore-term", "FAKE_RANK=1", "FAKE_AT=6", "FAKE_LINES=own"));
    test_program_wait_text(&program, TEST_STDOUT, "step 0 of 1");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    test_program_wait_text(&program, TEST_STDERR, "ending after the current step");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&program), 130);
    test_program_assert_no_children();
}

static void ranks_die_with_their_launcher(void **state)
{
    (void)state;
    fake_job_start_endless(&program);
    assert_int_equal(kill(program.pid, SIGKILL), 0);
    assert_int_equal(test_program_wait(&program), 137); /* it returns, so both pipes are closed */
    test_program_wait_no_children();
    /* its locks are gone too: the next job takes the same directory */
    assert_int_equal(fake_job_run(&program, FLAGS("--steps", "2"), NULL), 0);
}

static void a_launcher_killed_early_leaves_no_rank(void **state)
{
    (void)state;
    fake_job_start(&program, FLAGS("--ranks", "4"),
                   FLAGS("FAKE_WHAT=ignore-term", "FAKE_RANK=0", "FAKE_AT=0"));
    assert_int_equal(kill(program.pid, SIGKILL), 0);
    assert_int_equal(test_program_wait(&program), 137);
    test_program_wait_no_children();
}

static void ignored_signals_stay_ignored(void **state)
{
    (void)state;
    fake_job_start_in_shell(&program, "trap '' HUP INT CHLD; exec \"$0\" \"$@\"",
                            FLAGS("--steps", FAKE_ENDLESS), FLAGS("FAKE_LINES=same"));
    test_program_wait_text(&program, TEST_STDOUT, "step 3\n");
    assert_int_equal(kill(program.pid, SIGHUP), 0);
    assert_int_equal(kill(program.pid, SIGINT), 0);
    test_program_wait_text(&program, TEST_STDOUT, "step 60\n");
    assert_int_equal(kill(program.pid, SIGTERM), 0);
    assert_int_equal(test_program_wait(&program), 143);
    test_program_assert_no_children();
    assert_null(strstr(program.text[TEST_STDERR], "SIGHUP"));
    assert_null(strstr(program.text[TEST_STDERR], "Ctrl-C"));
}

/* Waits until a process is stopped, or is not. */
static void wait_stopped(pid_t pid, bool stopped)
{
    const int64_t deadline_ns = base_deadline_after_ns(20 * BASE_NS_PER_S);
    char path[64];
    char state = '?';
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    while ((state == 'T') != stopped || state == '?') {
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
        (void)fclose(file);
        assert_true(base_now_ns() < deadline_ns);
        (void)sched_yield();
    }
}

static void find_ranks(int ranks[2])
{
    char path[64];
    char children[64];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", program.pid, program.pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(children, sizeof children, file));
    (void)fclose(file);
    char *second = NULL;
    ranks[0] = (int)strtol(children, &second, 10);
    ranks[1] = (int)strtol(second, NULL, 10);
    assert_true(ranks[0] > 0 && ranks[1] > 0);
}

/* A stopped rank ends no step, so the user who asks for the end hears of it. */
static void ctrl_c_names_a_stopped_rank(void **state)
{
    (void)state;
    int ranks[2] = {0};
    char stopped[64];
    fake_job_start_endless(&program);
    find_ranks(ranks);
    assert_int_equal(kill(ranks[1], SIGSTOP), 0);
    wait_stopped(ranks[1], true);
    assert_int_equal(kill(program.pid, SIGINT), 0);
    (void)snprintf(stopped, sizeof stopped, ", pid %d, is stopped: SIGSTOP or the like)", ranks[1]);
    test_program_wait_text(&program, TEST_STDERR, stopped);
    assert_non_null(strstr(program.text[TEST_STDERR], "ending after the current step"));
    assert_int_equal(kill(ranks[1], SIGCONT), 0);
    assert_int_equal(test_program_wait(&program), 130);
    test_program_assert_no_children();
}

static void ctrl_z_stops_the_ranks_too(void **state)
{
    (void)state;
    int ranks[2] = {0};
    int status = 0;
    fake_job_start_endless(&program);
    find_ranks(ranks);
    assert_int_equal(kill(program.pid, SIGTSTP), 0);
    assert_int_equal(waitpid(program.pid, &status, WUNTRACED), program.pid);
    assert_true(WIFSTOPPED(status));
    wait_stopped(ranks[0], true);
    wait_stopped(ranks[1], true);
    assert_int_equal(kill(program.pid, SIGCONT), 0);
    wait_stopped(ranks[0], false);
    wait_stopped(ranks[1], false);
    assert_int_equal(kill(program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&program), 130);
    test_program_assert_no_children();
    assert_null(strstr(program.text[TEST_STDERR], "is stopped by"));
    assert_non_null(strstr(program.text[TEST_STDOUT], "byte-equal on all ranks: yes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_JOB_TEST(ctrl_c_ends_after_the_step),
        FAKE_JOB_TEST(ctrl_c_before_the_first_step_ends_at_once),
        FAKE_JOB_TEST(a_second_ctrl_c_ends_at_once),
        FAKE_JOB_TEST(ranks_die_with_their_launcher),
        FAKE_JOB_TEST(a_launcher_killed_early_leaves_no_rank),
        FAKE_JOB_TEST(ignored_signals_stay_ignored),
        FAKE_JOB_TEST(ctrl_c_names_a_stopped_rank),
        FAKE_JOB_TEST(ctrl_z_stops_the_ranks_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
