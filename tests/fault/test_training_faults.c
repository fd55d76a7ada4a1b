/* Faults while the real ranks train. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "training.h"

static training_run run; /* its buffers are big */

static const char endless[] = "100000000";

static void assert_says(const char *text)
{
    if (strstr(run.program.text[TEST_STDERR], text) == NULL) {
        fail_msg("'%s' is not in: %s", text, run.program.text[TEST_STDERR]);
    }
}

/* No half-written file is left in the run's directory. */
static void assert_no_temporary_files(void)
{
    DIR *directory = opendir(run.out);
    if (directory == NULL) { /* a rank can be killed before it is made */
        assert_int_equal(errno, ENOENT);
        return;
    }
    for (const struct dirent *entry = readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        const size_t length = strlen(entry->d_name);
        if (length > 4 && strcmp(entry->d_name + length - 4, ".tmp") == 0) {
            fail_msg("%s is left in the directory", entry->d_name);
        }
    }
    (void)closedir(directory);
}

static void a_killed_rank_ends_the_job(void **state)
{
    (void)state;
    static const struct {
        int stream;
        const char *moment; /* until this is printed */
        int rank;
    } cases[] = {
        {TEST_STDOUT, "sentences, the first", 0},
        {TEST_STDERR, "step ", 1},
        {TEST_STDERR, "step ", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_directory directory;
        char named[64];
        test_directory_make(&directory);
        training_start(&run, &directory, "out", (const char *const[]){"--steps", endless, NULL});
        test_program_wait_text(&run.program, cases[i].stream, cases[i].moment);
        const pid_t pid = training_rank_pid(&run, cases[i].rank);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(test_program_wait(&run.program), 137);
        test_program_assert_no_children();
        (void)snprintf(named, sizeof named, "rank %d (pid %d) was ended by SIGKILL", cases[i].rank,
                       pid);
        assert_says(named);
        assert_no_temporary_files();
        test_directory_remove(&directory);
    }
}

/* In a pipeline the others are in sends and receives, not in a collective of all ranks. */
static void a_killed_stage_ends_the_job(void **state)
{
    (void)state;
    static const struct {
        const char *ranks;
        const char *tensor; /* ranks that share a stage: they are in all-reduces of their own */
        int killed;
        const char *pipeline;
    } cases[] = {
        {"3", "1", 0, "gpipe"},       {"3", "1", 1, "1f1b"},        {"3", "1", 2, "gpipe"},
        {"2", "2", 1, "1f1b"},        {"4", "2", 0, "gpipe"},       {"4", "2", 3, "1f1b"},
        {"2", "1", 0, "interleaved"}, {"4", "1", 3, "interleaved"}, {"3", "1", 2, "zb-h1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int killed = cases[i].killed;
        test_directory directory;
        char named[64];
        test_directory_make(&directory);
        training_start(&run, &directory, "out",
                       (const char *const[]){"--mode", "pp-cpu", "--ranks", cases[i].ranks,
                                             "--tensor", cases[i].tensor, "--layers", "8",
                                             "--micro-batches", "4", "--pipeline",
                                             cases[i].pipeline, "--steps", endless, NULL});
        test_program_wait_text(&run.program, TEST_STDERR, "step ");
        const pid_t pid = training_rank_pid(&run, killed);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(test_program_wait(&run.program), 137);
        test_program_assert_no_children();
        (void)snprintf(named, sizeof named, "rank %d (pid %d) was ended by SIGKILL", killed, pid);
        assert_says(named);
        assert_no_temporary_files();
        test_directory_remove(&directory);
    }
}

/* All stages wait for one that hangs, some of them by way of others. The error names the one that says
 * nothing. */
static void a_stage_that_hangs_is_named(void **state)
{
    (void)state;
#ifndef __SANITIZE_ADDRESS__ /* it must be loaded before all others */
    /* in one pipeline, in two of two stages, in two shared stages, and in one of several chunks */
    for (int i = 0; i < 10; i++) {
        const int hung = i < 4 ? i : i < 6 ? i - 3 : i < 8 ? i - 5 : i - 7;
        test_directory directory;
        char named[64];
        test_directory_make(&directory);
        assert_int_equal(setenv("LD_PRELOAD", HANG_LIBRARY, 1), 0);
        training_start(&run, &directory, "out",
                       (const char *const[]){"--mode", "pp-cpu", "--ranks", "4", "--layers", "8",
                                             "--micro-batches", "4", "--timeout", "1", "--steps",
                                             endless, "--stages", i < 4 || i > 7 ? "0" : "2",
                                             "--tensor", i < 6 || i > 7 ? "1" : "2", "--pipeline",
                                             i > 7 ? "interleaved" : "gpipe", NULL});
        assert_int_equal(unsetenv("LD_PRELOAD"), 0);
        test_program_wait_text(&run.program, TEST_STDERR, "step ");
        const pid_t pid = training_rank_pid(&run, hung);
        assert_int_equal(tgkill(pid, pid, SIGUSR2), 0); /* the thread that trains */
        assert_int_equal(test_program_wait(&run.program), 1);
        test_program_assert_no_children();
        (void)snprintf(named, sizeof named, "; not heard of: rank %d (pid %d)\n", hung, pid);
        assert_says(named);
        test_directory_remove(&directory);
    }
#endif
}

/* Held-out sentences that take some hundred times as long as a step. */
static const char *many_sentences(const test_directory *directory)
{
    enum { SENTENCES = 4000, BYTES = 48 };
    static char text[SENTENCES * BYTES];
    size_t used = 0;
    for (int i = 0; i < SENTENCES; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "{\"text\":\"the old cat saw %d dogs\"}\n", i);
    }
    test_directory_put(directory, "many.jsonl", text);
    return test_directory_path(directory, "many.jsonl");
}

/* Of stages that evaluate, one is killed, or hangs: they are in sends and receives as in a step. */
static void a_stage_that_fails_in_an_evaluation_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *ranks, *tensor;
        int failing;
        const char *pipeline;
        bool hangs;
    } cases[] = {{"3", "1", 0, "gpipe", false},     {"3", "1", 2, "1f1b", false},
                 {"4", "2", 1, "gpipe", false},     {"2", "1", 1, "interleaved", false},
                 {"3", "1", 1, "gpipe", true},      {"4", "2", 3, "1f1b", true},
                 {"2", "1", 0, "interleaved", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_directory directory;
        char named[64];
        test_directory_make(&directory);
        char heldout[BASE_PATH_BYTES];
        (void)snprintf(heldout, sizeof heldout, "%s", many_sentences(&directory));
#ifdef __SANITIZE_ADDRESS__
        if (cases[i].hangs) {
            break;
        }
#endif
        if (cases[i].hangs) {
            assert_int_equal(setenv("LD_PRELOAD", HANG_LIBRARY, 1), 0);
        }
        training_start(&run, &directory, "out",
                       FLAGS("--mode", "pp-cpu", "--ranks", cases[i].ranks, "--tensor",
                             cases[i].tensor, "--layers", "8", "--micro-batches", "4", "--pipeline",
                             cases[i].pipeline, "--steps", endless, "--eval-every", "1",
                             "--heldout", heldout, "--timeout", cases[i].hangs ? "1" : "40"));
        assert_int_equal(unsetenv("LD_PRELOAD"), 0);
        test_program_wait_text(&run.program, TEST_STDERR, "  held-out loss ");
        const pid_t pid = training_rank_pid(&run, cases[i].failing);
        assert_int_equal(tgkill(pid, pid, cases[i].hangs ? SIGUSR2 : SIGKILL), 0);
        assert_int_equal(test_program_wait(&run.program), cases[i].hangs ? 1 : 128 + SIGKILL);
        test_program_assert_no_children();
        (void)snprintf(named, sizeof named,
                       cases[i].hangs ? "; not heard of: rank %d (pid %d)\n"
                                      : "rank %d (pid %d) was ended by SIGKILL",
                       cases[i].failing, pid);
        assert_says(named);
        test_directory_remove(&directory);
    }
}

