/* Whole jobs of well-behaved fake ranks under the real launcher: their output, and the files that
 * they leave. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "fake_job.h"

static test_program program; /* its buffers are big */

static void jobs_of_any_size_finish(void **state)
{
    (void)state;
    static const char *const sizes[] = {"1", "2", "3", "8"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const int exit_status =
            fake_job_run(&program, FLAGS("--ranks", sizes[i], "--steps", "4"), NULL);
        if (exit_status != 0) {
            fail_msg("%s ranks: exit status %d: %s", sizes[i], exit_status,
                     program.text[TEST_STDERR]);
        }
        assert_has(program.text[TEST_STDOUT], "loss: 6.2500 -> 1.5625 in 4 steps");
        assert_true(fake_job_left("out/manifest.json"));
    }
}

static void the_summary_says_what_happened(void **state)
{
    (void)state;
    assert_int_equal(fake_job_run(&program, FLAGS("--steps", "3"), NULL), 0);
    const char *out = program.text[TEST_STDOUT];
    assert_has(out, "tokens/s on 2 ranks");
    assert_has(out, "all-reduce p50 0.100 ms");
    assert_has(out, "byte-equal on all ranks: yes");
    assert_has(out, test_shared_path("out"));
    assert_has(program.text[TEST_STDERR], "step 3/3");

    assert_int_equal(fake_job_run(&program, FLAGS("--steps", "3", "--quiet"), NULL), 0);
    assert_string_equal(program.text[TEST_STDOUT], "");
    assert_string_equal(program.text[TEST_STDERR], "");
}

static void the_summary_names_the_layout(void **state)
{
    static const struct {
        const char *ranks, *stages, *tensor, *speed, *equal;
    } cases[] = {
        {"2", "2", "0", " tokens/s on 2 stages\n", "both copies of the tied matrix byte-equal"},
        {"4", "2", "0", " tokens/s on 2 pipelines of 2 stages\n",
         "parameters byte-equal in all pipelines"},
        {"2", "1", "2", " tokens/s on 1 stage of 2 ranks\n", "parameters byte-equal in all copies"},
        {"4", "2", "2", " tokens/s on 2 stages of 2 ranks\n",
         "parameters byte-equal in all copies"},
        {"8", "2", "2", " tokens/s on 2 pipelines of 2 stages of 2 ranks\n",
         "parameters byte-equal in all copies"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int exit_status = fake_job_run(&program,
                                             FLAGS("--mode", "pp-cpu", "--ranks", cases[i].ranks,
                                                   "--stages", cases[i].stages, "--tensor",
                                                   cases[i].tensor, "--steps", "3", "--overwrite"),
                                             NULL);
        if (exit_status != 0) {
            fail_msg("case %zu: %s", i, program.text[TEST_STDERR]);
        }
        assert_has(program.text[TEST_STDOUT], cases[i].speed);
        assert_has(program.text[TEST_STDOUT], cases[i].equal);
        char *manifest = fake_job_read("out/manifest.json");
        const bool shared = strcmp(cases[i].tensor, "2") == 0;
        assert_int_equal(strstr(manifest, "\"tensor_ms\": 0.15") != NULL, shared);
        free(manifest);
        char *lines = fake_job_read("out/timings.jsonl");
        assert_int_equal(strstr(lines, "\"part\": 1, ") != NULL, shared);
        assert_int_equal(strstr(lines, "\"tensor_ms\": 0.150000, ") != NULL, shared);
        free(lines);
    }
}

static void other_bits_of_a_host_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *variable;
        const char *in_manifest;
        bool warned;
    } cases[] = {{"FAKE_ISA=avx2", "\"instruction_set\": \"avx2\"", false},
                 {"FAKE_ISA=avx512", "\"instruction_set\": \"avx2+avx512\"", false},
                 {"FAKE_ISA=baseline", "\"instruction_set\": \"avx2+baseline\"", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(
            fake_job_run(&program, FLAGS("--steps", "2", "--overwrite"), FLAGS(cases[i].variable)),
            0);
        const char *warning =
            strstr(program.text[TEST_STDERR], ") computes with baseline, rank 0 (host ");
        assert_int_equal(warning != NULL, cases[i].warned);
        char *manifest = fake_job_read("out/manifest.json");
        assert_has(manifest, cases[i].in_manifest);
        free(manifest);
    }
}

