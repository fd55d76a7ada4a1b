/* Faults of a job on several hosts: killed launchers and ranks, cut links, stopped processes, and
 * users who end it. Nothing is left on any host. Needs root for its hosts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "several.h"

#define ENDLESS "--ranks", "2", "--steps", "100000000", "--transport", "tcp"

/* Starts both hosts, and waits until they train. */
static void start_two(const char *name, const several *job)
{
    several_start_all(name, job);
    several_wait_says(0, "step 1/");
}

/* Kills that node's launcher; the other one ends with 1, and says why. */
static void kill_launcher(int node, const char *says)
{
    const several job = SEVERAL("2", ENDLESS);
    start_two(node == 0 ? "head" : "agent", &job);
    several_kill(node);
    several_expect(1 - node, 1);
    several_assert_says(1 - node, says);
    test_program_wait_no_children();
}

static void a_killed_agent_is_a_lost_host(void **state)
{
    (void)state;
    kill_launcher(1, "error: host host-1 (node 1) is lost: its launcher's connection has ended");
}

/* A host is lost, and its launcher is started again at once. Whether that was refused: on a busy
 * machine the head may have ended before. */
static bool comes_back_too_late(void)
{
    const several job = SEVERAL("2", NULL);
    static const char until_killed[] =
        "trap : TERM; echo $RANK is up; while :; do sleep 0.05; done";
    const char *const flags[] = {"--join-timeout", "3", "--", "sh", "-c", until_killed, NULL};
    several_start(0, &job, flags);
    several_start(1, &job, flags);
    test_program_wait_text(&several_runs[0].program, TEST_STDOUT, "[rank 1] 1 is up");
    several_kill(1);
    several_start(1, &job, flags);
    const int exit_code = test_program_wait(&several_runs[1].program);
    several_expect(0, 1);
    several_assert_says(0, "host host-1 (node 1) is lost: its launcher's connection has ended");
    test_program_wait_no_children();
    const bool refused_it = exit_code == 2;
    several_assert_says(1, refused_it ? "node 1 (host host-1) was given up" : "no head at ");
    return refused_it;
}

static void a_host_that_was_given_up_does_not_come_back(void **state)
{
    (void)state;
    bool seen = false;
    several_make_key("again");
    for (int i = 0; i < 10 && !seen; i++) {
        seen = comes_back_too_late();
    }
    assert_true(seen);
}

static void a_killed_head_ends_all(void **state)
{
    (void)state;
    kill_launcher(0, "error: the head at tcp://10.77.0.1:29400 is lost: its connection has "
                     "ended; this host's ranks are ended");
}

static void a_killed_rank_is_named(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS);
    for (int node = 0; node < 2; node++) {
        char says[64];
        start_two(node == 0 ? "rank-0" : "rank-1", &job);
        const pid_t rank = several_only_child(several_pid(node));
        (void)kill(rank, SIGKILL);
        several_expect_all(2, 128 + SIGKILL);
        (void)snprintf(says, sizeof says, "rank %d (pid %d) was ended by SIGKILL", node, rank);
        several_assert_says(0, says);
        several_assert_says(1, says);
        test_program_assert_no_children();
    }
}

static void an_exit_code_comes_through(void **state)
{
    (void)state;
    several_make_key("exit");
    const several job = SEVERAL("2", NULL);
    const char *const flags[] = {"--", "sh", "-c", "[ $RANK = 0 ] && exec sleep 1000; exit 7",
                                 NULL};
    several_start(0, &job, flags);
    several_start(1, &job, flags);
    several_expect_all(2, 7);
    several_assert_says(0, "rank 1 (pid ");
    several_assert_says(0, "exited with code 7");
    test_program_assert_no_children();
}

static void either_user_may_end_it(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS);
    for (int node = 0; node < 2; node++) {
        start_two(node == 0 ? "user-0" : "user-1", &job);
        (void)kill(several_pid(node), SIGINT);
        several_expect_all(2, 128 + SIGINT);
        several_assert_says(0, "ending after the current step");
        size_t bytes = 0;
        free(training_file(&several_runs[0], "state-rank-1.safetensors", &bytes));
        assert_true(bytes > 0);
        test_program_assert_no_children();
    }
}