static void a_stopped_rank_ends_the_job(void **state)
{
    (void)state;
    char named[64];
    training_start(&run, &test_shared_directory, "out",
                   (const char *const[]){"--steps", endless, "--timeout", "2", NULL});
    test_program_wait_text(&run.program, TEST_STDERR, "step ");
    const pid_t pid = training_rank_pid(&run, 1);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(test_program_wait(&run.program), 1);
    test_program_assert_no_children();
    /* whether the launcher's time for it or its peer's runs out first */
    (void)snprintf(named, sizeof named, "error: rank 1 (pid %d) has been stopped", pid);
    assert_has(run.program.text[TEST_STDERR], named);
}

/* As systemd and Slurm end a service or a step: the step is finished, and the record is whole. */
static void a_signal_to_all_processes_is_the_launchers(void **state)
{
    (void)state;
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        test_directory directory;
        test_directory_make(&directory);
        training_start(&run, &directory, "out", (const char *const[]){"--steps", endless, NULL});
        test_program_wait_text(&run.program, TEST_STDERR, "step ");
        for (int rank = 0; rank < 2; rank++) {
            assert_int_equal(kill(training_rank_pid(&run, rank), signals[i]), 0);
        }
        assert_int_equal(kill(run.program.pid, signals[i]), 0);
        assert_int_equal(test_program_wait(&run.program), 128 + signals[i]);
        test_program_assert_no_children();
        assert_says("ending after the current step");
        json_t *manifest = training_manifest(&run);
        const char *message = json_string_value(json_object_get(manifest, "message"));
        assert_non_null(strstr(message, "after step"));
        json_decref(manifest);
        test_directory_remove(&directory);
    }
}

