/* Trainings on several hosts that go on with fewer: --min-nodes. Launchers are killed, leave and come back, and the
 * parameters are those of a job that nobody disturbed. Needs root for its hosts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "several.h"

enum { STEPS = TEST_HAS_ASAN ? 100 : 300 };

/* The other host is lost in the end when this is over: no test waits so long. */
#define LONG "1000"

#define AGAIN                                                                                      \
    "--transport", "tcp", "--save-every", "10", "--resume", "--keep", "1000", "--max-restarts",    \
        "5", "--min-nodes", "1"
#define TWO "--ranks", "2", "--micro-batches", "2"

static char steps[16];
static training_run quiet; /* nobody disturbed it */

static void assert_bits_of_quiet(void)
{
    training_assert_same_file(&quiet, "state-rank-0.safetensors", &several_runs[0],
                              "state-rank-0.safetensors");
}

/* The numbers of an attempt in the manifest. */
static void assert_attempt(size_t index, int hosts, int ranks, int micro_batches, int expert_ranks)
{
    json_t *manifest = training_manifest(&several_runs[0]);
    const json_t *one = json_array_get(json_object_get(manifest, "attempt_history"), index);
    assert_int_equal(json_integer_value(json_object_get(one, "attempt")), index + 1);
    assert_int_equal(json_integer_value(json_object_get(one, "hosts")), hosts);
    assert_int_equal(json_integer_value(json_object_get(one, "ranks")), ranks);
    assert_int_equal(json_integer_value(json_object_get(one, "micro_batches")), micro_batches);
    assert_int_equal(json_integer_value(json_object_get(one, "expert_ranks")), expert_ranks);
    json_decref(manifest);
}

/* Every step is in one of the files, of each rank that took it. */
static void assert_timings(uint64_t set_aside_at)
{
    char name[64];
    (void)snprintf(name, sizeof name, "timings-before-%llu.jsonl",
                   (unsigned long long)set_aside_at);
    char *before = training_file(&several_runs[0], name, NULL);
    char *since = training_file(&several_runs[0], "timings.jsonl", NULL);
    size_t lines = 0;
    for (const char *at = before; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, 2 * set_aside_at);
    lines = 0;
    for (const char *at = since; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    assert_int_equal(lines, STEPS - set_aside_at);
    free(before);
    free(since);
}

/* ---- tests ---- */

static void a_killed_host_leaves_the_bits(void **state)
{
    static const char *const zero[] = {"0", "1", "3"};
    (void)state;
    for (size_t i = 0; i < sizeof zero / sizeof zero[0]; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "killed-%zu", i);
        const several job =
            SEVERAL("2", TWO, AGAIN, "--steps", steps, "--join-timeout", "1", "--zero", zero[i]);
        several_start_gated(name, &job, STEPS / 2);
        several_kill(1);
        training_open_gate(&several_runs[0]);
        several_expect(0, 0);
        several_assert_says(0, "attempt 2 of at most 6: host host-1 (node 1) is missing; going on "
                               "with 1 host, 1 rank x 4 micro-batches from step ");
        assert_bits_of_quiet();
        assert_attempt(0, 2, 2, 2, 1);
        assert_attempt(1, 1, 1, 4, 1);
        const long from = test_program_number_after(&several_runs[0].program, TEST_STDERR,
                                                    "micro-batches from step ");
        assert_timings((uint64_t)from);
        char *page = training_file(&several_runs[0], "report.html", NULL);
        char *sentence = strstr(page, "It took ");
        assert_non_null(sentence);
        sentence[strcspn(sentence, "\n")] = '\0';
        assert_has(sentence,
                   "It took 2 attempts (--max-restarts), the first on 2 hosts, 2 ranks × 2 "
                   "micro-batches and the last on 1 host, 1 rank × 4 micro-batches; the "
                   "one before the last failed: ");
        free(page);
        test_program_wait_no_children();
    }
}

