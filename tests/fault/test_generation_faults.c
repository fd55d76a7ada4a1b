/* Faults while ranks decode with one model. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "program.h"
#include "rank/checkpoint.h"
#include "rank/tokenizer.h"
#include "support.h"

enum { PROMPTS = 20000 }; /* more than can be answered before a rank is gone */

static const char tokenizer_path[] = ORACLE_DIRECTORY "/tokenizer.json";
static test_directory directory;
static char prompts_path[BASE_PATH_BYTES];
static test_program program; /* its buffers are big */

static void write_checkpoint(void)
{
    base_error error;
    rank_tokenizer *tokenizer = NULL;
    assert_ok(rank_tokenizer_load(tokenizer_path, &tokenizer, &error), &error);
    const rank_model_config config = {.family = rank_family_default(),
                                      .vocab_size = rank_tokenizer_vocab_size(tokenizer),
                                      .width = 64,
                                      .layers = 2,
                                      .heads = 4,
                                      .context = 64};
    float *params = calloc(rank_model_param_count(&config), sizeof *params);
    assert_non_null(params);
    rank_model_init(&config, 3, params);
    assert_ok(rank_checkpoint_write(directory.path,
                                    &(rank_checkpoint_about){.config = &config,
                                                             .tokenizer_path = tokenizer_path,
                                                             .end_id = config.vocab_size - 1,
                                                             .prompt_suffix = "",
                                                             .type = RANK_FLOAT32},
                                    params, &error),
              &error);
    rank_tokenizer_destroy(tokenizer);
    free(params);
}

static int setup(void **state)
{
    (void)state;
    base_error error;
    static const char line[] = "the boy\n";
    static char text[PROMPTS * (sizeof line - 1)];
    test_directory_make(&directory);
    write_checkpoint();
    for (size_t i = 0; i < PROMPTS; i++) {
        memcpy(text + i * (sizeof line - 1), line, sizeof line - 1);
    }
    (void)snprintf(prompts_path, sizeof prompts_path, "%s",
                   test_directory_path(&directory, "prompts"));
    assert_ok(base_file_write(prompts_path, text, sizeof text, &error), &error);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_directory_remove(&directory);
    return 0;
}

/* The launcher's children by rising pid, which is the ranks' order. */
static long rank_pid(int rank)
{
    char path[64];
    char text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", program.pid, program.pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    const size_t got = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[got] = '\0';
    char *at = text;
    for (int i = 0; i < rank; i++) {
        (void)strtol(at, &at, 10);
    }
    return strtol(at, NULL, 10);
}

static void a_killed_rank_ends_the_generation(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        char named[64];
        test_program_start(&program,
                           (const char *const[]){LAUNCHER_PATH, "--ranks", "2", "--mode", "tp-cpu",
                                                 "--checkpoint", directory.path, "--tokenizer",
                                                 tokenizer_path, "--prompts", prompts_path,
                                                 "--ignore-eos", "--max-new-tokens", "50",
                                                 "--no-bind", "--timeout", "40", NULL},
                           (const char *const[]){NULL});
        test_program_wait_text(&program, TEST_STDOUT, "\n"); /* the first answer */
        const long pid = rank_pid(rank);
        assert_true(pid > 1);
        assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
        assert_int_equal(test_program_wait(&program), 137);
        test_program_assert_no_children();
        (void)snprintf(named, sizeof named,
                       "rank %d (pid %ld) was ended by SIGKILL while answering", rank, pid);
        if (strstr(program.text[TEST_STDERR], named) == NULL) {
            fail_msg("'%s' is not in: %s", named, program.text[TEST_STDERR]);
        }
    }
}

/* A rank that is stopped is named, and the job ends without it. */
static void a_stopped_rank_is_named(void **state)
{
    (void)state;
    char named[64];
    test_program_start(&program,
                       (const char *const[]){LAUNCHER_PATH, "--ranks", "2", "--mode", "tp-cpu",
                                             "--checkpoint", directory.path, "--tokenizer",
                                             tokenizer_path, "--prompts", prompts_path,
                                             "--ignore-eos", "--max-new-tokens", "50", "--no-bind",
                                             "--timeout", "5", NULL},
                       (const char *const[]){NULL});
    test_program_wait_text(&program, TEST_STDOUT, "\n");
    const long pid = rank_pid(1);
    assert_true(pid > 1);
    assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
    assert_int_not_equal(test_program_wait(&program), 0);
    test_program_assert_no_children();
    /* the launcher gives up waiting, or rank 0's collective does: both name it */
    (void)snprintf(named, sizeof named, "pid %ld", pid);
    const char *failure = strstr(program.text[TEST_STDERR], "launcher: error: ");
    if (failure == NULL || strstr(failure, named) == NULL || strstr(failure, "stopped") == NULL) {
        fail_msg("it is not said that %s is stopped: %s", named, program.text[TEST_STDERR]);
    }
}

/* Starts a job that takes requests, and returns its input, once the first request is answered in
 * part. */