static void ranks_die_with_their_launcher(void **state)
{
    (void)state;
    training_start(&run, &test_shared_directory, "out",
                   (const char *const[]){"--steps", endless, NULL});
    test_program_wait_text(&run.program, TEST_STDERR, "step ");
    assert_int_equal(kill(run.program.pid, SIGKILL), 0);
    assert_int_equal(test_program_wait(&run.program), 137);
    test_program_wait_no_children();
}

enum { EXIT_NO_DISK = 77 };

/* Runs the launcher on a small disk of its own: a file system in a namespace. FILL: other files take so much
 * of it once the job has the file BEGUN. END: the job is asked to end then. */
static const char small_disk[] = "mount -t tmpfs -o size=\"$SIZE\" none \"$OUT\" || exit 77\n"
                                 "\"$@\" --out \"$OUT/out\" &\n"
                                 "if [ -n \"$FILL\" ]; then\n"
                                 "until [ -e \"$OUT/out/$BEGUN\" ]; do sleep 0.05; done\n"
                                 "head -c \"$FILL\" /dev/zero >\"$OUT/more\" 2>/dev/null\n"
                                 ": >\"$OUT/out/go\"\n"
                                 "[ -z \"$END\" ] || kill $!\n"
                                 "fi\n"
                                 "wait $!\n"
                                 "code=$?\n"
                                 "ls \"$OUT/out\" | grep -q '[.]tmp$' && exit 78\n"
                                 "[ -e \"$OUT/out/checkpoints/partial\" ] && exit 79\n"
                                 "exit $code\n";

static int run_on_disk(const char *script, const char *steps, const char *save_every,
                       const char *const *settings)
{
    const char *const flag = save_every != NULL ? "--save-every" : NULL;
    const char *variables[8] = {NULL};
    size_t count = 0;
    test_directory directory;
    char out[BASE_PATH_BYTES + 8];
    test_directory_make(&directory);
    (void)snprintf(out, sizeof out, "OUT=%s", directory.path);
    variables[count++] = out;
    for (size_t i = 0; settings[i] != NULL; i++) {
        variables[count++] = settings[i];
    }
    const char *const arguments[] = {
        "/usr/bin/unshare",
        "-rm",
        "/bin/sh",
        "-c",
        script,
        "sh",
        LAUNCHER_PATH,
        "--no-scaling",
        "--steps",
        steps,
        "--batch",
        "2",
        flag,
        save_every,
        "--resume",
        "--max-restarts",
        "1",
        NULL,
    };
    test_program_start(&run.program, arguments, variables);
    const int exit_status = test_program_wait(&run.program);
    test_program_assert_no_children();
    test_directory_remove(&directory);
    if (exit_status == EXIT_NO_DISK || strstr(run.program.text[TEST_STDERR], "unshare") != NULL) {
        skip(); /* a container that allows no namespaces */
    }
    return exit_status; /* 78, 79: half-written files were left */
}

