/* Trainings that end early and go on from their checkpoints: --save-every, --resume, --max-restarts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "proto/checkpoints.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

static const char STATE[] = "state-rank-0.safetensors";

/* Forty sentences: an epoch of two slots ends in the middle of a step's batches, every few steps. */
static const char *write_data(void)
{
    static char text[40 * 80];
    static char path[BASE_PATH_BYTES];
    size_t used = 0;
    base_error error;
    for (int i = 0; i < 40; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "{\"text\":\"the %.*scat number %d saw the dog\"}\n", i % 5 * 4,
                                 "old old old old old ", i);
    }
    (void)snprintf(path, sizeof path, "%s", test_shared_path("forty.jsonl"));
    assert_ok(base_file_write(path, text, used, &error), &error);
    return path;
}

static bool has_checkpoint(const training_run *run, uint64_t step)
{
    base_error error;
    char path[BASE_PATH_BYTES];
    assert_ok(proto_checkpoint_path(run->out, step, path, &error), &error);
    return access(path, F_OK) == 0;
}

static void assert_says(const training_run *run, const char *text)
{
    if (strstr(run->program.text[TEST_STDERR], text) == NULL) {
        fail_msg("'%s' is not in: %s", text, run->program.text[TEST_STDERR]);
    }
}

static json_int_t number(const training_run *run, const char *key)
{
    json_t *manifest = training_manifest(run);
    const json_int_t value = json_integer_value(json_object_get(manifest, key));
    json_decref(manifest);
    return value;
}

/* In pieces of every length, on other numbers of ranks: the bits are those of the whole training. The
 * schedule's end stays the same because the lr is constant. */
static void pieces_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    const char *data = write_data();
    static const struct {
        const char *ranks;
        const char *micro_batches;
        const char *steps;
    } pieces[] = {{"2", "1", "1"}, {"1", "2", "6"}, {"2", "1", "7"}, {"2", "1", "20"}};
    training_expect(&one, &test_shared_directory, "whole", 0,
                    FLAGS("--ranks", "2", "--steps", "20", "--data", data, "--lr", "1e-2"));
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        training_expect(&two, &test_shared_directory, "pieces", 0,
                        FLAGS("--ranks", pieces[i].ranks, "--micro-batches",
                              pieces[i].micro_batches, "--steps", pieces[i].steps, "--data", data,
                              "--lr", "1e-2", "--save-every", "4", "--resume"));
    }
    training_assert_same_model(&one, &two);
    assert_says(&two, "--resume: goes on after step 7 of 20");
    assert_true(has_checkpoint(&two, 20) && has_checkpoint(&two, 16));
    assert_false(has_checkpoint(&two, 12)); /* two are kept */
    assert_int_equal(number(&two, "resumed_at_step"), 7);
    assert_int_equal(number(&two, "steps"), 14); /* those before step 6 were of one rank */
    const char *again = test_shared_path("pieces.1");
    assert_int_not_equal(access(again, F_OK), 0); /* the record was never moved away */
    /* as a launcher that is killed leaves them */
    base_error error;
    char partial[BASE_PATH_BYTES + 32];
    char removed[BASE_PATH_BYTES + 32];
    (void)snprintf(partial, sizeof partial, "%s/checkpoints/partial", two.out);
    (void)snprintf(removed, sizeof removed, "%s/checkpoints/removed", two.out);
    assert_ok(base_mkdirs(partial, &error), &error);
    assert_ok(base_mkdirs(removed, &error), &error);
    training_expect(&two, &test_shared_directory, "pieces", 0,
                    FLAGS("--ranks", "2", "--steps", "20", "--data", data, "--lr", "1e-2",
                          "--save-every", "4", "--resume"));
    assert_says(&two, "goes on after step 20 of 20: nothing is left to train");
    assert_true(access(partial, F_OK) != 0 && access(removed, F_OK) != 0);
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

