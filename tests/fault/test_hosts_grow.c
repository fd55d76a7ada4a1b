/* Trainings on fewer hosts than they have, to which another host comes: they end at their next checkpoint and go on
 * with it, and the parameters are those of a job that nobody disturbed. Needs root for its hosts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "several.h"

enum { STEPS = TEST_HAS_ASAN ? 100 : 300 };

/* One host that is missing does not hold up the job for longer than this. */
#define ALONE "--transport", "tcp", "--resume", "--join-timeout", "1", "--min-nodes", "1"
#define TWO   "--ranks", "2", "--micro-batches", "2", "--max-restarts", "1"

#define JOINS "is there: it waits, and joins after the next checkpoint"
#define PLAN  "ended as planned, at the checkpoint of step "

static char steps[16];
static char half[16];
static training_run quiet; /* nobody disturbed it */

static int count_says(int node, const char *text)
{
    return test_count(several_runs[node].program.text[TEST_STDERR], text);
}

static void assert_bits_of_quiet(void)
{
    training_assert_same_file(&quiet, "state-rank-0.safetensors", &several_runs[0],
                              "state-rank-0.safetensors");
}

/* Steps that ranks have reported, in a file of the record. */
static void assert_lines(const char *name, long lines)
{
    char *text = training_file(&several_runs[0], name, NULL);
    long count = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) {
        count++;
    }
    assert_int_equal(count, lines);
    free(text);
}

/* An attempt in the manifest, with the beginning of what it says of its planned end; NULL: it had none. */
static void assert_attempt(size_t index, int hosts, long first_step, const char *planned)
{
    json_t *manifest = training_manifest(&several_runs[0]);
    const json_t *one = json_array_get(json_object_get(manifest, "attempt_history"), index);
    const char *end = json_string_value(json_object_get(one, "planned_end"));
    assert_int_equal(json_integer_value(json_object_get(one, "hosts")), hosts);
    assert_int_equal(json_integer_value(json_object_get(one, "first_step")), first_step);
    if (planned == NULL) {
        assert_null(end);
    } else {
        assert_non_null(end);
        assert_has(end, planned);
        assert_true(json_is_null(json_object_get(one, "failure")));
    }
    json_decref(manifest);
}

/* Starts the head alone. Its training waits at its checkpoint of `step` steps until it may go on. */
static void start_held(const char *name, const several *job, uint64_t step)
{
    several_make_key(name);
    training_gate_at(step);
    several_start_head(job, name);
    training_gate_at(0);
    several_wait_checkpoint(step);
}

static void go_on(void)
{
    training_open_gate(&several_runs[0]);
}

static void start_waiting(int node, const several *job)
{
    several_start(node, job, several_no_flags);
    several_wait_says(node, "the job runs on other hosts: this one waits");
}

/* ---- tests ---- */

static void a_host_that_comes_back_joins_at_the_next_checkpoint(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", steps, "--save-every", "10");
    several_start_gated("back", &job, STEPS / 2);
    several_kill(1);
    several_wait_says(0, "going on with 1 host, 1 rank x 4 micro-batches from step ");
    several_wait_says(0, "--resume: goes on after step ");
    const long lost = test_program_number_after(&several_runs[0].program, TEST_STDERR,
                                                "--resume: goes on after step ");
    start_waiting(1, &job);
    several_wait_says(0, "host host-1 (node 1) " JOINS);
    go_on();
    several_expect_all(2, 0);
    several_assert_says(0, "for host host-1 (node 1): starting again from there with all hosts "
                           "that are there: attempt 3 of at most 3 (nothing has failed");
    const long joined = test_program_number_after(&several_runs[0].program, TEST_STDERR, PLAN);
    assert_int_equal(joined % 10, 0);
    assert_in_range(joined, lost + 10, STEPS - 10);
    assert_int_equal(count_says(0, PLAN), 1);
    assert_bits_of_quiet();
    assert_attempt(0, 2, 0, NULL);
    assert_attempt(1, 1, lost, "for host host-1 (node 1)");
    assert_attempt(2, 2, joined, NULL);
    char before[64];
    (void)snprintf(before, sizeof before, "timings-before-%ld.jsonl", joined);
    assert_lines(before, joined - lost);
    assert_lines("timings.jsonl", 2 * (STEPS - joined));
    char *page = training_file(&several_runs[0], "report.html", NULL);
    assert_has(page, "; the one before the last ended as planned, at the checkpoint of step ");
    free(page);
    test_program_wait_no_children();
}