/* The first step, each tenth of the job and the last step, whatever the machine's speed. */
static void progress_is_a_few_plain_lines(void **state)
{
    (void)state;
    static const struct {
        const char *steps;
        int lines;
    } jobs[] = {{"1", 1}, {"7", 7}, {"10", 10}, {"25", 10}, {"200", 11}};
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        char first[32];
        char last[32];
        assert_int_equal(
            fake_job_run(&program, FLAGS("--steps", jobs[i].steps, "--overwrite"), NULL), 0);
        const char *err = program.text[TEST_STDERR];
        assert_int_equal(test_count(err, "tokens/s"), jobs[i].lines);
        (void)snprintf(first, sizeof first, "step 1/%s ", jobs[i].steps);
        (void)snprintf(last, sizeof last, "step %s/%s ", jobs[i].steps, jobs[i].steps);
        assert_has(err, first);
        assert_has(err, last);
        assert_null(strchr(err, '\r'));
    }
    const char *err = program.text[TEST_STDERR];
    assert_has(err, "step 100/200  loss 0.0625  2.05M tokens/s  "
                    "all-reduce p50 0.10 ms  1 s left\n");
    assert_has(err, "step 200/200  loss 0.0312  2.05M tokens/s  "
                    "all-reduce p50 0.10 ms  0 s left\n");
}

/* A job of 50 steps whose ranks are measured afterwards. */
static void start_measured(const char *const *variables)
{
    const char *const arguments[] = {
        FAKE_LAUNCHER_PATH,
        "--data",
        test_shared_path("data.jsonl"),
        "--tokenizer",
        test_shared_path("tokenizer.json"),
        "--out",
        test_shared_path("out"),
        "--steps",
        "50",
        NULL,
    };
    test_program_start(&program, arguments, variables);
}

static void scaling_is_measured_after_the_job(void **state)
{
    (void)state;
    start_measured(NULL);
    assert_int_equal(test_program_wait(&program), 0);
    test_program_assert_no_children();
    const char *out = program.text[TEST_STDOUT];
    assert_has(out, "measured: 2048000 tokens/s on 2 ranks (2048000 to 2048000 in 3 "
                    "rounds), 2.00 x one rank\n");
    assert_has(out, "measured: 1024000 tokens/s on 1 rank (1024000 to 1024000 in 3 rounds)\n");
    char *manifest = fake_job_read("out/manifest.json");
    assert_has(manifest, "\"tokens_per_sec_1proc\": 1024000");
    assert_has(manifest, "\"tokens_per_sec_2proc\": 2048000");
    assert_has(manifest, "\"speedup\": 2.0,");
    assert_has(manifest, "\"rounds\": 3");
    assert_has(manifest, "\"scaling_failed\": []");
    free(manifest);
}

/* Two ranks cannot be 200 times as fast as one. */
static void a_suspect_speed_up_is_printed_as_such(void **state)
{
    (void)state;
    start_measured(FLAGS("FAKE_SLOW_ALONE=1"));
    assert_int_equal(test_program_wait(&program), 0);
    const char *out = program.text[TEST_STDOUT];
    assert_has(out, "on 2 ranks (2048000 to 2048000 in 3 rounds); the speed-up says "
                    "nothing\n");
    assert_null(strstr(out, "x one rank"));
    assert_has(out, "\nsuspect: 2 processes were 200.00 times as fast as one, ");
    char *manifest = fake_job_read("out/manifest.json");
    assert_has(manifest, "\"suspect\": \"2 processes were 200.00 times as fast ");
    free(manifest);
}