/* The ranks that are left have more experts each. */
static void shared_out_experts_leave_the_bits(void **state)
{
    (void)state;
    static training_run whole;
    const several all = SEVERAL("2", TWO, "--steps", steps, "--experts", "4");
    several_start_all("experts", &all);
    several_expect_all(2, 0);
    whole = several_runs[0];
    const several job = SEVERAL("2", TWO, AGAIN, "--steps", steps, "--join-timeout", "1",
                                "--experts", "4", "--expert-ranks", "2");
    several_start_gated("expert-ranks", &job, STEPS / 2);
    several_kill(1);
    training_open_gate(&several_runs[0]);
    several_expect(0, 0);
    several_assert_says(0, "going on with 1 host, 1 rank x 4 micro-batches from step ");
    training_assert_same_model(&whole, &several_runs[0]);
    assert_attempt(0, 2, 2, 2, 2);
    assert_attempt(1, 1, 1, 4, 1);
    test_program_wait_no_children();
}

/* The attempt after its loss waits for it, and those that follow do not. */
static void a_lost_host_is_awaited_once(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, AGAIN, "--steps", "100000000", "--join-timeout", "1");
    several_start_saving("once", &job);
    several_kill(1);
    several_wait_says(0, "going on with 1 host, 1 rank x 4 micro-batches");
    several_wait_says(0, "--resume: goes on after step ");
    (void)kill(several_only_child(several_pid(0)), SIGKILL);
    several_wait_says(0, "attempt 3 of at most 6: host host-1 (node 1) is missing; going on");
    (void)kill(several_pid(0), SIGTERM);
    several_expect(0, 128 + SIGTERM);
    /* at the beginning, and in attempt 2 */
    assert_int_equal(test_count(several_runs[0].program.text[TEST_STDERR], ": waiting at "), 2);
    test_program_wait_no_children();
}

/* The others do not wait longer for it than they did for its heartbeats, where they are enough. */
static void a_lost_host_is_not_awaited_as_long_as_a_new_one(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, AGAIN, "--steps", "100000000", "--join-timeout", LONG,
                                "--host-timeout", "3");
    several_start_saving("sooner", &job);
    several_kill(1);
    several_wait_says(0, "going on with 1 host, 1 rank x 4 micro-batches");
    (void)kill(several_pid(0), SIGTERM);
    several_expect(0, 128 + SIGTERM);
    test_program_wait_no_children();
}

/* Nobody waits for it, and it may come again: it waits until the next attempt. */
static void a_host_may_leave_and_come_again(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, AGAIN, "--steps", "100000000", "--join-timeout", LONG);
    several_start_gated("leaves", &job,
                        10); /* else attempt 2 soon ends for the host that is back */
    (void)kill(several_pid(1), SIGTERM);
    several_expect(1, 128 + SIGTERM);
    several_assert_says(1, "the head is asked to let this host go");
    several_wait_says(0, "host host-1 (node 1) leaves the job: its user has ended its launcher "
                         "(SIGTERM)");
    several_wait_says(0, "going on with 1 host, 1 rank x 4 micro-batches");
    several_start(1, &job, several_no_flags);
    several_wait_says(1, "the job runs on other hosts: this one waits");
    several_wait_says(0, "--resume: goes on after step ");
    (void)kill(several_only_child(several_pid(0)), SIGKILL);
    training_open_gate(&several_runs[0]);
    several_wait_says(0, "starting again: attempt 3");
    several_wait_says(1, "joined run");
    several_wait_says(0, "host host-1 (node 1) has joined");
    (void)kill(several_pid(0), SIGTERM);
    several_expect_all(2, 128 + SIGTERM);
    test_program_assert_no_children();
}

/* Three ranks have no other number with the same bits but one: so one host works, and the other one waits. */
static void a_host_that_is_not_needed_waits(void **state)
{
    (void)state;
    static training_run three;
    const several whole = SEVERAL("3", "--ranks", "3", "--steps", steps);
    several_start_all("three", &whole);
    several_expect_all(3, 0);
    three = several_runs[0];
    const several job =
        SEVERAL("3", "--ranks", "3", AGAIN, "--steps", steps, "--join-timeout", "1");
    several_start_gated("waits", &job, STEPS / 2);
    several_kill(1);
    training_open_gate(&several_runs[0]);
    several_expect(0, 0);
    several_expect(2, 0);
    several_assert_says(0, "going on with 1 host, 1 rank x 3 micro-batches from step ");
    several_assert_says(2, "the job runs on other hosts: this one waits");
    several_assert_says(2, "is done");
    training_assert_same_file(&three, "state-rank-0.safetensors", &several_runs[0],
                              "state-rank-0.safetensors");
    test_program_wait_no_children();
}

