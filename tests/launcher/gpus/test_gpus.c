/* `launcher gpus`: with a driver of two GPUs, with one that does not work, and with none. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "gpus/watch.h"
#include "program.h"
#include "support.h"

static test_program program;

static void run(const char *flag, const char *fault, int expected, const char *expected_text)
{
    char path[BASE_PATH_BYTES];
    char fake[64];
    (void)snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", FAKE_NVML_DIRECTORY);
    (void)snprintf(fake, sizeof fake, "FAKE_NVML=%s", fault);
    test_program_start(&program, FLAGS(LAUNCHER_PATH, "gpus", flag), FLAGS(path, fake));
    const int exit_status = test_program_wait(&program);
    const char *said = program.text[expected == BASE_EXIT_DONE ? TEST_STDOUT : TEST_STDERR];
    if (exit_status != expected || strstr(said, expected_text) == NULL) {
        fail_msg("wanted %d and \"%s\", got %d: %s%s", expected, expected_text, exit_status,
                 program.text[TEST_STDOUT], program.text[TEST_STDERR]);
    }
}

static void all_that_the_driver_says_is_printed(void **state)
{
    (void)state;
    run(NULL, "", BASE_EXIT_DONE,
        "driver 580.65.06\n"
        "GPU 0: NVIDIA H200, GPU-aaaa\n"
        "  at fffe:19:00.0, NUMA node -\n"
        "  memory 147456 MiB, 147456 MiB free\n"
        "  MIG off\n"
        "  NVLinks 12\n"
        "  clocks 1980 MHz, memory 3201 MHz\n"
        "  power 691 W of 700 W, 71 C, slowed by power cap, hot\n"
        "  uncorrected memory errors 3\n"
        "  used by nobody\n"
        "GPU 1: NVIDIA H200, GPU-bbbb\n"
        "  at -, NUMA node -\n"
        "  memory 147456 MiB, 146432 MiB free\n"
        "  MIG -\n"
        "  NVLinks 0\n"
        "  clocks -, memory -\n"
        "  power - of -, -, slowed by -\n"
        "  uncorrected memory errors -\n"
        "  used by pid 41, pid 42\n");
    assert_has(program.text[TEST_STDOUT], "\n   0   same nvlink\n   1    p2p   same\n");
}

static void the_same_is_there_as_json(void **state)
{
    (void)state;
    json_error_t error;
    run("--json", "", BASE_EXIT_DONE, "\"memory_free_bytes\": 154618822656,\n");
    json_t *root = json_loads(program.text[TEST_STDOUT], JSON_REJECT_DUPLICATES, &error);
    assert_non_null(root);
    const json_t *gpus = json_object_get(root, "gpus");
    assert_int_equal(json_array_size(gpus), 2);
    const json_t *first = json_array_get(gpus, 0);
    const json_t *second = json_array_get(gpus, 1);
    assert_string_equal(json_string_value(json_object_get(first, "slowed_by")), "power cap, hot");
    assert_int_equal(json_integer_value(json_object_get(first, "uncorrected_memory_errors")), 3);
    assert_true(json_is_false(json_object_get(first, "mig")));
    assert_true(json_is_null(json_object_get(second, "mig")));
    assert_true(json_is_null(json_object_get(second, "sm_mhz")));
    assert_int_equal(json_integer_value(json_array_get(json_object_get(second, "used_by"), 1)), 42);
    assert_string_equal(json_string_value(json_array_get(json_object_get(second, "to"), 0)), "p2p");
    json_decref(root);
}

/* Two events: of a GPU that is lost, which has no ECC, and of the other's memory. */
static void what_happens_while_a_job_runs_is_kept(void **state)
{
    (void)state;
    char text[LAUNCH_GPU_FAULTS_BYTES];
    assert_int_equal(setenv("FAKE_NVML", "xid", 1), 0);
    launch_gpu_peak peak;
    launch_gpu_watch *watch = launch_gpu_watch_open();
    if (watch == NULL) {
        fail_msg("the fake NVML was not found: %s", getenv("LD_LIBRARY_PATH"));
    }
    assert_string_equal(launch_gpu_watch_faults(watch, NULL, 0, text),
                        "GPU 1 (GPU-bbbb): Xid 79: the GPU has fallen off the bus; "
                        "GPU 0 (GPU-aaaa): a memory error of two bits");
    assert_string_equal(launch_gpu_watch_faults(watch, NULL, 0, text), "");
    assert_false(launch_gpu_watch_peak(watch, "GPU-aaaa", &peak));
    launch_gpu_watch_sample(watch);
    assert_false(launch_gpu_watch_peak(watch, "GPU-cccc", &peak));
    assert_true(launch_gpu_watch_peak(watch, "GPU-aaaa", &peak));
    assert_int_equal(peak.sm_mhz, 1980);
    assert_int_equal(peak.milliwatts, 691000);
    assert_int_equal(peak.celsius, 71);
    assert_string_equal(peak.slowed_by, "power cap, hot");
    assert_true(launch_gpu_watch_peak(watch, "GPU-bbbb", &peak));
    assert_int_equal(peak.sm_mhz, -1);
    launch_gpu_watch_close(watch);
    assert_int_equal(setenv("FAKE_NVML", "none", 1), 0);
    assert_null(launch_gpu_watch_open());
    launch_gpu_watch_sample(NULL);
    launch_gpu_watch_close(NULL);
    assert_int_equal(unsetenv("FAKE_NVML"), 0);
}