/* What cannot be gone on with in the figures is kept beside them. */
static void assert_set_aside(const training_run *run, int step)
{
    char path[BASE_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/timings-before-%d.jsonl", run->out, step);
    assert_int_equal(access(path, F_OK), 0);
}

/* A pipeline goes on with what ranks with all layers have saved, and they with what its stages have. */
static void stages_go_on_too(void **state)
{
    (void)state;
    const char *data = write_data();
    static const struct {
        const char *mode;
        const char *ranks;
        const char *micro_batches;
        const char *steps;
        const char *stages;
        const char *tensor;
        const char *pipeline;
    } pieces[] = {{"ddp-cpu", "1", "4", "3", "0", "0", "gpipe"},
                  {"pp-cpu", "3", "4", "4", "0", "0", "zb-h1"},
                  {"pp-cpu", "3", "4", "5", "0", "0", "zb-h1"},
                  {"pp-cpu", "2", "4", "7", "0", "0", "interleaved"},
                  {"pp-cpu", "8", "2", "9", "2", "2", "1f1b"},
                  {"pp-cpu", "4", "2", "10", "2", "0", "interleaved"},
                  {"ddp-cpu", "2", "2", "11", "0", "0", "gpipe"},
                  {"pp-cpu", "2", "4", "12", "0", "2", "gpipe"},
                  {"pp-cpu", "2", "2", "14", "1", "0", "gpipe"}};
    training_expect(&one, &test_shared_directory, "layers", 0,
                    FLAGS("--ranks", "2", "--micro-batches", "2", "--steps", "14", "--data", data,
                          "--layers", "4", "--lr", "1e-2"));
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        training_expect(&two, &test_shared_directory, "stages", 0,
                        FLAGS("--mode", pieces[i].mode, "--ranks", pieces[i].ranks,
                              "--micro-batches", pieces[i].micro_batches, "--steps",
                              pieces[i].steps, "--data", data, "--layers", "4", "--lr", "1e-2",
                              "--save-every", "4", "--resume", "--stages", pieces[i].stages,
                              "--tensor", pieces[i].tensor, "--pipeline", pieces[i].pipeline));
    }
    assert_says(&two, "--resume: goes on after step 12 of 14");
    assert_int_equal(number(&two, "steps"),
                     2); /* those before are of two stages, as many ranks as now */
    assert_set_aside(&two, 9);
    assert_set_aside(&two, 11);
    assert_set_aside(&two, 12);
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

/* Killed ranks, one after the other: the launcher starts the job again, and the result is that of a job that
 * nobody disturbed, with every step in its record once. */
enum { LONG_STEPS = TEST_HAS_ASAN ? 200 : 1000, LONG_SAVES = LONG_STEPS / 20 };

static void a_killed_rank_costs_only_time(void **state)
{
    (void)state;
    const char *data = write_data();
    char steps[16];
    char saves[16];
    (void)snprintf(steps, sizeof steps, "%d", LONG_STEPS);
    (void)snprintf(saves, sizeof saves, "%d", LONG_SAVES);
    training_expect(&one, &test_shared_directory, "quiet", 0,
                    FLAGS("--ranks", "2", "--steps", steps, "--data", data));
    training_gate_at(LONG_STEPS / 2);
    training_start(&two, &test_shared_directory, "killed",
                   FLAGS("--ranks", "2", "--steps", steps, "--data", data, "--save-every", saves,
                         "--resume", "--max-restarts", "2", "--keep", "100"));
    training_gate_at(0);
    training_wait_checkpoint(&two, LONG_SAVES);
    assert_int_equal(kill(training_rank_pid(&two, 1), SIGKILL), 0);
    test_program_wait_text(&two.program, TEST_STDERR, "starting again: attempt 2 of at most 3");
    test_program_wait_text(&two.program, TEST_STDERR, "--resume: goes on after step ");
    test_program_wait_text(&two.program, TEST_STDERR, "step ");
    assert_int_equal(kill(training_rank_pid(&two, 0), SIGKILL), 0);
    training_open_gate(&two);
    assert_int_equal(test_program_wait(&two.program), 0);
    test_program_assert_no_children();
    assert_says(&two, "starting again: attempt 3 of at most 3");
    training_assert_same_file(&one, STATE, &two, "state-rank-1.safetensors");
    assert_int_equal(number(&two, "steps"), LONG_STEPS);
    assert_int_equal(number(&two, "attempts"), 3);
    char *page = training_file(&two, "flight.html", NULL);
    assert_non_null(strstr(page, "Attempt 2 of the job")); /* the last that failed */
    free(page);
}

/* The second attempt cannot start: there is no third, and the record is about the first. */
static void a_restart_that_fails_leaves_the_record(void **state)
{
    (void)state;
    char data[BASE_PATH_BYTES];
    base_error error;
    (void)snprintf(data, sizeof data, "%s", write_data());
    training_start(&two, &test_shared_directory, "restart",
                   FLAGS("--steps", "100000000", "--data", data, "--save-every", "20", "--resume",
                         "--max-restarts", "5"));
    training_wait_checkpoint(&two, 20);
    assert_ok(base_file_write(data, "no JSON\n", 8, &error), &error);
    assert_int_equal(kill(training_rank_pid(&two, 1), SIGKILL), 0);
    assert_int_equal(test_program_wait(&two.program), 1);
    assert_says(&two, "starting again: attempt 2 of at most 6");
    assert_null(strstr(two.program.text[TEST_STDERR], "attempt 3"));
    assert_says(&two, "once that is mended, the same command goes on after step ");
    assert_int_equal(number(&two, "exit_status"), 1);
    assert_int_equal(number(&two, "attempts"), 1);
    assert_true(number(&two, "steps") >= 20);
}

/* A rank that stands still while it writes its state, when all have trained, is missed like any other. */
static void a_rank_that_cannot_save_is_named(void **state)
{
    (void)state;
    char fifo[BASE_PATH_BYTES + 64];
    training_expect(&one, &test_shared_directory, "stuck", 0,
                    FLAGS("--ranks", "2", "--steps", "2", "--save-every", "2"));
    (void)snprintf(fifo, sizeof fifo, "%s/state-rank-1.safetensors.tmp", one.out);
    assert_int_equal(mkfifo(fifo, 0600), 0); /* whoever opens it waits for a reader */
    training_expect(
        &one, &test_shared_directory, "stuck", 1,
        FLAGS("--ranks", "2", "--steps", "4", "--save-every", "2", "--resume", "--timeout", "3"));
    assert_says(&one, "rank 1");
}

/* Ctrl-C saves, and says how to go on; kill -9 of the launcher leaves its last checkpoint. */
static void a_stopped_training_goes_on(void **state)
{
    (void)state;
    const char *data = write_data();
    training_start(&one, &test_shared_directory, "stopped",
                   FLAGS("--steps", "100000000", "--data", data, "--save-every", "100000"));
    test_program_wait_text(&one.program, TEST_STDERR, "step 1/");
    assert_int_equal(kill(one.program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&one.program), 130);
    assert_says(&one, "the same command with --resume goes on after step ");
    const long stopped =
        test_program_number_after(&one.program, TEST_STDERR, "--resume goes on after step ");
    assert_true(has_checkpoint(&one, (uint64_t)stopped));
    training_start(&one, &test_shared_directory, "stopped",
                   FLAGS("--steps", "100000000", "--data", data, "--save-every", "20", "--keep",
                         "500", "--resume"));
    training_wait_checkpoint(&one, ((uint64_t)stopped / 20 + 3) * 20);
    assert_int_equal(kill(one.program.pid, SIGKILL), 0);
    (void)test_program_wait(&one.program);
    test_program_wait_no_children();
    assert_says(&one, "--resume: goes on after step ");
    bool found = false;
    uint64_t step = 0;
    char steps[32];
    base_error error;
    assert_ok(proto_checkpoints_newest(one.out, &found, &step, &error), &error);
    (void)snprintf(steps, sizeof steps, "%llu", (unsigned long long)step + 3);
    training_expect(&one, &test_shared_directory, "stopped", 0,
                    FLAGS("--steps", steps, "--data", data, "--save-every", "20", "--resume"));
    training_expect(&two, &test_shared_directory, "not-stopped", 0,
                    FLAGS("--steps", steps, "--data", data));
    training_assert_same_file(&one, STATE, &two, STATE);
}

static void expect_refused(const char *const *flags, const char *message)
{
    training_expect(&two, &test_shared_directory, "refused", 1, flags);
    assert_says(&two, message);
    assert_true(has_checkpoint(&two, 6)); /* nothing was changed */
}

/* A checkpoint of another course, or a damaged one, is refused by name, and stays. */
static void another_course_is_refused(void **state)
{
    (void)state;
    const char *data = write_data();
    base_error error;
    char path[BASE_PATH_BYTES + 32];
    training_expect(&two, &test_shared_directory, "refused", 0,
                    FLAGS("--save-every", "6", "--ranks", "2"));
    expect_refused(FLAGS("--resume", "--steps", "9", "--ranks", "3"),
                   "it was written with replicas × --micro-batches 2, and this job has 3");
    expect_refused(FLAGS("--resume", "--steps", "9", "--batch", "3"),
                   "--batch 2, and this job has 3");
    expect_refused(FLAGS("--resume", "--steps", "9", "--context", "48"),
                   "--context 64, and this job has 48");
    expect_refused(FLAGS("--resume", "--steps", "9", "--seed", "1"),
                   "--seed 35000, and this job has 1");
    expect_refused(FLAGS("--resume", "--steps", "9", "--loss-on", "all"),
                   "--loss-on correction, and this job has all");
    expect_refused(FLAGS("--resume", "--steps", "9", "--data", data),
                   "it was written with other data (--data)");
    expect_refused(FLAGS("--resume", "--steps", "9", "--layers", "2"),
                   "its config.json says another model than this job has");
    (void)snprintf(path, sizeof path, "%s/checkpoints/step-000000006/exp_avg_sq.safetensors",
                   two.out);
    assert_int_equal(truncate(path, 1000), 0);
    expect_refused(FLAGS("--resume", "--steps", "9"), "exp_avg_sq.safetensors");
    (void)snprintf(path, sizeof path, "%s/checkpoints/step-000000006/training.json", two.out);
    assert_ok(base_file_write(path, "{\"positions\":[1]}", 17, &error), &error);
    expect_refused(FLAGS("--resume", "--steps", "9"), "training.json");
}

/* What the optimizer is told may change. Rank 0 says what has, once. An older checkpoint says nothing of it. */
static void other_flags_of_the_optimizer_are_named(void **state)
{
    (void)state;
    static const char *const warnings[] = {
        "[rank 0] warning: --resume: --schedule is constant now, and was linear\n",
        "[rank 0] warning: --resume: --lr is 0.0003 now, and was 0.002\n",
        "[rank 0] warning: --resume: --warmup is 0 now, and was 2\n",
        "[rank 0] warning: --resume: --beta2 is 0.999 now, and was 0.99\n",
        "[rank 0] warning: --resume: --weight-decay is 0.01 now, and was 0.5\n",
    };
    static const char key[] = "\"optimizer\":{";
    char path[BASE_PATH_BYTES + 64];
    base_error error;
    size_t text_bytes = 0;
#define LINEAR "--schedule", "linear", "--lr", "2e-3", "--beta2", "0.99", "--weight-decay", "0.5"
    training_expect(&one, &test_shared_directory, "optimizer", 0,
                    FLAGS(LINEAR, "--warmup", "2", "--save-every", "6"));
    training_expect(
        &one, &test_shared_directory, "optimizer", 0,
        FLAGS(LINEAR, "--warmup", "2", "--steps", "9", "--save-every", "9", "--resume"));
#undef LINEAR
    assert_int_equal(test_count(one.program.text[TEST_STDERR], "warning: --resume"), 1);
    assert_says(&one, "--steps, where the schedule ends, is 9 now, and was 6\n");
    training_expect(&one, &test_shared_directory, "optimizer", 0,
                    FLAGS("--steps", "12", "--save-every", "12", "--resume"));
    for (size_t i = 0; i < sizeof warnings / sizeof warnings[0]; i++) {
        assert_says(&one, warnings[i]);
    }
    assert_int_equal(test_count(one.program.text[TEST_STDERR], "warning: --resume"), 5);

    char *text = training_file(&one, "checkpoints/step-000000012/training.json", &text_bytes);
    char *begin = memmem(text, text_bytes, key, sizeof key - 1);
    assert_non_null(begin);
    char *end = memchr(begin, '}', text_bytes - (size_t)(begin - text));
    assert_non_null(end);
    const size_t cut = (size_t)(end + 2 - begin); /* with the comma */
    memmove(begin, end + 2, text_bytes - (size_t)(end + 2 - text));
    (void)snprintf(path, sizeof path, "%s/checkpoints/step-000000012/training.json", one.out);
    assert_ok(base_file_write(path, text, text_bytes - cut, &error), &error);
    free(text);
    training_expect(&one, &test_shared_directory, "optimizer", 0,
                    FLAGS("--steps", "15", "--lr", "1e-2", "--save-every", "15", "--resume"));
    assert_int_equal(test_count(one.program.text[TEST_STDERR], "warning: --resume"), 0);
}

/* A byte that a disk has lost would change every bit from there on. */
static void a_damaged_checkpoint_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"model", "exp_avg", "exp_avg_sq"};
    training_expect(&one, &test_shared_directory, "damaged", 0,
                    FLAGS("--save-every", "3", "--steps", "6"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[BASE_PATH_BYTES + 96];
        char said[128];
        size_t count = 0;
        base_error error;
        (void)snprintf(path, sizeof path, "%s/checkpoints/step-000000006/%s.safetensors", one.out,
                       names[i]);
        void *bytes = test_file_read(path, &count);
        ((uint8_t *)bytes)[count - 100] ^= 1;
        assert_ok(base_file_write(path, bytes, count, &error), &error);
        training_expect(&two, &test_shared_directory, "damaged", 1,
                        FLAGS("--save-every", "3", "--steps", "9", "--resume"));
        (void)snprintf(said, sizeof said, ": %s.safetensors is not what was written", names[i]);
        assert_says(&two, said);
        assert_says(&two, "(without its directory, --resume goes on after step 3)");
        ((uint8_t *)bytes)[count - 100] ^= 1;
        assert_ok(base_file_write(path, bytes, count, &error), &error);
        free(bytes);
    }
    training_expect(&two, &test_shared_directory, "damaged", 0,
                    FLAGS("--save-every", "3", "--steps", "9", "--resume"));
}

