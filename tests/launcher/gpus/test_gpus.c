/* `launcher gpus`: with a driver of two GPUs, with one that does not work, and with none. */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "program.h"
#include "support.h"

static test_program program;

static void run(const char *library_path, const char *fault, int expected,
                const char *expected_text)
{
    char path[BASE_PATH_BYTES];
    char fake[64];
    (void)snprintf(path, sizeof path, "LD_LIBRARY_PATH=%s", library_path);
    (void)snprintf(fake, sizeof fake, "FAKE_NVML=%s", fault);
    test_program_start(&program, (const char *const[]){LAUNCHER_PATH, "gpus", NULL},
                       (const char *const[]){path, fake, NULL});
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
    run(FAKE_NVML_DIRECTORY, "", BASE_EXIT_DONE,
        "driver 580.65.06\n"
        "GPU 0: NVIDIA H200, GPU-aaaa\n"
        "  memory 147456 MiB, 147456 MiB free\n"
        "  MIG off\n"
        "  NVLinks 12\n"
        "  used by nobody\n"
        "GPU 1: NVIDIA H200, GPU-bbbb\n"
        "  memory 147456 MiB, 146432 MiB free\n"
        "  MIG -\n"
        "  NVLinks 0\n"
        "  used by pid 41, pid 42\n");
    assert_non_null(
        strstr(program.text[TEST_STDOUT], "\n   0   same nvlink\n   1    p2p   same\n"));
}

static void what_is_not_there_is_one_line(void **state)
{
    (void)state;
    run(FAKE_NVML_DIRECTORY, "none", BASE_EXIT_NO_GPU, "the NVIDIA driver has no GPU");
    run(FAKE_NVML_DIRECTORY, "broken", BASE_EXIT_NO_GPU,
        "the NVIDIA driver does not work: Driver Not Loaded");
    assert_string_equal(program.text[TEST_STDOUT], "");
}

/* A machine with a driver of its own has no such case. */
static void no_driver_is_one_line(void **state)
{
    (void)state;
    test_program_start(&program, (const char *const[]){LAUNCHER_PATH, "gpus", NULL}, NULL);
    const int exit_status = test_program_wait(&program);
    if (exit_status == BASE_EXIT_DONE) {
        skip();
    }
    assert_int_equal(exit_status, BASE_EXIT_NO_GPU);
    assert_non_null(strstr(program.text[TEST_STDERR], "NVIDIA driver"));
    assert_ptr_equal(strchr(program.text[TEST_STDERR], '\n'),
                     strrchr(program.text[TEST_STDERR], '\n'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_the_driver_says_is_printed),
        cmocka_unit_test(what_is_not_there_is_one_line),
        cmocka_unit_test(no_driver_is_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