/* The agent's rank has ended, and its state comes slowly: nobody asks that rank to stop. */
static void a_user_may_end_it_while_states_come(void **state)
{
    static const char begun[] = "until [ -e \"$0\" ]; do sleep 0.01; done";
    static const char ended[] = "until grep -q \") Z\" /proc/$0/stat; do sleep 0.01; done";
    char file[SEVERAL_PATH_BYTES + 64];
    char pid[16];
    size_t bytes = 0;
    (void)state;
    const several job = SEVERAL("2", "--ranks", "2", "--transport", "tcp", "--width", "256");
    start_two("states", &job);
    (void)snprintf(pid, sizeof pid, "%d", several_only_child(several_pid(1)));
    (void)kill(several_pid(1), SIGSTOP); /* it notices no end, and sends nothing */
    several_run_quietly(FLAGS("/bin/sh", "-c", ended, pid), 0);
    if (!test_hosts_slow(1, 0, "4mbit")) {
        (void)kill(several_pid(1), SIGCONT);
        several_expect_all(2, 0);
        skip();
    }
    (void)kill(several_pid(1), SIGCONT);
    (void)snprintf(file, sizeof file, "%s/state-rank-1.safetensors.part", several_runs[0].out);
    several_run_quietly(FLAGS("/bin/sh", "-c", begun, file), 0);
    (void)kill(several_pid(0), SIGINT);
    several_wait_says(0, "Ctrl-C: ");
    test_hosts_fast(1, 0);
    several_expect_all(2, 128 + SIGINT);
    free(training_file(&several_runs[0], "state-rank-1.safetensors", &bytes));
    assert_true(bytes > 0);
    test_program_assert_no_children();
}

static void a_cut_link_loses_the_host(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS, "--host-timeout", "7");
    start_two("cut", &job);
    test_hosts_link(0, 1, false);
    several_wait_says(0, "host host-1 (node 1): no heartbeat for");
    several_wait_says(0, "host host-1 (node 1) is lost: no heartbeat for");
    several_expect_all(2, 1);
    several_assert_says(1, "the head at tcp://10.77.0.1:29400 is lost: no heartbeat for");
    for (int node = 0; node < 2; node++) {
        const long silence_s = test_program_number_after(&several_runs[node].program, TEST_STDERR,
                                                         "is lost: no heartbeat for ");
        assert_in_range(silence_s, 7, 7 + 5); /* as 20 s for 15 s */
    }
    test_hosts_link(0, 1, true);
    test_program_assert_no_children();
}

static void a_link_that_comes_back_loses_nothing(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS, "--host-timeout", "40");
    start_two("back", &job);
    test_hosts_link(0, 1, false);
    several_wait_says(0, "host host-1 (node 1): no heartbeat for");
    several_wait_says(1, "the head: no heartbeat for"); /* else it may miss nothing */
    test_hosts_link(0, 1, true);
    several_wait_says(0, "host host-1 (node 1) is back");
    several_wait_says(1, "the head is back");
    (void)kill(several_pid(0), SIGINT);
    several_expect_all(2, 128 + SIGINT);
    test_program_assert_no_children();
}

/* Neither side waits for the other one then. */
static void a_user_may_end_it_at_once_where_the_link_is_cut(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS, "--host-timeout", "1000");
    start_two("at-once", &job);
    test_hosts_link(0, 1, false);
    several_wait_says(0, "host host-1 (node 1): no heartbeat for");
    several_wait_says(1, "the head: no heartbeat for");
    for (int node = 0; node < 2; node++) {
        (void)kill(several_pid(node), SIGINT);
        several_wait_says(node,
                          node == 0 ? "Ctrl-C again ends at once" : "once more ends it at once");
        (void)kill(several_pid(node), SIGINT);
    }
    several_expect_all(2, 128 + SIGINT);
    several_assert_says(0, "error: ended at once by Ctrl-C");
    test_hosts_link(0, 1, true);
    test_program_assert_no_children();
}