/* The other one's events are of another job. */
static void faults_are_those_of_the_jobs_gpus(void **state)
{
    (void)state;
    char text[LAUNCH_GPU_FAULTS_BYTES];
    const char *const ours[] = {"GPU-dddd", "GPU-aaaa"};
    assert_int_equal(setenv("FAKE_NVML", "xid", 1), 0);
    launch_gpu_watch *watch = launch_gpu_watch_open();
    assert_non_null(watch);
    assert_string_equal(launch_gpu_watch_faults(watch, ours, 2, text),
                        "GPU 0 (GPU-aaaa): a memory error of two bits");
    launch_gpu_watch_close(watch);
    assert_int_equal(unsetenv("FAKE_NVML"), 0);
}

static void a_lost_gpu_does_not_hide_the_others(void **state)
{
    (void)state;
    json_error_t error;
    run(NULL, "first lost", BASE_EXIT_DONE, "GPU 0: NVIDIA H200, GPU-bbbb\n");
    assert_has(program.text[TEST_STDOUT], "\n1 more cannot be used: GPU is lost\n");
    run("--json", "first lost", BASE_EXIT_DONE, "");
    json_t *root = json_loads(program.text[TEST_STDOUT], JSON_REJECT_DUPLICATES, &error);
    assert_int_equal(json_array_size(json_object_get(root, "gpus")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "unusable")), 1);
    json_decref(root);
    run(NULL, "lost", BASE_EXIT_NO_GPU, "no GPU can be used: GPU is lost");
}

static void what_is_not_there_is_one_line(void **state)
{
    (void)state;
    run(NULL, "none", BASE_EXIT_NO_GPU, "the NVIDIA driver has no GPU");
    run(NULL, "broken", BASE_EXIT_NO_GPU, "the NVIDIA driver does not work: Driver Not Loaded");
    assert_string_equal(program.text[TEST_STDOUT], "");
}

/* A machine with a driver of its own has no such case. */
static void no_driver_is_one_line(void **state)
{
    (void)state;
    test_program_start(&program, FLAGS(LAUNCHER_PATH, "gpus"), FLAGS("LD_LIBRARY_PATH="));
    const int exit_status = test_program_wait(&program);
    if (exit_status == BASE_EXIT_DONE) {
        skip();
    }
    assert_int_equal(exit_status, BASE_EXIT_NO_GPU);
    assert_has(program.text[TEST_STDERR], "NVIDIA driver");
    assert_ptr_equal(strchr(program.text[TEST_STDERR], '\n'),
                     strrchr(program.text[TEST_STDERR], '\n'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_the_driver_says_is_printed),
        cmocka_unit_test(the_same_is_there_as_json),
        cmocka_unit_test(what_happens_while_a_job_runs_is_kept),
        cmocka_unit_test(faults_are_those_of_the_jobs_gpus),
        cmocka_unit_test(a_lost_gpu_does_not_hide_the_others),
        cmocka_unit_test(what_is_not_there_is_one_line),
        cmocka_unit_test(no_driver_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
