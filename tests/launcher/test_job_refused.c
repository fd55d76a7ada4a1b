/* Jobs that never begin: those that were not asked to, and those with an impossible flag, file or
 * directory. Each is refused in one line, and --out stays as it was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "fake_job.h"

static test_program program; /* its buffers are big */

static void a_dry_run_starts_nothing(void **state)
{
    (void)state;
    assert_int_equal(fake_job_run(&program, FLAGS("--dry-run", "--ranks", "2"), NULL), 0);
    const char *out = program.text[TEST_STDOUT];
    assert_has(out, "\"vocab_size\":301");
    assert_has(out, "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2");
    assert_has(out, "RINGFENCE_KEY_FD=(inherited)");
    assert_has(out, "state-rank-1.safetensors");
    assert_false(fake_job_left("out"));

    const char *file = test_shared_path("job.json");
    assert_int_equal(fake_job_run(&program, FLAGS("--write-job", file), NULL), 0);
    assert_true(fake_job_left("job.json"));
    assert_false(fake_job_left("out"));
}

static void wrong_usage_is_one_line_and_exit_code_2(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        /* flag, value, what the line names */
        {"--mode", "magic", "'magic'"},
        {"--no-such-flag", NULL, "--no-such-flag"},
        {"--ranks", "0", "--ranks"},
        {"--ranks", "two", "--ranks"},
        {"--ranks", "99999", "--ranks"},
        {"--ranks", "65", "mode ddp-cpu runs on 1 to 64 ranks"},
        {"--warmup", "101", "--warmup 101 is above --steps 100"},
        {"--scaling", "1,65", "--scaling 65"},
        {"--steps", NULL, "--steps"},
        {"--batch", "0", "--batch"},
        {"--batch", "65537", "--batch"},
        {"--context", "1", "--context"},
        {"--context", "100000", "--context"},
        {"--heads", "3", "heads 3"},
        {"--timeout", "0", "--timeout"},
        {"--max-price", "0", "--max-price: '0': must be above 0"},
        {"--max-price", "0.00", "--max-price: '0.00': must be above 0"},
        {"--max-hours", "0", "--max-hours: '0'"},
        {"--scaling", "1,0", "--scaling"},
        {"--scaling", "1,,2", "--scaling"},
        {"--transport", "pigeon", "pigeon"},
        {"--prompt", "hello", "--prompt goes with modes that answer (generate, tp-cpu, tp-nccl)"},
        {"--heldout", "/no/such/place", "--heldout goes with --eval"},
        {"--quiet=1", NULL, "--quiet"},
        {"extra", NULL, "'extra'"},
        {"--out", "", "--out"},
        {"-x", NULL, "-x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const flags[] = {cases[i][0], cases[i][1], NULL};
        const int exit_status = fake_job_run(&program, flags, NULL);
        const char *err = program.text[TEST_STDERR];
        if (exit_status != 2 || strstr(err, cases[i][2]) == NULL ||
            strchr(err, '\n') != err + strlen(err) - 1) {
            fail_msg("%s %s: exit status %d, stderr: %s", cases[i][0],
                     cases[i][1] != NULL ? cases[i][1] : "", exit_status, err);
        }
        assert_false(fake_job_left("out"));
    }
}

static void missing_files_are_one_line(void **state)
{
    (void)state;
    static const char *const flags[] = {"--data", "--tokenizer", "--checkpoint"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const int exit_status = fake_job_run(&program, FLAGS(flags[i], "/no/such/place"), NULL);
        const char *err = program.text[TEST_STDERR];
        assert_int_equal(exit_status, 2);
        assert_has(err, "/no/such/place");
        assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
    }
    /* a directory that cannot be written */
    assert_int_equal(fake_job_run(&program, FLAGS("--out", "/proc/nothing"), NULL), 1);
    assert_has(program.text[TEST_STDERR], "/proc/nothing");
}