/* The whole job may begin with fewer hosts, as after the head's own death. */
static void a_job_begins_with_those_that_come(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, AGAIN, "--steps", steps, "--join-timeout", "1");
    several_start_gated("head", &job, STEPS / 2);
    several_kill(0);
    several_wait_says(1, "and it is called again");
    (void)kill(several_pid(1), SIGTERM);
    several_expect(1, 128 + SIGTERM);
    several_start_head(&job, "head");
    several_expect(0, 0);
    several_assert_says(0, "attempt 1 of at most 6: node 1 is missing; going on with 1 host");
    assert_bits_of_quiet();
    test_program_wait_no_children();
}

static void fewer_than_least_end_it(void **state)
{
    (void)state;
    const several job = SEVERAL("3", "--ranks", "3", AGAIN, "--min-nodes", "2", "--steps",
                                "100000000", "--join-timeout", "1");
    several_start_saving("least", &job);
    (void)kill(several_pid(1), SIGKILL);
    several_kill(2);
    several_expect(1, 128 + SIGKILL);
    several_expect(0, 1);
    several_assert_says(0, "2 of 3 hosts have not joined within 1 s, and --min-nodes is 2: node 1, "
                           "node 2");
    test_program_wait_no_children();
}

/* The first one's leaving is heard, and then the other one's, before the first has gone. */
static void who_leaves_last_ends_it(void **state)
{
    (void)state;
    const several job =
        SEVERAL("3", "--ranks", "3", AGAIN, "--min-nodes", "2", "--steps", "100000000");
    several_start_saving("last", &job);
    (void)kill(several_pid(0), SIGSTOP);
    (void)kill(several_pid(1), SIGTERM);
    (void)kill(several_pid(2), SIGTERM);
    several_wait_says(1, "the head is asked to let this host go");
    several_wait_says(2, "the head is asked to let this host go");
    (void)kill(several_pid(0), SIGCONT);
    several_expect_all(3, 128 + SIGTERM);
    several_assert_says(0, "leaves the job: its user has ended its launcher (SIGTERM)");
    assert_null(strstr(several_runs[0].program.text[TEST_STDERR], "attempt 2"));
    test_program_wait_no_children();
}

/* As soon as it runs. */
static pid_t wait_for_rank(int node)
{
    pid_t rank = 0;
    for (int i = 0; i < 3000 && rank == 0; i++) {
        rank = several_find_rank(node);
        (void)usleep(10 * 1000);
    }
    assert_int_not_equal(rank, 0);
    return rank;
}

/* Its ranks fail each time, and take no more restarts than two. When it comes again it does not disturb those that
 * go on. */
static void a_host_that_fails_each_time_is_sent_away(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, "--transport", "tcp", "--save-every", "100000000",
                                "--resume", "--max-restarts", "5", "--min-nodes", "1", "--steps",
                                "100000000", "--join-timeout", LONG);
    several_start_all("fails", &job);
    for (int i = 0; i < 2; i++) {
        several_wait_says(0, i == 0 ? "has joined: " : "starting again: attempt 2 of at most 6");
        (void)kill(wait_for_rank(1), SIGKILL);
    }
    several_wait_says(0, "; host host-1 (node 1) has failed before, without a checkpoint in "
                         "between, and is sent away: the job goes on without it.");
    several_expect(1, 128 + SIGKILL);
    several_assert_says(1, "and is sent away");
    several_wait_says(0, "attempt 3 of at most 6: host host-1 (node 1) is missing; beginning with "
                         "1 host, 1 rank x 4 micro-batches");
    several_start(1, &job, several_no_flags);
    several_wait_says(0, "host host-1 (node 1) is there: it waits, and may join the next attempt; "
                         "no attempt ends for it");
    (void)kill(several_pid(0), SIGTERM);
    several_expect_all(2, 128 + SIGTERM);
    test_program_wait_no_children();
}

