/* What tests/gpu/run.sh makes of its phases, over a bundle of fake programs: what passes, fails, hangs
 * or has no GPU; its results; its exit code. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

static test_program program;
static char bundle[BASE_PATH_BYTES];

/* Runs these phases. Their lines are in program.text. Returns the exit code. */
static int run(const char *fake, const char *limit, const char *phase, const char *second)
{
    char variable[64];
    (void)snprintf(variable, sizeof variable, "FAKE=%s", fake);
    test_program_start(&program,
                       (const char *const[]){
                           RUN_PATH, "--bundle", bundle, "--limit", limit, "--out",
                           test_directory_path(&test_shared_directory, "out"), phase, second, NULL},
                       (const char *const[]){variable, NULL});
    return test_program_wait(&program);
}

/* What the results have of a phase, and nothing else; the caller decrefs. */
static void check(const char *phase, const char *status, int exit_code, const char *reason)
{
    json_error_t error;
    json_t *results = json_load_file(
        test_directory_path(&test_shared_directory, "out/gpu-results.json"), 0, &error);
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
    assert_int_equal(run("", "30", "parity", NULL), 0);
    check("parity", "passed", 0, "");
    assert_int_equal(run("", "30", "nccl", NULL), 0);
    check("nccl", "passed", 0, "");
    check("parity", "passed", 0, ""); /* of the call before */
    assert_int_equal(run("drifts", "30", "nccl", NULL), 1);
    check("nccl", "failed", 1, "curve_difference: losses differ by 0.00831 from the CPU's");
}

static void a_phase_that_fails_does_not_stop_the_next(void **state)
{
    (void)state;
    assert_int_equal(run("broken", "30", "parity", "nccl"), 1);
    check("parity", "failed", 1, "[  FAILED  ] layernorm");
    check("nccl", "passed", 0, "");
}

static void a_phase_that_hangs_is_ended(void **state)
{
    (void)state;
    assert_int_equal(run("hangs", "1", "parity", NULL), 1);
    check("parity", "failed", 124, "no end after 1 s");
    test_program_wait_no_children();
}

static void without_a_gpu_each_says_why(void **state)
{
    (void)state;
    static const char *const names[] = {"parity", "compute-sanitizer", "nccl", "faults", "speed",
                                        "torch"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i += 2) {
        assert_int_equal(run("no-gpu", "30", names[i], names[i + 1]), 0);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check(names[i], "skipped", 9, "launcher: error: no \"driver\" here");
    }
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    assert_int_equal(run("", "30", "praity", NULL), 2);
    assert_non_null(strstr(program.text[TEST_STDERR], "there is no phase praity"));
}

static int make_bundle(void **state)
{
    (void)state;
    char command[3 * BASE_PATH_BYTES];
    (void)snprintf(bundle, sizeof bundle, "%s",
                   test_directory_path(&test_shared_directory, "bundle.tar.gz"));
    (void)snprintf(command, sizeof command,
                   "cd '%s' && mkdir -p bundle/bin && for name in launcher gpu-parity "
                   "budget-service coll-bench; do cp '%s' bundle/bin/$name; done && "
                   "bundle/bin/launcher --out bundle/reference && "
                   "echo --steps 60 >bundle/reference/flags && tar -czf bundle.tar.gz bundle",
                   test_directory_path(&test_shared_directory, ""), FAKE_PROGRAM_PATH);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases_that_pass_are_kept_with_their_figures),
        cmocka_unit_test(a_phase_that_fails_does_not_stop_the_next),
        cmocka_unit_test(a_phase_that_hangs_is_ended),
        cmocka_unit_test(without_a_gpu_each_says_why),
        cmocka_unit_test(what_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, make_bundle, NULL);
}