/* A failure before the training leaves OUT as it was: missing, or a good record. */
static void a_failed_start_does_not_change_the_directory(void **state)
{
    (void)state;
    static const char *const points[] = {"0", "1", "2", "3"};
    for (int record = 0; record < 2; record++) {
        char *before = record != 0 ? fake_job_read("out/manifest.json") : NULL;
        for (size_t i = 0; i < 2 * sizeof points / sizeof points[0]; i++) {
            char at[32];
            (void)snprintf(at, sizeof at, "FAKE_AT=%s", points[i / 2]);
            const char *const flags[] = {i % 2 == 0 ? "--overwrite" : NULL, NULL};
            assert_int_equal(
                fake_job_run(&program, flags, FLAGS("FAKE_WHAT=kill", "FAKE_RANK=1", at)), 137);
            assert_null(strstr(program.text[TEST_STDOUT], "record: "));
            assert_int_equal(fake_job_left("out"), record);
        }
        assert_int_equal(
            fake_job_run(&program, FLAGS("--overwrite", "--log-dir", "/proc/no"), NULL), 1);
        assert_int_equal(fake_job_left("out"), record);
        assert_false(fake_job_left("out.1"));
        if (record != 0) {
            char *after = fake_job_read("out/manifest.json");
            assert_string_equal(before, after);
            free(after);
            free(before);
        } else {
            assert_int_equal(fake_job_run(&program, FLAGS("--steps", "2"), NULL), 0);
        }
    }
}

static void other_than_regular_files_are_refused_at_once(void **state)
{
    (void)state;
    static const char *const flags[] = {"--data", "--tokenizer", "--heldout"};
    char fifo[BASE_PATH_BYTES + 32]; /* test_directory_path has few buffers */
    char heldout[BASE_PATH_BYTES + 32];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", test_shared_directory.path);
    (void)snprintf(heldout, sizeof heldout, "%s/data.jsonl", test_shared_directory.path);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const char *const places[] = {fifo, "/dev/zero", test_shared_directory.path};
    for (size_t i = 0; i < 9; i++) {
        const int exit_status = fake_job_run(
            &program, FLAGS("--eval", "--heldout", heldout, flags[i / 3], places[i % 3]), NULL);
        const char *err = program.text[TEST_STDERR];
        assert_int_equal(exit_status, 2);
        assert_has(err, flags[i / 3]);
        assert_has(err, "not a regular file");
        assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
    }
}

/* A bad file gives exit code 2, as a bad flag does. */
static void a_bad_file_is_one_line_and_exit_code_2(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "{", "{}", "[]", "{\"model\": {\"vocab\": {}}}", "\xff\xfe",
    };
    static const char *const flags[] = {"--tokenizer", "--checkpoint"};
    base_error error;
    char model[BASE_PATH_BYTES + 32];
    char config[BASE_PATH_BYTES + 64];
    (void)snprintf(model, sizeof model, "%s/model", test_shared_directory.path);
    (void)snprintf(config, sizeof config, "%s/config.json", model);
    assert_ok(base_mkdirs(model, &error), &error);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_ok(base_file_write(config, texts[i], strlen(texts[i]), &error), &error);
        for (size_t j = 0; j < 2; j++) {
            const int exit_status =
                fake_job_run(&program, FLAGS(flags[j], j == 0 ? config : model), NULL);
            const char *err = program.text[TEST_STDERR];
            if (exit_status != 2 || strstr(err, config) == NULL ||
                strchr(err, '\n') != err + strlen(err) - 1) {
                fail_msg("%s with '%s': exit status %d, stderr: %s", flags[j], texts[i],
                         exit_status, err);
            }
            assert_false(fake_job_left("out"));
        }
    }
}

static void help_and_version_are_on_stdout(void **state)
{
    (void)state;
    assert_int_equal(fake_job_run(&program, FLAGS("--help"), NULL), 0);
    assert_has(program.text[TEST_STDOUT], "--micro-batches N");
    assert_string_equal(program.text[TEST_STDERR], "");
    assert_int_equal(fake_job_run(&program, FLAGS("--version"), NULL), 0);
    assert_has(program.text[TEST_STDOUT], "launcher (Ringfence) ");
    assert_has(program.text[TEST_STDOUT], " (sources ");
}

static void a_rank_by_hand_says_what_to_run(void **state)
{
    (void)state;
    test_program_start(&program, FLAGS(FAKE_RANK_PATH), NULL);
    assert_int_equal(test_program_wait(&program), 2);
    const char *err = program.text[TEST_STDERR];
    assert_has(err, "launcher --ranks");
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_JOB_TEST(a_dry_run_starts_nothing),
        FAKE_JOB_TEST(wrong_usage_is_one_line_and_exit_code_2),
        FAKE_JOB_TEST(missing_files_are_one_line),
        FAKE_JOB_TEST(a_failed_start_does_not_change_the_directory),
        FAKE_JOB_TEST(other_than_regular_files_are_refused_at_once),
        FAKE_JOB_TEST(a_bad_file_is_one_line_and_exit_code_2),
        FAKE_JOB_TEST(help_and_version_are_on_stdout),
        FAKE_JOB_TEST(a_rank_by_hand_says_what_to_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
