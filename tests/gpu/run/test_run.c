/* What tests/gpu/run.sh makes of its phases, over a bundle of fake programs: what passes, fails, hangs
 * or has no GPU; its results; its exit code. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

static test_program program;
static char bundle[BASE_PATH_BYTES];

/* Runs these phases, of them the parts that match `only`. Their lines are in
 * program.text. Returns the exit code. */
static int run_only(const char *only, const char *fake, const char *limit, const char *phase,
                    const char *second)
{
    char variable[64];
    (void)snprintf(variable, sizeof variable, "FAKE=%s", fake);
    test_program_start(&program,
                       (const char *const[]){RUN_PATH, "--bundle", bundle, "--limit", limit,
                                             "--out", test_shared_path("out"), "--only", only,
                                             phase, second, NULL},
                       (const char *const[]){variable, NULL});
    return test_program_wait(&program);
}

static int run(const char *fake, const char *limit, const char *phase, const char *second)
{
    return run_only("", fake, limit, phase, second);
}

/* What the results have of a phase, and nothing else; the caller decrefs. */
static void check(const char *phase, const char *status, int exit_code, const char *reason)
{
    json_error_t error;
    json_t *results = json_load_file(test_shared_path("out/gpu-results.json"), 0, &error);
    if (results == NULL) {
        fail_msg("gpu-results.json: %s", error.text);
    }
    const json_t *phases = json_object_get(results, "phases");
    const json_t *found = NULL;
    for (size_t i = 0; i < json_array_size(phases); i++) {
        const json_t *at = json_array_get(phases, i);
        found = strcmp(json_string_value(json_object_get(at, "phase")), phase) == 0 ? at : found;
    }
    assert_non_null(found);
    assert_string_equal(json_string_value(json_object_get(found, "status")), status);
    assert_int_equal(json_integer_value(json_object_get(found, "exit_code")), exit_code);
    assert_string_equal(json_string_value(json_object_get(found, "reason")), reason);
    json_decref(results);
}

static void phases_that_pass_are_kept_with_their_figures(void **state)
{
    (void)state;
    assert_int_equal(run("", "150", "parity", NULL), 0);
    check("parity", "passed", 0, "");
    assert_int_equal(run("", "150", "nccl", NULL), 0);
    check("nccl", "passed", 0, "");
    check("parity", "passed", 0, ""); /* of the call before */
}

/* What the results have of a goal; the caller decrefs *results. */
static const json_t *find_goal(const char *name, json_t **results)
{
    const json_t *found = NULL;
    *results = json_load_file(test_shared_path("out/gpu-results.json"), 0, NULL);
    const json_t *goals = json_object_get(*results, "goals");
    for (size_t i = 0; i < json_array_size(goals); i++) {
        const json_t *at = json_array_get(goals, i);
        found = strcmp(json_string_value(json_object_get(at, "goal")), name) == 0 ? at : found;
    }
    assert_non_null(found);
    return found;
}

static void check_goal(const char *name, const char *wanted, double measured, bool met)
{
    json_t *results = NULL;
    const json_t *goal = find_goal(name, &results);
    assert_string_equal(json_string_value(json_object_get(goal, "wanted")), wanted);
    assert_true(fabs(json_number_value(json_object_get(goal, "measured")) - measured) < 1e-9);
    assert_true(json_is_boolean(json_object_get(goal, "met")));
    assert_int_equal(json_is_true(json_object_get(goal, "met")), met);
    json_decref(results);
}

/* 250 MB of weights in 250 us, and a copy of 1.25e12 bytes a second: 0.8. */
static void figures_stand_beside_their_goals(void **state)
{
    json_t *results = NULL;
    (void)state;
    assert_int_equal(run("", "300", "speed", NULL), 0);
    check_goal("GPT-2 XL decoding, bfloat16, share of the copy bandwidth", ">= 0.6", 0.8, true);
    check_goal("the same, microseconds a token", "<= 300", 250, true);
    check_goal("an all-reduce: microseconds of the host over NCCL itself, one rank", "<= 1", 1.5,
               false);
    check_goal("GPT-2 training, bfloat16: memory that is used over the formula", "<= 1.1", 1.05,
               true);
    check_goal("the same where ours calls NCCL, as more ranks do", "<= 1", 6.5, false);
    assert_true(json_is_null(
        json_object_get(find_goal("MiniGPT training over PyTorch eager", &results), "met")));
    json_decref(results);
    assert_non_null(strstr(program.text[TEST_STDOUT],
                           "| the same, microseconds a token | <= 300 | 250 | yes |"));
    assert_non_null(strstr(program.text[TEST_STDOUT], "| speed: copy_bytes_per_s | 1.25e+12 |"));
}