static void a_host_that_waits_may_go_again(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", steps, "--save-every", "10");
    start_held("goes", &job, 10);
    start_waiting(1, &job);
    several_wait_says(0, "host host-1 (node 1) " JOINS);
    several_kill(1);
    several_wait_says(0, "host host-1 (node 1) does not wait any longer");
    go_on();
    several_expect(0, 0);
    assert_int_equal(count_says(0, PLAN), 0);
    assert_bits_of_quiet();
    test_program_wait_no_children();
}

/* It is not there when the attempt begins that was to be with it. */
static void a_host_that_comes_and_goes_ends_one_attempt(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", "100000000", "--save-every", "10");
    start_held("flaps", &job, 10);
    start_waiting(1, &job);
    assert_int_equal(kill(several_pid(1), SIGSTOP), 0);
    go_on();
    several_wait_says(0, "attempt 2 of at most 3: host host-1 (node 1) is missing; going on with "
                         "1 host, 1 rank x 4 micro-batches from step ");
    several_wait_says(0, "--resume: goes on after step ");
    several_kill(1);
    start_waiting(1, &job);
    several_wait_says(0, "it waits, and may join the next attempt; no attempt ends for it, since "
                         "the last one with it has lost it before a checkpoint");
    const long from = test_program_number_after(&several_runs[0].program, TEST_STDERR,
                                                "--resume: goes on after step ");
    several_wait_checkpoint((uint64_t)from + 100);
    (void)kill(several_only_child(several_pid(0)), SIGKILL);
    several_wait_says(0, "starting again: attempt 3 of at most 3");
    several_wait_says(0, "host host-1 (node 1) has joined");
    (void)kill(several_pid(0), SIGTERM);
    several_expect_all(2, 128 + SIGTERM);
    assert_int_equal(count_says(0, PLAN), 1);
    test_program_wait_no_children();
}

static void a_job_that_ends_first_ends_the_host_that_waits(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", steps, "--save-every", half);
    start_held("ends", &job, STEPS / 2);
    start_waiting(1, &job);
    several_wait_says(0, "host host-1 (node 1) " JOINS);
    go_on();
    several_expect_all(2, 0);
    several_assert_says(1, "is done");
    assert_int_equal(count_says(0, PLAN), 0);
    assert_bits_of_quiet();
    test_program_wait_no_children();
}

/* The step after which it ends is one after which it would end for the host, too. The model is saved. */
static void ctrl_c_comes_first(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", steps, "--save-every", "1");
    start_held("signal", &job, 1);
    start_waiting(1, &job);
    several_wait_says(0, "host host-1 (node 1) " JOINS);
    (void)kill(several_pid(0), SIGTERM);
    several_wait_says(0, "SIGTERM: ending after the current step");
    go_on();
    several_expect_all(2, 128 + SIGTERM);
    assert_int_equal(count_says(0, PLAN), 0);
    free(training_file(&several_runs[0], "state-rank-0.safetensors", NULL));
    test_program_wait_no_children();
}

