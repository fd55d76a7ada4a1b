/* Jobs on several hosts that are started again: --max-restarts with --nodes. Ranks, launchers and links fail, and
 * the launchers that are left go on. Needs root for its hosts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "several.h"

enum { STEPS = TEST_HAS_ASAN ? 100 : 300 };

#define SAVED                                                                                      \
    "--ranks", "2", "--transport", "tcp", "--save-every", "10", "--resume", "--keep", "100"
#define ENDLESS SAVED, "--steps", "100000000"

static char steps[16];
static training_run quiet; /* nobody disturbed it */

/* Nobody says that another attempt begins. */
static void assert_not_again(void)
{
    assert_null(strstr(several_runs[0].program.text[TEST_STDERR], "starting again"));
}

static void assert_bits_of_quiet(void)
{
    for (int rank = 0; rank < 2; rank++) {
        char file[64];
        (void)snprintf(file, sizeof file, "state-rank-%d.safetensors", rank);
        training_assert_same_file(&quiet, "state-rank-0.safetensors", &several_runs[0], file);
    }
}

static json_int_t number(const char *key)
{
    json_t *manifest = training_manifest(&several_runs[0]);
    const json_int_t value = json_integer_value(json_object_get(manifest, key));
    json_decref(manifest);
    return value;
}

/* ---- tests ---- */

/* The launchers stay, and the parameters are those of a job that nobody disturbed, with each step once. */
static void killed_ranks_cost_only_time(void **state)
{
    (void)state;
    const several job = SEVERAL("2", SAVED, "--steps", steps, "--max-restarts", "2");
    several_start_gated("ranks", &job, STEPS / 2);
    (void)kill(several_only_child(several_pid(1)), SIGKILL);
    several_wait_says(0, "starting again: attempt 2 of at most 3");
    several_wait_says(1, "this host joins again for the next attempt");
    several_wait_says(0, "--resume: goes on after step ");
    (void)kill(several_only_child(several_pid(0)), SIGKILL);
    training_open_gate(&several_runs[0]);
    several_expect_all(2, 0);
    several_assert_says(0, "starting again: attempt 3 of at most 3");
    several_assert_says(1, "is done");
    assert_bits_of_quiet();
    assert_int_equal(number("steps"), STEPS);
    assert_int_equal(number("attempts"), 3);
    test_program_assert_no_children();
}

/* Its user, or whoever watches over it, starts it again. */
static void a_killed_launcher_may_come_again(void **state)
{
    (void)state;
    const several job = SEVERAL("2", SAVED, "--steps", steps, "--max-restarts", "1");
    several_start_gated("launcher", &job, STEPS / 2);
    several_kill(1);
    training_open_gate(&several_runs[0]);
    several_start(1, &job, several_no_flags); /* it may come before the attempt has ended */
    several_expect_all(2, 0);
    several_assert_says(0, "host host-1 (node 1) is lost: its launcher's connection has ended");
    assert_bits_of_quiet();
    test_program_wait_no_children();
}

/* Another launcher has taken its place when it wakes up. It disturbs nobody. */
static void one_that_wakes_up_late_is_refused(void **state)
{
    (void)state;
    static training_run late;
    const several job = SEVERAL("2", ENDLESS, "--max-restarts", "1", "--host-timeout", "3");
    several_make_key("late");
    several_start_head(&job, "late");
    several_start(1, &job, FLAGS("--join-timeout", "2"));
    several_wait_checkpoint(10);
    (void)kill(several_pid(1), SIGSTOP);
    several_wait_says(0, "host host-1 (node 1) is lost: no heartbeat for");
    several_wait_says(0, "starting again: attempt 2");
    late = several_runs[1];
    several_start(1, &job, several_no_flags);
    several_wait_says(0, "--resume: goes on after step ");
    (void)kill(late.program.pid, SIGCONT);
    assert_int_equal(test_program_wait(&late.program), 2);
    assert_has(late.program.text[TEST_STDERR], "node 1 is in the job already: host host-1");
    (void)kill(several_pid(0), SIGINT);
    several_expect_all(2, 128 + SIGINT);
    assert_null(strstr(several_runs[0].program.text[TEST_STDERR], "attempt 3"));
    test_program_wait_no_children();
}

/* Each side takes the other one for lost, and they find each other again. */
static void a_link_may_be_cut(void **state)
{
    (void)state;
    const several job =
        SEVERAL("2", SAVED, "--steps", steps, "--max-restarts", "2", "--host-timeout", "3");
    several_start_gated("link", &job, STEPS / 2);
    test_hosts_link(0, 1, false);
    training_open_gate(&several_runs[0]);
    several_wait_says(0, "starting again: attempt 2 of at most 3");
    several_wait_says(1, "this host's ranks are ended, and it is called again");
    test_hosts_link(0, 1, true);
    several_expect_all(2, 0);
    assert_bits_of_quiet();
    test_program_assert_no_children();
}