/* Parts that fail are named, and the next ones run. Answers with --exact have to be the CPU's. */
static void a_part_that_fails_does_not_stop_the_next(void **state)
{
    json_t *results = NULL;
    (void)state;
    assert_int_equal(run("drifts differs slow-copy", "300", "nccl", "speed"), 1);
    check("nccl", "failed", 1,
          "nccl_train curve_difference 60 --ranks 1: curve_difference: losses differ by 0.00831 "
          "from the CPU's; nccl_train exact_curve_difference 60 --ranks 1 --exact: "
          "exact_curve_difference: losses differ by 0.00831 from the CPU's; "
          "nccl_answers exact_ 0 --ranks 1 --exact: exact_answers differ from the CPU's: "
          "answers 10 answers_different 1 answers_logit_gap 2e-5; "
          "nccl_train two_ranks_curve_difference 20 --ranks 2 --share-gpu --micro-batches 1 "
          "--steps 20: two_ranks_curve_difference: losses differ by 0.00831 from the CPU's; "
          "nccl_answers two_ranks_ 0 --ranks 2 --exact --share-gpu: two_ranks_answers differ from "
          "the CPU's: answers 10 answers_different 1 answers_logit_gap 2e-5");
    check("speed", "failed", 1, "speed_copy: gpu-measure ended with 1: no copy");
    check_goal("the same, microseconds a token", "<= 300", 250, true);
    assert_true(json_is_null(json_object_get(
        find_goal("GPT-2 XL decoding, bfloat16, share of the copy bandwidth", &results), "met")));
    json_decref(results);
}

static void a_phase_that_fails_does_not_stop_the_next(void **state)
{
    (void)state;
    assert_int_equal(run_only("kernels|bench", "broken", "150", "parity", "nccl"), 1);
    check("parity", "failed", 1, "gpu-parity: [  FAILED  ] layernorm");
    check("nccl", "passed", 0, "only what matches kernels|bench");
}

static void a_phase_that_hangs_is_ended(void **state)
{
    (void)state;
    assert_int_equal(run("hangs", "1", "parity", NULL), 1);
    check("parity", "failed", 124, "no end after 1 s");
    test_program_wait_no_children();
}

/* The script is ended in the second of two phases, behind a part that has left a figure. */
static void a_script_that_is_ended_keeps_what_it_has(void **state)
{
    (void)state;
    test_program_start(&program,
                       (const char *const[]){RUN_PATH, "--bundle", bundle, "--out",
                                             test_shared_path("out"), "nccl", "speed", NULL},
                       (const char *const[]){"FAKE=slow-host", NULL});
    const char *figures = test_shared_path("out/phases/speed.figures");
    (void)unlink(figures);
    for (int i = 0; i < 600 && access(figures, F_OK) != 0; i++) {
        (void)usleep(50 * 1000);
    }
    assert_int_equal(kill(program.pid, SIGTERM), 0);
    assert_int_equal(test_program_wait(&program), 143);
    check("nccl", "passed", 0, "");
    check("speed", "failed", 143, "it began, and the script was ended meanwhile");
    json_t *results = NULL;
    assert_true(json_is_null(
        json_object_get(find_goal("the same, microseconds a token", &results), "met")));
    json_decref(results);
    test_program_wait_no_children();
}

/* What a phase leaves running of the bundle's programs is ended, so that the next one has the GPU. */
static void what_a_phase_leaves_is_ended(void **state)
{
    (void)state;
    assert_int_equal(run("leaves", "150", "parity", NULL), 0);
    check("parity", "passed", 0, "");
    assert_non_null(strstr(program.text[TEST_STDERR], "ended 1 processes that parity had left"));
}