/* Earlier versions wrote no digests. */
static void an_older_checkpoint_goes_on(void **state)
{
    (void)state;
    char path[BASE_PATH_BYTES + 64];
    training_expect(&one, &test_shared_directory, "older", 0, FLAGS("--save-every", "3"));
    (void)snprintf(path, sizeof path, "%s/checkpoints/step-000000006/training.json", one.out);
    json_t *saved = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_int_equal(json_object_del(saved, "sha256"), 0);
    assert_int_equal(json_dump_file(saved, path, JSON_COMPACT | JSON_SORT_KEYS), 0);
    json_decref(saved);
    training_expect(&two, &test_shared_directory, "older", 0,
                    FLAGS("--save-every", "3", "--steps", "9", "--resume"));
    assert_says(&two, "goes on after step 6 of 9");
}

/* Without --resume a new training has nothing of the old one's checkpoints. */
static void a_new_training_has_its_own_checkpoints(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "new", 0, FLAGS("--save-every", "2"));
    assert_true(has_checkpoint(&one, 6));
    training_expect(&one, &test_shared_directory, "new", 0,
                    FLAGS("--save-every", "3", "--steps", "3"));
    assert_true(has_checkpoint(&one, 3));
    assert_false(has_checkpoint(&one, 6));
    const char *moved = test_shared_path("new.1/checkpoints/step-000000006");
    assert_int_equal(access(moved, F_OK), 0);
    training_expect(&one, &test_shared_directory, "new", 0,
                    FLAGS("--save-every", "2", "--steps", "2", "--overwrite"));
    assert_true(has_checkpoint(&one, 2));
    assert_false(has_checkpoint(&one, 3));
    training_expect(&one, &test_shared_directory, "new", 0, FLAGS("--overwrite"));
    assert_false(has_checkpoint(&one, 2));
}