/* Two ranks would have other bits than three. So the host that comes first is of use only with the other one. */
static void two_hosts_that_come_join_together(void **state)
{
    (void)state;
    static training_run three;
    const several whole = SEVERAL("3", "--ranks", "3", "--micro-batches", "2", "--steps", steps);
    several_start_all("three", &whole);
    several_expect_all(3, 0);
    three = several_runs[0];
    const several job = SEVERAL("3", "--ranks", "3", "--micro-batches", "2", "--max-restarts", "1",
                                ALONE, "--steps", steps, "--save-every", "10");
    start_held("both", &job, 10);
    start_waiting(1, &job);
    several_wait_says(0,
                      "host host-1 (node 1) is there: it waits, and may join the next attempt\n");
    start_waiting(2, &job);
    several_wait_says(0, "host host-2 (node 2) " JOINS);
    go_on();
    several_expect_all(3, 0);
    several_assert_says(0, "ended as planned, at the checkpoint of step 20, for host host-1 (node "
                           "1), host host-2 (node 2): starting again from there with all hosts "
                           "that are there: attempt 2 of at most 3 (nothing has failed");
    training_assert_same_file(&three, "state-rank-0.safetensors", &several_runs[0],
                              "state-rank-0.safetensors");
    assert_attempt(0, 1, 0, "at the checkpoint of step 20, for host host-1 (node 1), host ");
    assert_attempt(1, 3, 20, NULL);
    test_program_wait_no_children();
}

/* All restarts are used up, and host 1 was told so. Two hosts have a rank each, since four ranks would have other bits. */
static void a_host_that_stays_goes_on_with_one_that_comes(void **state)
{
    (void)state;
    static training_run grown;
    const several job =
        SEVERAL("3", "--ranks", "6", "--micro-batches", "1", "--zero", "2", "--max-restarts", "1",
                ALONE, "--steps", "60", "--save-every", "10");
    several_start_gated("stays", &job, 20);
    several_kill(2);
    several_wait_says(0, "going on with 2 hosts, 2 ranks x 3 micro-batches from step ");
    several_wait_says(0, "--resume: goes on after step ");
    start_waiting(2, &job);
    several_wait_says(0, "host host-2 (node 2) " JOINS);
    go_on();
    several_expect_all(3, 0);
    several_assert_says(0, "for host host-2 (node 2): starting again from there with all hosts "
                           "that are there: attempt 3 of at most 3 (nothing has failed");
    assert_int_equal(count_says(0, PLAN), 1);
    test_program_wait_no_children();
    grown = several_runs[0];
    const several whole =
        SEVERAL("3", "--ranks", "6", "--micro-batches", "1", "--zero", "2", "--steps", "60");
    several_start_all("six", &whole);
    several_expect_all(3, 0);
    training_assert_same_file(&several_runs[0], "model.safetensors", &grown, "model.safetensors");
    test_program_wait_no_children();
}

static long best_step_of_early_end(const training_run *run)
{
    json_t *manifest = training_manifest(run);
    const json_t *best = json_object_get(manifest, "best");
    const long step = (long)json_integer_value(json_object_get(best, "step"));
    assert_true(json_is_true(json_object_get(best, "stopped_early")));
    json_decref(manifest);
    return step;
}