/* The job itself and its record are good. The failure afterwards is reported in both. */
static void a_failed_measurement_is_reported(void **state)
{
    (void)state;
    start_measured(FLAGS("FAKE_WHAT=fail", "FAKE_RANK=0", "FAKE_WORLD=1", "FAKE_AT=7"));
    assert_int_equal(test_program_wait(&program), 0);
    test_program_assert_no_children();
    assert_has(program.text[TEST_STDERR], "warning: measuring 1 rank failed: rank 0");
    assert_has(program.text[TEST_STDERR], "the disk is full");
    char *manifest = fake_job_read("out/manifest.json");
    assert_has(manifest, "\"tokens_per_sec_1proc\": null");
    assert_has(manifest, "\"reason\": \"rank 0 (pid ");
    assert_has(manifest, "Measuring one process alone failed (rank 0 (pid ");
    assert_has(manifest, "\"exit_status\": 0");
    assert_has(manifest, "\"message\": null");
    free(manifest);
}

/* Ctrl-C while scaling is measured ends the measuring, and says that the job is done. */
static void ctrl_c_ends_a_measurement(void **state)
{
    (void)state;
    start_measured(FLAGS("FAKE_WHAT=stop", "FAKE_RANK=0", "FAKE_WORLD=1", "FAKE_AT=7"));
    test_program_wait_text(&program, TEST_STDERR, "is stopped by SIGSTOP");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    test_program_wait_text(&program, TEST_STDERR,
                           "Ctrl-C: ending the measuring; the job itself is");
    assert_int_equal(kill(program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&program), 128 + SIGINT);
    test_program_assert_no_children();
    assert_null(strstr(program.text[TEST_STDERR], "failed"));
    assert_null(strstr(program.text[TEST_STDERR], "after the current step"));
    char *manifest = fake_job_read("out/manifest.json");
    assert_has(manifest, "\"reason\": \"stopped\"");
    assert_has(manifest, "stopped by SIGINT while measuring 1 rank, after the job itself was done");
    free(manifest);
}

/* If ranks have no CPUs of their own, stderr and the record say so. */
static void unbound_ranks_are_reported(void **state)
{
    (void)state;
    assert_int_equal(
        fake_job_run(&program, FLAGS("--steps", "2", "--threads-per-rank", "1024"), NULL), 0);
    assert_has(program.text[TEST_STDERR],
               "warning: ranks are not bound to CPUs of their own: 2048 CPUs wanted");
    char *manifest = fake_job_read("out/manifest.json");
    assert_has(manifest, "\"unbound_because\": \"2048 CPUs wanted, ");
    assert_has(manifest, "\"cpus\": null");
    free(manifest);

    assert_int_equal(fake_job_run(&program,
                                  FLAGS("--steps", "2", "--quiet", "--threads-per-rank", "1024"),
                                  NULL),
                     0);
    assert_string_equal(program.text[TEST_STDERR], "");

    assert_int_equal(fake_job_run(&program, FLAGS("--steps", "2", "--no-bind"), NULL), 0);
    assert_null(strstr(program.text[TEST_STDERR], "not bound"));
    manifest = fake_job_read("out/manifest.json");
    assert_has(manifest, "\"unbound_because\": \"--no-bind\"");
    free(manifest);
}

static void output_is_prefixed_and_collapsed(void **state)
{
    (void)state;
    const char *logs = test_shared_path("logs");
    assert_int_equal(fake_job_run(&program,
                                  FLAGS("--ranks", "3", "--steps", "5", "--log-dir", logs),
                                  FLAGS("FAKE_LINES=own")),
                     0);
    assert_has(program.text[TEST_STDOUT], "[rank 2] step 4 of 2\n");
    char *log = test_file_read(test_shared_path("logs/rank-1.log"), NULL);
    assert_string_equal(log, "step 0 of 1\nstep 1 of 1\nstep 2 of 1\nstep 3 of 1\nstep 4 of 1\n");
    free(log);

    /* whatever the timing, each rank prints every step, and each step once at most */
    assert_int_equal(
        fake_job_run(&program, FLAGS("--ranks", "3", "--steps", "1"), FLAGS("FAKE_LINES=same")), 0);
    const int lines = test_count(program.text[TEST_STDOUT], "] step 0\n");
    assert_in_range(lines, 1, 3);
}