/* A training that starts from a checkpoint in its own --out would remove it first. */
static void a_checkpoint_that_would_go_is_refused(void **state)
{
    (void)state;
    char checkpoint[BASE_PATH_BYTES + 64];
    training_expect(&one, &test_shared_directory, "own", 0, FLAGS("--save-every", "6"));
    (void)snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/step-000000006", one.out);
    for (int overwrite = 0; overwrite < 2; overwrite++) {
        training_expect(&one, &test_shared_directory, "own", 1,
                        FLAGS("--checkpoint", checkpoint, "--save-every", "6",
                              overwrite ? "--overwrite" : "--no-scaling"));
        assert_says(&one, "begins the checkpoints of its --out anew: name another --out");
        assert_true(has_checkpoint(&one, 6));
    }
    training_expect(&one, &test_shared_directory, "other", 0,
                    FLAGS("--checkpoint", checkpoint, "--save-every", "6"));
}

/* The others wait for a slow disk longer than for a peer. */
static void a_checkpoint_may_take_longer_than_a_collective(void **state)
{
    (void)state;
#ifndef __SANITIZE_ADDRESS__ /* it must be loaded before all others */
    assert_int_equal(setenv("LD_PRELOAD", SLOW_LIBRARY, 1), 0);
    training_start(&one, &test_shared_directory, "slow-disk",
                   FLAGS("--steps", "2", "--save-every", "1", "--width", "256", "--heads", "4",
                         "--layers", "4", "--context", "32", "--batch", "1", "--timeout", "2"));
    assert_int_equal(unsetenv("LD_PRELOAD"), 0);
    const int code = test_program_wait(&one.program);
    if (code != 0) {
        fail_msg("%d: %s", code, one.program.text[TEST_STDERR]);
    }
    assert_true(has_checkpoint(&one, 2));
    json_t *manifest = training_manifest(&one);
    const json_t *saved = json_object_get(manifest, "checkpoints");
    assert_true(json_number_value(json_object_get(saved, "seconds")) > 3.0);
    json_decref(manifest);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_give_the_bits_of_the_whole),
        cmocka_unit_test(stages_go_on_too),
        cmocka_unit_test(a_killed_rank_costs_only_time),
        cmocka_unit_test(a_restart_that_fails_leaves_the_record),
        cmocka_unit_test(a_rank_that_cannot_save_is_named),
        cmocka_unit_test(a_stopped_training_goes_on),
        cmocka_unit_test(another_course_is_refused),
        cmocka_unit_test(other_flags_of_the_optimizer_are_named),
        cmocka_unit_test(a_damaged_checkpoint_is_refused),
        cmocka_unit_test(an_older_checkpoint_goes_on),
        cmocka_unit_test(a_new_training_has_its_own_checkpoints),
        cmocka_unit_test(a_checkpoint_that_would_go_is_refused),
        cmocka_unit_test(a_checkpoint_may_take_longer_than_a_collective),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