/* The evaluations of the attempts count together. Where the training gives up, it ends, and not for the host. */
static void a_training_that_gives_up_does_so_after_the_same_step(void **state)
{
    (void)state;
    static training_run given_up;
    char data[BASE_PATH_BYTES];
    char heldout[BASE_PATH_BYTES];
    char half_of_last[16];
    (void)snprintf(data, sizeof data, "%s", test_shared_path("data"));
    (void)snprintf(heldout, sizeof heldout, "%s", test_shared_path("heldout"));
    test_shared_put("data",
                    "{\"text\":\"the old cat saw a dog\"}\n{\"text\":\"we like apples\"}\n"
                    "{\"text\":\"she went to school\"}\n{\"text\":\"they were at home\"}\n"
                    "{\"text\":\"he ran to the house\"}\n{\"text\":\"it was a good day\"}\n");
    test_shared_put("heldout",
                    "{\"text\":\"the old dog saw a cat\"}\n{\"text\":\"we ran home\"}\n");
    several job = SEVERAL("2", TWO, ALONE, "--steps", "400", "--lr", "1e-2", "--data", data,
                          "--heldout", heldout, "--eval-every", "4", "--keep-best", "--patience",
                          "3", "--save-every", "4");
    several_start_all("gives-up", &job);
    several_expect_all(2, 0);
    given_up = several_runs[0];
    const long best = best_step_of_early_end(&given_up);
    assert_in_range(best, 8, 380);
    const long last = best + 1 + 3 * 4; /* steps count from 0 there */
    (void)snprintf(half_of_last, sizeof half_of_last, "%ld", last / 2);
    for (int i = 0; i < 2; i++) {
        start_held(i == 0 ? "gives-up-grown" : "gives-up-alone", &job,
                   i == 0 ? 4 : (uint64_t)last / 2);
        start_waiting(1, &job);
        several_wait_says(0, "host host-1 (node 1) " JOINS);
        go_on();
        several_expect_all(2, 0);
        assert_int_equal(count_says(0, PLAN), 1 - i);
        training_assert_same_file(&given_up, "model.safetensors", &several_runs[0],
                                  "model.safetensors");
        assert_int_equal(best_step_of_early_end(&several_runs[0]), best);
        test_program_wait_no_children();
        several_add(&job, "--save-every", half_of_last); /* the next one is where it gives up */
    }
}

/* The ranks of a host that comes cannot save there. That takes it out again, and not the job. */
static void a_host_that_comes_with_a_full_disk_ends_no_job(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", steps, "--save-every", "10");
    char cache[BASE_PATH_BYTES];
    (void)snprintf(cache, sizeof cache, "%s", test_shared_path("disk"));
    assert_int_equal(mkdir(cache, 0700), 0);
    assert_int_equal(mount("none", cache, "tmpfs", 0, "size=32k"), 0);
    start_held("full", &job, 10);
    several_start(1, &job, FLAGS("--cache", cache));
    several_wait_says(0, "host host-1 (node 1) " JOINS);
    go_on();
    const int codes[] = {test_program_wait(&several_runs[0].program),
                         test_program_wait(&several_runs[1].program)};
    assert_int_equal(umount2(cache, MNT_DETACH), 0);
    several_assert_says(0, "the disk of its --cache has room for ");
    several_assert_says(1, "the disk of its --cache has room for ");
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 1);
    assert_int_equal(count_says(0, PLAN), 1);
    assert_bits_of_quiet();
    assert_attempt(2, 1, 20, NULL);
    test_program_wait_no_children();
}

/* A file of the record. */
static bool is_there(const char *name)
{
    char path[BASE_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/%s", several_runs[0].out, name);
    return access(path, F_OK) == 0;
}

static bool is_stopped(pid_t pid)
{
    char path[64];
    char text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "re");
    assert_non_null(stat);
    const bool known = fgets(text, sizeof text, stat) != NULL;
    (void)fclose(stat);
    return known && strstr(text, ") T ") != NULL;
}

/* Starts the head alone. Its rank is held while it writes the checkpoint of step 20; before that,
 * it has been asked to pause there, if `asked`. */
static pid_t start_saving(const char *name, const several *job, bool asked)
{
    assert_int_equal(setenv("GATE_HOLDS", "1", 1), 0);
    start_held(name, job, 10);
    assert_int_equal(unsetenv("GATE_HOLDS"), 0);
    const pid_t rank = several_only_child(several_pid(0));
    if (asked) {
        start_waiting(1, job);
        several_wait_says(0, "host host-1 (node 1) " JOINS);
    }
    go_on();
    for (int i = 0; i < 6000 && !(is_there("held") && is_stopped(rank)); i++) {
        (void)usleep(10 * 1000);
    }
    assert_true(is_stopped(rank));
    return rank;
}