/* No rank of one of them can be connected to one of the other. Both reach the head. */
static void cut(bool is_cut)
{
    assert_true(test_hosts_run(1, is_cut ? "ip route replace unreachable 10.77.0.3"
                                         : "ip route replace 10.77.0.3/32 dev to2 src 10.77.0.2"));
    assert_true(test_hosts_run(2, is_cut ? "ip route replace unreachable 10.77.0.2"
                                         : "ip route replace 10.77.0.2/32 dev to1 src 10.77.0.3"));
    if (!is_cut) {
        assert_true(test_hosts_run(1, "ip route del unreachable 10.77.0.3 2>/dev/null; true"));
        assert_true(test_hosts_run(2, "ip route del unreachable 10.77.0.2 2>/dev/null; true"));
    }
}

#define CUT                                                                                        \
    "host host-2 (node 2) and host host-1 (node 1) reach the head, but not each other: check the " \
    "network and the firewall between these two"

static void a_cut_link_between_two_hosts_leaves_one_out(void **state)
{
    (void)state;
    const several job = SEVERAL("3", "--ranks", "3", "--micro-batches", "2", AGAIN, "--steps", "20",
                                "--host-timeout", "3");
    cut(true);
    several_start_all("cut", &job);
    const int codes[] = {test_program_wait(&several_runs[0].program),
                         test_program_wait(&several_runs[1].program),
                         test_program_wait(&several_runs[2].program)};
    cut(false);
    several_assert_says(0, CUT);
    several_assert_says(0, "; host host-2 (node 2) is sent away: the job goes on without it.");
    several_assert_says(0, "attempt 3 of at most 6: host host-2 (node 2) is missing; beginning ");
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
    assert_int_equal(codes[2], 1);
    test_program_wait_no_children();
}

/* Another attempt would not help, so restarts are left. */
static void a_cut_link_between_hosts_that_are_needed_ends_it(void **state)
{
    (void)state;
    const several job = SEVERAL("3", "--ranks", "3", "--micro-batches", "2", AGAIN, "--min-nodes",
                                "3", "--steps", "20", "--host-timeout", "3");
    cut(true);
    several_start_all("needed", &job);
    const int codes[] = {test_program_wait(&several_runs[0].program),
                         test_program_wait(&several_runs[1].program),
                         test_program_wait(&several_runs[2].program)};
    cut(false);
    several_assert_says(0, CUT);
    several_assert_says(0, "starting again: attempt 2 of at most 6");
    assert_null(strstr(several_runs[0].program.text[TEST_STDERR], "attempt 3"));
    for (int node = 0; node < 3; node++) {
        assert_int_equal(codes[node], 1);
    }
    test_program_wait_no_children();
}

static int set_up(void **state)
{
    (void)test_shared_directory_make(state);
    (void)snprintf(steps, sizeof steps, "%d", STEPS);
    const several job = SEVERAL("2", TWO, "--steps", steps);
    several_start_all("quiet", &job);
    several_expect_all(2, 0);
    quiet = several_runs[0];
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_host_leaves_the_bits),
        cmocka_unit_test(shared_out_experts_leave_the_bits),
        cmocka_unit_test(a_lost_host_is_awaited_once),
        cmocka_unit_test(a_lost_host_is_not_awaited_as_long_as_a_new_one),
        cmocka_unit_test(a_host_may_leave_and_come_again),
        cmocka_unit_test(a_host_that_is_not_needed_waits),
        cmocka_unit_test(a_job_begins_with_those_that_come),
        cmocka_unit_test(fewer_than_least_end_it),
        cmocka_unit_test(who_leaves_last_ends_it),
        cmocka_unit_test(a_host_that_fails_each_time_is_sent_away),
        cmocka_unit_test(a_cut_link_between_two_hosts_leaves_one_out),
        cmocka_unit_test(a_cut_link_between_hosts_that_are_needed_ends_it),
    };
    const int skipped = test_hosts_skip(TEST_HOSTS_MAX);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, set_up, test_shared_directory_remove);
}