static void ctrl_z_pauses_nobody(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS);
    start_two("ctrl-z", &job);
    for (int node = 0; node < 2; node++) {
        (void)kill(several_pid(node), SIGTSTP);
        several_wait_says(node, "Ctrl-Z: a job on several hosts is not paused");
    }
    (void)kill(several_pid(0), SIGINT);
    several_expect_all(2, 128 + SIGINT);
    test_program_assert_no_children();
}

static void a_stopped_rank_is_shown(void **state)
{
    (void)state;
    const several job = SEVERAL("2", ENDLESS);
    start_two("stopped", &job);
    const pid_t rank = several_only_child(several_pid(1));
    (void)kill(rank, SIGSTOP);
    several_wait_says(0, "is stopped by SIGSTOP; the job waits 40 s for it");
    (void)kill(rank, SIGCONT);
    (void)kill(several_pid(0), SIGTERM);
    several_expect_all(2, 128 + SIGTERM);
    test_program_assert_no_children();
}

/* Killed, or ended by its user. Another one takes its place. */
static void an_agent_may_leave_before_the_beginning(void **state)
{
    (void)state;
    static const int causes[] = {SIGKILL, SIGINT};
    several_make_key("early");
    const several job = SEVERAL("3", "--ranks", "3");
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        several_start_head(&job, causes[i] == SIGKILL ? "killed" : "left");
        several_start(1, &job, several_no_flags);
        several_wait_says(0, "host host-1 (node 1) has joined");
        (void)kill(several_pid(1), causes[i]);
        several_expect(1, 128 + causes[i]);
        several_wait_says(0, "host host-1 (node 1) has left before the job began");
        several_start(1, &job, several_no_flags);
        several_start(2, &job, several_no_flags);
        several_expect_all(3, 0);
        test_program_assert_no_children();
    }
}

/* The agents try again, and join the next head with the same key. */
static void a_head_may_die_before_the_beginning(void **state)
{
    (void)state;
    several_make_key("anew");
    const several job = SEVERAL("3", "--ranks", "3");
    several_start_head(&job, "anew-1");
    several_start(1, &job, several_no_flags);
    several_wait_says(1, "joined run");
    several_kill(0);
    several_wait_says(1, "waiting for the head at tcp://10.77.0.1:29400: ");
    several_start_head(&job, "anew-2");
    several_start(2, &job, several_no_flags);
    several_expect_all(3, 0);
    test_program_assert_no_children();
}

/* Where nobody else comes, the head's error says it, too. */
static void a_refusal_is_the_cause(void **state)
{
    (void)state;
    several_make_key("refusal");
    const several job = SEVERAL("2", "--ranks", "2", "--join-timeout", "2");
    several_start(1, &job, FLAGS("--steps", "7"));
    several_wait_says(1, "waiting for the head at ");
    several_start_head(&job, "refusal");
    several_expect(1, 2);
    several_expect(0, 1);
    several_assert_says(0, "error: 1 of 2 hosts have not joined within 2 s: node 1 (refused: "
                           "--steps differs from the head's, which is 6: give it the same flags of "
                           "the job, or none) (launcher ");
}

/* Its last word is not the cause if it has gone since. */
static void a_head_that_refused_may_go(void **state)
{
    (void)state;
    static training_run first;
    several_make_key("refused-first");
    const several job = SEVERAL("3", "--ranks", "3");
    several_start_head(&job, "refused-first");
    several_start(1, &job, FLAGS("--join-timeout", "1"));
    several_wait_says(0, "host host-1 (node 1) has joined");
    first = several_runs[1];
    several_start(1, &job, FLAGS("--join-timeout", "3"));
    several_wait_says(1, "node 1 is in the job already: host host-1; trying again");
    several_kill(0);
    several_expect(1, 1);
    several_assert_says(1, "no head at tcp://10.77.0.1:29400 within 3 s: ");
    assert_int_equal(test_program_wait(&first.program), 1);
    test_program_wait_no_children();
}