static void a_host_may_go_while_the_checkpoint_is_written(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", "25", "--save-every", "10");
    const pid_t rank = start_saving("goes-late", &job, true);
    several_kill(1);
    several_wait_says(0, "host host-1 (node 1) does not wait any longer");
    assert_int_equal(kill(rank, SIGCONT), 0);
    several_expect(0, 0);
    assert_int_equal(count_says(0, PLAN), 0);
    assert_attempt(0, 1, 0, NULL);
    assert_lines("timings.jsonl", 25);
    test_program_wait_no_children();
}

static void ctrl_c_comes_first_while_the_checkpoint_is_written(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", "25", "--save-every", "10");
    const pid_t rank = start_saving("signal-late", &job, true);
    (void)kill(several_pid(0), SIGTERM);
    several_wait_says(0, "SIGTERM: ending after the current step");
    assert_int_equal(kill(rank, SIGCONT), 0);
    several_expect_all(2, 128 + SIGTERM);
    assert_int_equal(count_says(0, PLAN), 0);
    assert_lines("timings.jsonl", 20);
    free(training_file(&several_runs[0], "state-rank-0.safetensors", NULL));
    test_program_wait_no_children();
}

/* It joins at the next one. */
static void a_host_may_come_while_a_checkpoint_is_written(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", "35", "--save-every", "10");
    const pid_t rank = start_saving("comes-late", &job, false);
    start_waiting(1, &job);
    several_wait_says(0, "host host-1 (node 1) " JOINS);
    assert_int_equal(kill(rank, SIGCONT), 0);
    several_expect_all(2, 0);
    assert_attempt(0, 1, 0, "at the checkpoint of step 30, for host host-1 (node 1)");
    assert_attempt(1, 2, 30, NULL);
    test_program_wait_no_children();
}

/* That is a failure, and the host joins with the restart. */
static void a_rank_may_die_while_the_checkpoint_is_written(void **state)
{
    (void)state;
    const several job = SEVERAL("2", TWO, ALONE, "--steps", "25", "--save-every", "10");
    const pid_t rank = start_saving("dies", &job, true);
    assert_int_equal(kill(rank, SIGKILL), 0);
    several_expect_all(2, 0);
    several_assert_says(0, "starting again: attempt 2 of at most 2\n");
    assert_int_equal(count_says(0, PLAN), 0);
    assert_attempt(0, 1, 0, NULL);
    assert_attempt(1, 2, 10, NULL);
    test_program_wait_no_children();
}

static int set_up(void **state)
{
    (void)test_shared_directory_make(state);
    (void)snprintf(steps, sizeof steps, "%d", STEPS);
    (void)snprintf(half, sizeof half, "%d", STEPS / 2);
    const several job = SEVERAL("2", TWO, "--steps", steps, "--resume", "--save-every", steps);
    several_start_all("quiet", &job);
    several_expect_all(2, 0);
    quiet = several_runs[0];
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_that_comes_back_joins_at_the_next_checkpoint),
        cmocka_unit_test(a_host_that_waits_may_go_again),
        cmocka_unit_test(a_host_that_comes_and_goes_ends_one_attempt),
        cmocka_unit_test(a_job_that_ends_first_ends_the_host_that_waits),
        cmocka_unit_test(ctrl_c_comes_first),
        cmocka_unit_test(two_hosts_that_come_join_together),
        cmocka_unit_test(a_host_that_stays_goes_on_with_one_that_comes),
        cmocka_unit_test(a_training_that_gives_up_does_so_after_the_same_step),
        cmocka_unit_test(a_host_that_comes_with_a_full_disk_ends_no_job),
        cmocka_unit_test(a_host_may_go_while_the_checkpoint_is_written),
        cmocka_unit_test(ctrl_c_comes_first_while_the_checkpoint_is_written),
        cmocka_unit_test(a_host_may_come_while_a_checkpoint_is_written),
        cmocka_unit_test(a_rank_may_die_while_the_checkpoint_is_written),
    };
    const int skipped = test_hosts_skip(TEST_HOSTS_MAX);
    return skipped != 0 ? skipped
                        : cmocka_run_group_tests(tests, set_up, test_shared_directory_remove);
}