/* A later call on another machine goes on where OUT's archive ended. */
static void an_archive_of_results_is_gone_on_with(void **state)
{
    char command[4 * BASE_PATH_BYTES];
    (void)state;
    assert_int_equal(run("", "150", "parity", NULL), 0);
    (void)snprintf(command, sizeof command,
                   "cd '%s' && mv out/gpu-results.tar.gz . && rm -rf out && mkdir out && "
                   "mv gpu-results.tar.gz out/",
                   test_shared_path(""));
    assert_int_equal(system(command), 0);
    assert_int_equal(run("", "150", "nccl", NULL), 0);
    check("parity", "passed", 0, "");
    check("nccl", "passed", 0, "");
}

static void without_a_gpu_each_says_why(void **state)
{
    (void)state;
    static const char *const names[] = {"parity", "compute-sanitizer", "nccl", "faults", "speed",
                                        "torch"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i += 2) {
        assert_int_equal(run("no-gpu", "150", names[i], names[i + 1]), 0);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check(names[i], "skipped", 9, "launcher: error: no \"driver\" here");
    }
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    assert_int_equal(run("", "150", "praity", NULL), 2);
    assert_non_null(strstr(program.text[TEST_STDERR], "there is no phase praity"));
    assert_int_equal(run_only("(", "", "150", NULL, NULL), 2);
    assert_non_null(strstr(program.text[TEST_STDERR], "( is no regular expression"));
}

/* Of a phase the parts that match run, and one without such a part has not passed. */
static void parts_can_be_chosen(void **state)
{
    (void)state;
    assert_int_equal(run_only("minigpt", "slow-copy", "300", "speed", NULL), 0);
    check("speed", "passed", 0, "only what matches minigpt");
    assert_int_equal(run("", "300", "--only=nothing like it", "speed"), 0);
    check("speed", "skipped", 77, "it has no part that matches nothing like it");
}

/* The phases' checkpoints are drawn by a fake program, too, and this disk need have no room for them. */
static int say_there_is_room(void)
{
    char command[2 * BASE_PATH_BYTES];
    char path[2 * BASE_PATH_BYTES];
    const char *directory = test_shared_path("tools");
    (void)snprintf(path, sizeof path, "%s:%s", directory, getenv("PATH"));
    (void)snprintf(
        command, sizeof command,
        "mkdir '%s' && printf '#!/bin/sh\necho\necho / 1 1 99000000 1%%%% /\n' >'%s/df' && "
        "chmod +x '%s/df'",
        directory, directory, directory);
    return system(command) == 0 ? setenv("PATH", path, 1) : -1;
}

static int make_bundle(void **state)
{
    char command[3 * BASE_PATH_BYTES];
    if (test_shared_directory_make(state) != 0) {
        return -1;
    }
    (void)snprintf(bundle, sizeof bundle, "%s", test_shared_path("bundle.tar.gz"));
    (void)snprintf(command, sizeof command,
                   "cd '%s' && mkdir -p bundle/bin && for name in launcher gpu-parity "
                   "budget-service coll-bench gpu-measure random-checkpoint; do cp '%s' "
                   "bundle/bin/$name; done && "
                   "bundle/bin/launcher --out bundle/reference && "
                   "echo --steps 60 >bundle/reference/flags && tar -czf bundle.tar.gz bundle",
                   test_shared_path(""), FAKE_PROGRAM_PATH);
    return system(command) == 0 ? say_there_is_room() : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_that_pass_are_kept_with_their_figures),
        cmocka_unit_test(figures_stand_beside_their_goals),
        cmocka_unit_test(a_part_that_fails_does_not_stop_the_next),
        cmocka_unit_test(a_phase_that_fails_does_not_stop_the_next),
        cmocka_unit_test(a_phase_that_hangs_is_ended),
        cmocka_unit_test(a_script_that_is_ended_keeps_what_it_has),
        cmocka_unit_test(what_a_phase_leaves_is_ended),
        cmocka_unit_test(an_archive_of_results_is_gone_on_with),
        cmocka_unit_test(without_a_gpu_each_says_why),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(parts_can_be_chosen),
    };
    return cmocka_run_group_tests(tests, make_bundle, test_shared_directory_remove);
}