/* Makes as much of a checkpoint as the launcher reads. Returns its path. */
static void make_model(char *model, size_t size_bytes)
{
    base_error error;
    test_shared_put("model/config.json", "{\"vocab_size\": 301, \"n_embd\": 128, \"n_layer\": 2, "
                                         "\"n_head\": 4, \"n_positions\": 64}");
    static const char tensors[] = "\2\0\0\0\0\0\0\0{}"; /* a header without a tensor */
    assert_ok(base_file_write(test_shared_path("model/model.safetensors"), tensors,
                              sizeof tensors - 1, &error),
              &error);
    (void)snprintf(model, size_bytes, "%s/model", test_shared_directory.path);
}

static void generated_texts_come_in_order(void **state)
{
    (void)state;
    char model[BASE_PATH_BYTES + 32]; /* test_directory_path has few buffers */
    char heldout[BASE_PATH_BYTES + 32];
    make_model(model, sizeof model);
    (void)snprintf(heldout, sizeof heldout, "%s/data.jsonl", test_shared_directory.path);
    assert_int_equal(
        fake_job_run(&program,
                     FLAGS("--mode", "generate", "--checkpoint", model, "--prompt",
                           "he goed to school", "--prompt", "two", "--eval", "--heldout", heldout),
                     NULL),
        0);
    char said[sizeof heldout + 128];
    (void)snprintf(said, sizeof said,
                   "he went to school\nhe went to school\n"
                   "held-out exact match: 456/500 (91.2 %%) on %s\n",
                   heldout);
    assert_string_equal(program.text[TEST_STDOUT], said);
    assert_false(fake_job_left("out"));
}

/* A checkpoint has only parameters. The first line says so. */
static void a_run_from_a_checkpoint_says_what_it_reads(void **state)
{
    (void)state;
    static const char first[] = "launcher: --checkpoint: the parameters are those of ";
    char model[BASE_PATH_BYTES + 32];
    make_model(model, sizeof model);
    const char *const flags[] = {"--steps", "3", "--checkpoint", model, "--quiet", NULL};
    assert_int_equal(fake_job_run(&program, flags, NULL), 0);
    assert_string_equal(program.text[TEST_STDERR], "");
    assert_int_equal(fake_job_run(&program, FLAGS("--steps", "3", "--checkpoint", model), NULL), 0);
    assert_memory_equal(program.text[TEST_STDERR], first, sizeof first - 1);
    assert_has(program.text[TEST_STDERR],
               "model; the optimizer is fresh, and the data starts from the "
               "beginning\n");
}

/* However --out is written, it is the same directory. */
static void out_is_one_directory_by_any_name(void **state)
{
    (void)state;
    static const char *const names[] = {"o/../out/.", "./out//", ".", "out/new/../..", "new/../x"};
    static const int exits[] = {0, 0, 1, 2, 2};
    char here[BASE_PATH_BYTES];
    base_error error;
    assert_ok(base_mkdirs(test_shared_path("o"), &error), &error);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(test_shared_directory.path), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int in_out = strcmp(names[i], ".") == 0;
        assert_int_equal(chdir(in_out ? test_shared_path("out") : test_shared_directory.path), 0);
        const int exit_status =
            fake_job_run(&program, FLAGS("--steps", "2", "--out", names[i]), NULL);
        if (exit_status != exits[i]) {
            fail_msg("%s: exit status %d, stderr: %s", names[i], exit_status,
                     program.text[TEST_STDERR]);
        }
        assert_true(fake_job_left("out/manifest.json"));
        assert_int_equal(fake_job_left("out.1/manifest.json"), i > 0);
        assert_false(fake_job_left("out.2"));
        if (in_out) {
            assert_has(program.text[TEST_STDERR], "you are in ");
            assert_int_equal(fake_job_run(&program, FLAGS("--out", ".", "--overwrite"), NULL), 0);
        }
    }
    assert_int_equal(chdir(here), 0);
    assert_false(fake_job_left("new"));
}