static int start_answering(void)
{
    static const char line[] = "{\"prompt\":\"the boy\",\"max_new_tokens\":60}\n";
    const int input =
        test_program_start_fed(&program,
                               (const char *const[]){LAUNCHER_PATH,
                                                     "--ranks",
                                                     "2",
                                                     "--mode",
                                                     "tp-cpu",
                                                     "--checkpoint",
                                                     directory.path,
                                                     "--tokenizer",
                                                     tokenizer_path,
                                                     "--prompts",
                                                     "-",
                                                     "--stream",
                                                     "json",
                                                     "--ignore-eos",
                                                     "--no-bind",
                                                     "--timeout",
                                                     "40",
                                                     "--out",
                                                     test_directory_path(&directory, "requests"),
                                                     NULL},
                               (const char *const[]){NULL});
    assert_int_equal(write(input, line, sizeof line - 1), sizeof line - 1);
    test_program_wait_text(&program, TEST_STDOUT, "\"tokens\"");
    return input;
}

static size_t count_events(const char *kind)
{
    char begin[64];
    (void)snprintf(begin, sizeof begin, "{\"event\":\"%s\"", kind);
    return (size_t)test_count(program.text[TEST_STDOUT], begin);
}

/* A rank dies while requests come, or while none does: it is named, and each accepted request gets
 * an end. */
static void a_rank_that_dies_ends_all_requests(void **state)
{
    (void)state;
    static const char more[] = "{\"prompt\":\"they\",\"max_new_tokens\":60}\n";
    for (int i = 0; i < 4; i++) {
        char named[64];
        const int rank = i % 2;
        const bool idle = i >= 2;
        const int input = start_answering();
        const long pid = rank_pid(rank);
        assert_true(pid > 1);
        if (idle) {
            test_program_wait_text(&program, TEST_STDOUT, "\"finished\"");
        } else {
            assert_int_equal(kill((pid_t)pid, SIGSTOP), 0); /* nothing is answered from here on */
            assert_int_equal(write(input, more, sizeof more - 1), sizeof more - 1);
        }
        assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
        assert_int_equal(test_program_wait(&program), 137);
        (void)close(input);
        test_program_assert_no_children();
        (void)snprintf(named, sizeof named,
                       "rank %d (pid %ld) was ended by SIGKILL while answering", rank, pid);
        assert_non_null(strstr(program.text[TEST_STDERR], named));
        assert_true(count_events("accepted") > 0);
        assert_int_equal(count_events("accepted"), count_events("finished"));
    }
}

/* On a full disk there is no results.json, or the whole one of before: nothing is cut, and the job
 * says so. A limit on the size of rank 0's files acts like a full disk, except for the errno. */
static void a_full_disk_leaves_no_part_of_a_record(void **state)
{
    (void)state;
    static const char old[] = "{\"total\":\"old\"}\n";
    base_error error;
    char path[BASE_PATH_BYTES + 16];
    const struct rlimit small = {.rlim_cur = 64, .rlim_max = 64};
    (void)snprintf(path, sizeof path, "%s/results.json",
                   test_directory_path(&directory, "requests"));
    (void)unlink(path);
    for (int had_one = 0; had_one < 2; had_one++) {
        size_t data_bytes = 0;
        if (had_one) { /* what was left empty is gone */
            assert_ok(base_mkdirs(test_directory_path(&directory, "requests"), &error), &error);
            assert_ok(base_file_write(path, old, sizeof old - 1, &error), &error);
        }
        const int input = start_answering();
        assert_int_equal(prlimit((pid_t)rank_pid(0), RLIMIT_FSIZE, &small, NULL), 0);
        (void)close(input);
        assert_int_equal(test_program_wait(&program), 1);
        test_program_assert_no_children();
        assert_non_null(strstr(program.text[TEST_STDERR], "results.json: File too large"));
        assert_null(strstr(program.text[TEST_STDERR], "record: "));
        if (had_one) {
            void *data = test_file_read(path, &data_bytes);
            assert_int_equal(data_bytes, sizeof old - 1);
            assert_memory_equal(data, old, data_bytes);
            free(data);
        } else {
            assert_int_not_equal(access(path, F_OK), 0);
        }
    }
}

static void a_killed_launcher_leaves_nothing(void **state)
{
    (void)state;
    const int input = start_answering();
    assert_int_equal(kill(program.pid, SIGKILL), 0);
    assert_int_equal(test_program_wait(&program), 137);
    (void)close(input);
    test_program_wait_no_children();
}

/* What stands where results.json has to go cannot be replaced, as on a disk that is full: the texts
 * are printed, and the job fails and names the file. */
static void results_that_cannot_be_written_fail_the_job(void **state)
{
    (void)state;
    base_error error;
    const int input = start_answering();
    (void)unlink(
        test_directory_path(&directory, "requests/results.json")); /* of the tests before */
    assert_ok(base_mkdirs(test_directory_path(&directory, "requests/results.json/in"), &error),
              &error);
    (void)close(input);
    assert_int_equal(test_program_wait(&program), 1);
    test_program_assert_no_children();
    assert_true(program.text_bytes[TEST_STDOUT] > 0);
    if (strstr(program.text[TEST_STDERR], "results.json") == NULL) {
        fail_msg("results.json is not named: %s", program.text[TEST_STDERR]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_ends_the_generation),
        cmocka_unit_test(a_stopped_rank_is_named),
        cmocka_unit_test(a_rank_that_dies_ends_all_requests),
        cmocka_unit_test(a_full_disk_leaves_no_part_of_a_record),
        cmocka_unit_test(a_killed_launcher_leaves_nothing),
        cmocka_unit_test(results_that_cannot_be_written_fail_the_job),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