static void a_disk_that_fills_up_is_named(void **state)
{
    (void)state;
    assert_int_equal(run_on_disk(small_disk, endless, NULL,
                                 FLAGS("SIZE=8m", "FILL=7m", "BEGUN=timings.jsonl", "END=yes")),
                     1);
    assert_says("No space left on device");
    assert_says("safetensors");
}

/* Three files of 470 528 numbers: nobody trains for hours before a disk is found too small. */
static void a_small_disk_is_named_at_the_start(void **state)
{
    (void)state;
    assert_int_equal(run_on_disk(small_disk, endless, NULL, FLAGS("SIZE=5m")), 1);
    assert_says("has room for 5.2 MB, and the job writes 5.6 MB at its end");
    assert_null(strstr(run.program.text[TEST_STDERR], "step 1/"));
}

/* When the disk is full, what is left of a checkpoint would only make it fuller. */
static void half_a_checkpoint_is_removed(void **state)
{
    (void)state;
    training_gate_at(20);
    assert_int_equal(run_on_disk(small_disk, endless, "20",
                                 FLAGS("SIZE=21m", "FILL=14m", "BEGUN=checkpoints/step-000000020")),
                     1);
    training_gate_at(0);
    assert_says("saving a checkpoint: ");
}

/* Two checkpoints of three files of 1.9 MB are kept, and as much is written beside them: at the beginning, and
 * no more where a job goes on that has been ended. */
static const char killed_on_disk[] =
    "mount -t tmpfs -o size=\"$SIZE\" none \"$OUT\" || exit 77\n"
    "\"$@\" --out \"$OUT/out\" &\n"
    "until [ -e \"$OUT/out/checkpoints/step-000000040\" ]; do sleep 0.05; done\n"
    "kill -9 $(cut -d ' ' -f 1 /proc/$!/task/$!/children)\n"
    ": >\"$OUT/out/go\"\n"
    "wait $!\n";

static void a_job_that_goes_on_needs_no_more_room(void **state)
{
    (void)state;
    training_gate_at(40);
    assert_int_equal(run_on_disk(killed_on_disk, "100", "20", FLAGS("SIZE=20m")), 0);
    training_gate_at(0);
    assert_says("starting again: attempt 2 of at most 2");
}

static void one_rank_of_many_is_one_cause(void **state)
{
    (void)state;
    /* more ranks than cores, and a rank that fails among many: still one line for the cause */
    training_start(&run, &test_shared_directory, "out",
                   (const char *const[]){"--ranks", "6", "--steps", endless, NULL});
    test_program_wait_text(&run.program, TEST_STDERR, "step ");
    assert_int_equal(kill(training_rank_pid(&run, 3), SIGABRT),
                     0); /* a sanitizer takes SIGSEGV for itself */
    assert_int_equal(test_program_wait(&run.program), 134);
    test_program_assert_no_children();
    const char *first = strstr(run.program.text[TEST_STDERR], "launcher: error: ");
    assert_non_null(first);
    assert_null(strstr(first + 1, "launcher: error: "));
    assert_says("rank 3 (pid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_ends_the_job),
        cmocka_unit_test(a_killed_stage_ends_the_job),
        cmocka_unit_test(a_stage_that_hangs_is_named),
        cmocka_unit_test(a_stage_that_fails_in_an_evaluation_is_named),
        TEST_IN_DIRECTORY(a_stopped_rank_ends_the_job),
        cmocka_unit_test(a_signal_to_all_processes_is_the_launchers),
        TEST_IN_DIRECTORY(ranks_die_with_their_launcher),
        cmocka_unit_test(a_disk_that_fills_up_is_named),
        cmocka_unit_test(a_small_disk_is_named_at_the_start),
        cmocka_unit_test(half_a_checkpoint_is_removed),
        cmocka_unit_test(a_job_that_goes_on_needs_no_more_room),
        TEST_IN_DIRECTORY(one_rank_of_many_is_one_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