static void a_stopped_agent_is_given_up_before_the_beginning(void **state)
{
    (void)state;
    several_make_key("still");
    const several job = SEVERAL("3", "--ranks", "3", "--host-timeout", "3");
    several_start_head(&job, "still");
    several_start(1, &job, several_no_flags);
    several_wait_says(1, "joined run");
    (void)kill(several_pid(1), SIGSTOP);
    several_wait_says(0, "host host-1 (node 1) has left before the job began: no heartbeat for");
    (void)kill(several_pid(1), SIGCONT);
    several_expect(1, 1);
    several_assert_says(1, "the head at tcp://10.77.0.1:29400 is lost: no heartbeat for");
    (void)kill(several_pid(0), SIGTERM);
    several_expect(0, 128 + SIGTERM);
    test_program_assert_no_children();
}

static void a_head_may_stand_still_before_the_beginning(void **state)
{
    (void)state;
    several_make_key("waits");
    const several job = SEVERAL("3", "--ranks", "3", "--host-timeout", "40");
    several_start_head(&job, "waits");
    several_start(1, &job, several_no_flags);
    several_wait_says(1, "joined run");
    (void)kill(several_pid(0), SIGSTOP);
    several_wait_says(1, "the head: no heartbeat for");
    (void)kill(several_pid(0), SIGCONT);
    several_wait_says(1, "the head is back");
    several_start(2, &job, several_no_flags);
    several_expect_all(3, 0);
    assert_null(strstr(several_runs[0].program.text[TEST_STDERR], "no heartbeat"));
    test_program_assert_no_children();
}

static void a_user_may_end_it_before_the_beginning(void **state)
{
    (void)state;
    several_make_key("before");
    const several job = SEVERAL("3", "--ranks", "3");
    several_start_head(&job, "before");
    several_start(1, &job, several_no_flags);
    several_wait_says(0, "host host-1 (node 1) has joined");
    (void)kill(several_pid(0), SIGINT);
    several_expect_all(2, 128 + SIGINT);
    several_assert_says(1, "ended before all hosts had joined");
    test_program_assert_no_children();
}

/* SIGUSR1 ends a job of Slurm, also while hosts are awaited. */
static void slurm_may_end_it_before_the_beginning(void **state)
{
    (void)state;
    several_make_key("slurm");
    const several job = SEVERAL("2", "--ranks", "2");
    assert_int_equal(setenv("SLURM_JOB_ID", "12", 1), 0);
    several_start_head(&job, "slurm");
    assert_int_equal(unsetenv("SLURM_JOB_ID"), 0);
    several_wait_says(0, "waiting at ");
    (void)kill(several_pid(0), SIGUSR1);
    several_expect(0, 128 + SIGUSR1);
    several_assert_says(0, "ended before all hosts had joined");
    test_program_assert_no_children();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_agent_is_a_lost_host),
        cmocka_unit_test(a_host_that_was_given_up_does_not_come_back),
        cmocka_unit_test(a_killed_head_ends_all),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(an_exit_code_comes_through),
        cmocka_unit_test(either_user_may_end_it),
        cmocka_unit_test(a_user_may_end_it_while_states_come),
        cmocka_unit_test(a_cut_link_loses_the_host),
        cmocka_unit_test(a_link_that_comes_back_loses_nothing),
        cmocka_unit_test(a_user_may_end_it_at_once_where_the_link_is_cut),
        cmocka_unit_test(ctrl_z_pauses_nobody),
        cmocka_unit_test(a_stopped_rank_is_shown),
        cmocka_unit_test(an_agent_may_leave_before_the_beginning),
        cmocka_unit_test(a_head_may_die_before_the_beginning),
        cmocka_unit_test(a_refusal_is_the_cause),
        cmocka_unit_test(a_head_that_refused_may_go),
        cmocka_unit_test(a_stopped_agent_is_given_up_before_the_beginning),
        cmocka_unit_test(a_head_may_stand_still_before_the_beginning),
        cmocka_unit_test(a_user_may_end_it_before_the_beginning),
        cmocka_unit_test(slurm_may_end_it_before_the_beginning),
    };
    const int skipped = test_hosts_skip(TEST_HOSTS_MAX);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, test_shared_directory_make,
                                                 test_shared_directory_remove);
}