/* Of a new model in the step in which it has grown by half, of another at the end: once. The manifest has what is so
 * in the end. */
static void a_loss_that_grows_is_warned_of(void **state)
{
    (void)state;
    static const char *const variables[] = {"FAKE_WHAT=diverge", "FAKE_RANK=0", "FAKE_AT=4", NULL};
    assert_int_equal(fake_job_run(&program, FLAGS("--ranks", "1", "--steps", "4"), variables), 0);
    const char *warned = strstr(program.text[TEST_STDERR], "the loss grew");
    assert_non_null(warned);
    assert_has(program.text[TEST_STDERR],
               "warning: the loss grew from 6.25 to 25: a smaller --lr may help\n");
    assert_null(strstr(warned + 1, "the loss grew"));
    char *manifest = fake_job_read("out/manifest.json");
    assert_has(manifest, "\"loss_grew\": true");
    assert_has(manifest, "\"message\": \"the loss grew from 6.25 to 100: a smaller");
    free(manifest);
    assert_int_equal(fake_job_run(&program, FLAGS("--ranks", "1", "--steps", "1"), variables), 0);
    assert_null(strstr(program.text[TEST_STDERR], "the loss grew"));
    assert_int_equal(fake_job_run(&program, FLAGS("--ranks", "1", "--steps", "3"), variables), 0);
    assert_has(program.text[TEST_STDERR], "the loss grew from 6.25 to 25");
    manifest = fake_job_read("out/manifest.json");
    assert_has(manifest, "\"loss_grew\": false");
    assert_has(manifest, "\"message\": null");
    free(manifest);
}

/* No file may have more than 16 KiB, as on a full disk. No line may name a record that is not
 * complete. */
static void a_full_disk_leaves_no_record_to_point_to(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 16 * 1024, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int exit_status = fake_job_run(&program, FLAGS("--steps", "2000"), NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(exit_status, 1);
    assert_has(program.text[TEST_STDERR], "error: cannot write "); /* the first cause */
    assert_has(program.text[TEST_STDERR], "out/timings.jsonl: File too large");
    assert_null(strstr(program.text[TEST_STDOUT], "record: "));
    char *lines = fake_job_read("out/timings.jsonl");
    assert_int_equal(lines[strlen(lines) - 1], '\n');
    free(lines);
    char *manifest = fake_job_read("out/manifest.json");
    assert_has(manifest, "\"exit_status\": 1");
    free(manifest);
    assert_false(fake_job_left("out/manifest.json.tmp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_JOB_TEST(jobs_of_any_size_finish),
        FAKE_JOB_TEST(the_summary_says_what_happened),
        FAKE_JOB_TEST(progress_is_a_few_plain_lines),
        FAKE_JOB_TEST(scaling_is_measured_after_the_job),
        FAKE_JOB_TEST(a_suspect_speed_up_is_printed_as_such),
        FAKE_JOB_TEST(a_failed_measurement_is_reported),
        FAKE_JOB_TEST(ctrl_c_ends_a_measurement),
        FAKE_JOB_TEST(the_summary_names_the_layout),
        FAKE_JOB_TEST(other_bits_of_a_host_are_told),
        FAKE_JOB_TEST(unbound_ranks_are_reported),
        FAKE_JOB_TEST(output_is_prefixed_and_collapsed),
        FAKE_JOB_TEST(generated_texts_come_in_order),
        FAKE_JOB_TEST(a_run_from_a_checkpoint_says_what_it_reads),
        FAKE_JOB_TEST(out_is_one_directory_by_any_name),
        FAKE_JOB_TEST(a_full_disk_leaves_no_record_to_point_to),
        FAKE_JOB_TEST(a_loss_that_grows_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