/* All end with the last failure and its exit code. */
static void restarts_are_used_up(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS, "--max-restarts", "1");
    several_start_saving("used-up", &job);
    (void)kill(several_only_child(several_pid(0)), SIGKILL);
    several_wait_says(0, "--resume: goes on after step ");
    (void)kill(several_only_child(several_pid(1)), SIGKILL);
    several_expect_all(2, 128 + SIGKILL);
    several_assert_says(0, "the same command goes on after step ");
    several_assert_says(1, "error: rank 1 (pid ");
    test_program_assert_no_children();
}

static void a_host_that_stays_away_ends_it(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS, "--max-restarts", "5", "--join-timeout", "2");
    several_start_saving("away", &job);
    (void)kill(several_pid(1), SIGKILL);
    several_expect(0, 1);
    several_expect(1, 128 + SIGKILL);
    several_assert_says(0, "1 of 2 hosts have not joined within 2 s: node 1");
    several_assert_says(0, "the same command goes on after step ");
    test_program_wait_no_children();
}

/* The head may have been cut off only, so the other host calls it for a time. */
static void a_killed_head_ends_it(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS, "--max-restarts", "5");
    several_make_key("head");
    several_start_head(&job, "head");
    several_start(1, &job, FLAGS("--join-timeout", "2"));
    several_wait_checkpoint(10);
    several_kill(0);
    several_expect(1, 1);
    several_assert_says(1, "the head at tcp://10.77.0.1:29400 is lost: its connection has ended");
    several_assert_says(1, "no head at tcp://10.77.0.1:29400 within 2 s");
    test_program_wait_no_children();
}

/* A program's failures are its own; what no attempt can help is not tried again. */
static void what_helps_is_tried(void **state)
{
    static const char twice[] = "[ $RANK = 0 ] || [ -e \"$0\" ] || { : >\"$0\"; exit 7; }";
    char file[SEVERAL_PATH_BYTES];
    (void)state;
    several_make_key("tried");
    const several job = SEVERAL("2", NULL);
    (void)snprintf(file, sizeof file, "%s", test_shared_path("been"));
    const char *const program[] = {"--max-restarts", "1", "--", "sh", "-c", twice, file, NULL};
    several_start(0, &job, program);
    several_start(1, &job, program);
    several_expect_all(2, 0);
    several_assert_says(0, "exited with code 7");
    const several wrong = SEVERAL("2", SAVED, "--max-restarts", "5", "--steps", "30", "--lr", "100",
                                  "--weight-decay", "100");
    several_start_hosts("not-finite", &wrong);
    several_expect_all(2, 1);
    several_assert_says(0, "finite");
    assert_not_again();
    test_program_assert_no_children();
}

/* The user may end it while hosts are awaited: also those end that were about to join. */
static void a_user_may_end_it_between_two_attempts(void **state)
{
    (void)state;
    const several job = SEVERAL("3", "--ranks", "3", "--steps", "100000000", "--transport", "tcp",
                                "--save-every", "10", "--resume", "--max-restarts", "5");
    for (int again = 0; again < 2; again++) {
        several_start_all(again == 0 ? "user" : "at-once", &job);
        several_wait_checkpoint(10);
        (void)kill(several_pid(2), SIGKILL);
        several_wait_says(0, "starting again: attempt 2");
        if (again == 0) {
            several_wait_says(0, "for 2 more hosts");
            several_wait_says(1, "this host joins again");
        }
        (void)kill(several_pid(0), SIGINT);
        several_expect_all(2, 128 + SIGINT);
        several_expect(2, 128 + SIGKILL);
        several_assert_says(1, "ended before all hosts had joined again");
        test_program_wait_no_children();
    }
}

/* While an attempt ends, which takes a second where a host is lost: no other one follows. */
static void a_user_may_end_it_while_an_attempt_ends(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS, "--max-restarts", "5", "--join-timeout", "1000");
    for (int i = 0; i < 3; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "ending-%d", i);
        several_start_saving(name, &job);
        several_kill(1);
        if (i > 0) { /* some time within that second, or before it */
            (void)usleep(i * 100 * 1000);
        }
        (void)kill(several_pid(0), SIGINT);
        const int exit_code = test_program_wait(&several_runs[0].program);
        assert_true(exit_code == 1 || exit_code == 128 + SIGINT);
        test_program_wait_no_children();
    }
}

static int set_up(void **state)
{
    (void)test_shared_directory_make(state);
    (void)snprintf(steps, sizeof steps, "%d", STEPS);
    const several job = SEVERAL("2", "--ranks", "2", "--steps", steps);
    several_start_all("quiet", &job);
    several_expect_all(2, 0);
    quiet = several_runs[0];
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_ranks_cost_only_time),
        cmocka_unit_test(a_killed_launcher_may_come_again),
        cmocka_unit_test(one_that_wakes_up_late_is_refused),
        cmocka_unit_test(a_link_may_be_cut),
        cmocka_unit_test(restarts_are_used_up),
        cmocka_unit_test(a_host_that_stays_away_ends_it),
        cmocka_unit_test(a_killed_head_ends_it),
        cmocka_unit_test(what_helps_is_tried),
        cmocka_unit_test(a_user_may_end_it_between_two_attempts),
        cmocka_unit_test(a_user_may_end_it_while_an_attempt_ends),
    };
    const int skipped = test_hosts_skip(TEST_HOSTS_MAX);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, set_up, test_shared_directory_remove);
}
