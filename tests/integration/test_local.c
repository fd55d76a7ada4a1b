/* Trainings with --local-steps: rounds of steps that ranks take alone, and what follows each. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

static const char STATE[] = "state-rank-0.safetensors";

enum { LINES = 400 };

/* Writes every second of some lines, from this one on; -1: all of them. */
static void write_lines(const char *name, int parity, char path[BASE_PATH_BYTES])
{
    static char text[LINES * 80];
    size_t used = 0;
    base_error error;
    for (int i = 0; i < LINES; i++) {
        if (parity < 0 || i % 2 == parity) {
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "{\"text\":\"the %.*scat number %d saw the dog\"}\n",
                                     i % 5 * 4, "old old old old old ", i);
        }
    }
    (void)snprintf(path, BASE_PATH_BYTES, "%s", test_shared_path(name));
    assert_ok(base_file_write(path, text, used, &error), &error);
}

/* The parameters of a saved state, behind its header. The caller frees *state. */
static const float *params_of(const training_run *run, char **state, size_t *count)
{
    size_t size_bytes = 0;
    uint64_t header = 0;
    *state = training_file(run, STATE, &size_bytes);
    memcpy(&header, *state, sizeof header);
    *count = (size_bytes - sizeof header - header) / sizeof(float);
    return (const float *)(*state + sizeof header + header);
}

/* Two ranks that take all their steps alone are two trainings of one rank, each with its half of the data; and
 * the end of the round is the mean of both, which an outer rate of 1 without momentum takes as it is. */
static void a_round_ends_with_the_mean_of_ranks_alone(void **state)
{
    (void)state;
    static training_run halves[2];
    char paths[3][BASE_PATH_BYTES];
    char model[BASE_PATH_BYTES];
    char *states[3];
    const float *params[3];
    size_t count = 0;
    static const char *const names[] = {"first-half", "second-half"};
    static const char *const seeds[] = {"35000", "35001"}; /* of slots 0 and 1 of seed 35000 */
    write_lines("all.jsonl", -1, paths[2]);
    training_expect(&two, &test_shared_directory, "begun", 0, FLAGS("--ranks", "1"));
    (void)snprintf(model, sizeof model, "%s", two.out);
    for (int i = 0; i < 2; i++) {
        write_lines(i == 0 ? "even.jsonl" : "odd.jsonl", i, paths[i]);
        training_expect(&halves[i], &test_shared_directory, names[i], 0,
                        FLAGS("--ranks", "1", "--checkpoint", model, "--data", paths[i], "--seed",
                              seeds[i], "--lr", "1e-2"));
        params[i] = params_of(&halves[i], &states[i], &count);
    }
    training_expect(&one, &test_shared_directory, "round", 0,
                    FLAGS("--ranks", "2", "--checkpoint", model, "--data", paths[2], "--lr", "1e-2",
                          "--local-steps", "6", "--outer-lr", "1", "--outer-momentum", "0"));
    params[2] = params_of(&one, &states[2], &count);
    double apart = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double mean = ((double)params[0][i] + (double)params[1][i]) / 2.0;
        apart = fmax(apart, fabs((double)params[0][i] - (double)params[1][i]));
        assert_true(fabs((double)params[2][i] - mean) <= 1e-6);
    }
    assert_true(apart > 1e-3);
    for (int i = 0; i < 3; i++) {
        free(states[i]);
    }
}

/* Also with micro-batches and a gradient that is clipped, and where activations are computed again. */
static void every_transport_gives_the_same_bits(void **state)
{
    (void)state;
    static const char *const ranks[] = {"2", "3"};
    static const char *const transports[] = {"shm", "tcp", "zmq"};
    static const char *const buckets[] = {"1024", "20000", "1000000"};
    for (size_t i = 0; i < 6; i++) {
        training_run *run = i % 3 == 0 ? &one : &two;
        training_expect(run, &test_shared_directory, "local", 0,
                        FLAGS("--ranks", ranks[i / 3], "--micro-batches", "3", "--lr", "1e-2",
                              "--clip", "0.5", "--local-steps", "2", "--transport",
                              transports[i % 3], "--bucket-bytes", buckets[i % 3], "--timing",
                              i % 3 == 1 ? "bracketed" : "overlapped",
                              i % 3 == 2 ? "--recompute" : "--no-scaling"));
        training_assert_equivalent(run);
        training_assert_same_file(run, STATE, run, "state-rank-1.safetensors");
        if (run == &two) {
            training_assert_same_file(&one, STATE, &two, STATE);
        }
    }
}

static void rounds_of_one_step_are_plain_training(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "plain", 0, FLAGS("--ranks", "2"));
    training_expect(&two, &test_shared_directory, "rounds", 0,
                    FLAGS("--ranks", "2", "--local-steps", "1"));
    training_assert_same_file(&one, STATE, &two, STATE);
    training_expect(&two, &test_shared_directory, "rounds", 0,
                    FLAGS("--ranks", "2", "--local-steps", "3"));
    training_assert_other_file(&one, &two, STATE);
}

static double real_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

enum {
    SUMS_BYTES = 4 * sizeof(double)
}; /* that each step exchanges: loss, stop, tokens, sentences */

/* What a step exchanged once is exchanged once in a round: in the record, and by the plan. */
static void the_plan_and_the_record_have_one_exchange_in_a_round(void **state)
{
    (void)state;
    static test_program program;
    training_expect(&one, &test_shared_directory, "bill", 0,
                    FLAGS("--ranks", "3", "--steps", "10", "--local-steps", "5"));
    json_t *manifest = training_manifest(&one);
    const double params = real_of(manifest, "model_params");
    const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), 1);
    const double bytes = real_of(training_row(rank, "exchanges", "kind", "all_reduce"), "bytes");
    assert_true(fabs(bytes - (4.0 * params / 5.0 + SUMS_BYTES)) < 1e-6);
    const json_t *outer = training_row(rank, "state", "purpose", "outer");
    assert_true(real_of(outer, "planned_bytes") == 8.0 * params);
    assert_true(real_of(outer, "allocated_bytes") == 8.0 * params);
    const json_t *arena = training_row(rank, "state", "purpose", "arena");
    assert_true(real_of(arena, "allocated_bytes") == 4.0 * params);
    const json_t *training = json_object_get(manifest, "training");
    assert_int_equal(json_integer_value(json_object_get(training, "local_steps")), 5);
    assert_true(real_of(training, "outer_lr") == 1 && real_of(training, "outer_momentum") == 0);

    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "plan", "--checkpoint", one.out, "--data", "3",
                             "--tensor", "1", "--pipeline", "1", "--batch", "2", "--global-batch",
                             "6", "--local-steps", "5", "--precision", "float32", "--json"),
                       NULL);
    assert_int_equal(test_program_wait(&program), 0);
    json_t *plan = json_loads(program.text[TEST_STDOUT], JSON_REJECT_DUPLICATES, NULL);
    const json_t *row = training_row(plan, "bill", "what", "changes");
    assert_int_equal(json_array_size(json_object_get(plan, "bill")), 1);
    assert_true(fabs(real_of(row, "times") * real_of(row, "payload_bytes") - (bytes - SUMS_BYTES)) <
                1e-6);
    assert_true(real_of(json_object_get(plan, "memory"), "optimizer") == (8.0 + 8.0) * params);
    json_decref(plan);
    json_decref(manifest);
}

/* All steps send their sums, and the last one of a round sends the changes as well. */
static void steps_within_a_round_send_a_few_bytes(void **state)
{
    (void)state;
    size_t i = 0;
    const json_t *row = NULL;
    training_expect(&one, &test_shared_directory, "sent", 0,
                    FLAGS("--ranks", "2", "--local-steps", "3", "--transport", "tcp"));
    json_t *rows = training_timings(one.out);
    json_array_foreach(rows, i, row)
    {
        const bool last = json_integer_value(json_object_get(row, "step")) % 3 == 2;
        const json_int_t sent = json_integer_value(json_object_get(row, "bytes_sent"));
        assert_true(last ? sent > 10000 : sent > 0 && sent <= 4 * SUMS_BYTES);
    }
    assert_int_equal(json_array_size(rows), 12);
    json_decref(rows);
}

static void assert_same_checkpoint(const char *step, int ranks)
{
    static const char *const common[] = {"model", "outer_momentum"};
    char name[128];
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof name, "checkpoints/step-%s/%s.safetensors", step, common[i]);
        training_assert_same_file(&one, name, &two, name);
    }
    for (int rank = 0; rank < 2 * ranks; rank++) {
        (void)snprintf(name, sizeof name, "checkpoints/step-%s/exp_avg%s-rank-%d.safetensors", step,
                       rank % 2 == 0 ? "" : "_sq", rank / 2);
        training_assert_same_file(&one, name, &two, name);
    }
}

/* Each rank goes on with moments of its own, and the outer steps with theirs. */
static void pieces_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    static const char *const steps[] = {"2", "6", "12"};
    static const char *const transports[] = {"tcp", "shm", "zmq"};
    training_expect(&one, &test_shared_directory, "whole", 0,
                    FLAGS("--ranks", "3", "--steps", "12", "--local-steps", "2", "--lr", "1e-2",
                          "--outer-lr", "0.7", "--outer-momentum", "0.9", "--save-every", "12"));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        training_expect(&two, &test_shared_directory, "pieces", 0,
                        FLAGS("--ranks", "3", "--steps", steps[i], "--local-steps", "2", "--lr",
                              "1e-2", "--outer-lr", "0.7", "--outer-momentum", "0.9",
                              "--save-every", "4", "--resume", "--transport", transports[i]));
    }
    assert_has(two.program.text[TEST_STDERR], "goes on after step 6 of 12");
    training_assert_same_file(&one, STATE, &two, STATE);
    assert_same_checkpoint("000000012", 3);
}

/* Damages a file of `two`'s checkpoint for a while. */
static void expect_damage_is_named(const char *file)
{
    char path[BASE_PATH_BYTES + 96];
    char said[160];
    size_t count = 0;
    base_error error;
    (void)snprintf(path, sizeof path, "%s/checkpoints/step-000000004/%s", two.out, file);
    (void)snprintf(said, sizeof said, "%s is not what was written there", file);
    void *bytes = test_file_read(path, &count);
    ((uint8_t *)bytes)[count - 100] ^= 1;
    assert_ok(base_file_write(path, bytes, count, &error), &error);
    training_expect(&two, &test_shared_directory, "course", 1,
                    FLAGS("--ranks", "2", "--micro-batches", "2", "--steps", "8", "--local-steps",
                          "2", "--resume"));
    assert_has(two.program.text[TEST_STDERR], said);
    ((uint8_t *)bytes)[count - 100] ^= 1;
    assert_ok(base_file_write(path, bytes, count, &error), &error);
    free(bytes);
}

static void another_course_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *ranks, *micro_batches, *local, *flag, *value, *says;
    } others[] = {
        {"4", "1", "2", "--seed", "35000", "--ranks 2, and this job has 4"},
        {"2", "2", "4", "--seed", "35000", "--local-steps 2, and this job has 4"},
        {"2", "2", "1", "--seed", "35000", "--local-steps 2, and this job has 1"},
        {"2", "2", "2", "--outer-lr", "0.5", "--outer-lr 1, and this job has 0.5"},
        {"2", "2", "2", "--outer-momentum", "0.5", "--outer-momentum 0, and this job has 0.5"}};
    training_expect(&two, &test_shared_directory, "course", 0,
                    FLAGS("--ranks", "2", "--micro-batches", "2", "--steps", "4", "--local-steps",
                          "2", "--save-every", "4"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        training_expect(&two, &test_shared_directory, "course", 1,
                        FLAGS("--ranks", others[i].ranks, "--micro-batches",
                              others[i].micro_batches, "--steps", "8", "--local-steps",
                              others[i].local, others[i].flag, others[i].value, "--resume"));
        assert_has(two.program.text[TEST_STDERR], others[i].says);
    }
    expect_damage_is_named("exp_avg-rank-1.safetensors");
    expect_damage_is_named("exp_avg_sq-rank-0.safetensors");
    expect_damage_is_named("outer_momentum.safetensors");
    training_expect(&one, &test_shared_directory, "plain-course", 0,
                    FLAGS("--ranks", "2", "--steps", "4", "--save-every", "4"));
    training_expect(&one, &test_shared_directory, "plain-course", 1,
                    FLAGS("--ranks", "2", "--steps", "8", "--local-steps", "2", "--resume"));
    assert_has(one.program.text[TEST_STDERR], "--local-steps 1, and this job has 2");
}

/* The launcher starts a job again whose rank was killed, and nothing is lost but time. */
static void a_killed_rank_costs_only_time(void **state)
{
    (void)state;
    const char *steps = TEST_HAS_ASAN ? "200" : "1000";
    training_expect(&one, &test_shared_directory, "quiet", 0,
                    FLAGS("--ranks", "2", "--steps", steps, "--local-steps", "10"));
    training_gate_at(40);
    training_start(&two, &test_shared_directory, "killed",
                   FLAGS("--ranks", "2", "--steps", steps, "--local-steps", "10", "--save-every",
                         "20", "--max-restarts", "2", "--resume", "--keep", "100"));
    training_gate_at(0);
    training_wait_checkpoint(&two, 40);
    assert_int_equal(kill(training_rank_pid(&two, 1), SIGKILL), 0);
    training_open_gate(&two);
    assert_int_equal(test_program_wait(&two.program), 0);
    test_program_assert_no_children();
    assert_has(two.program.text[TEST_STDERR], "starting again: attempt 2 of at most 3");
    training_assert_same_file(&one, STATE, &two, "state-rank-1.safetensors");
}

/* Ctrl-C ends a training where its ranks are equal, and it goes on from there. */
static void a_stop_waits_for_the_end_of_a_round(void **state)
{
    (void)state;
    char steps[32];
    training_start(&one, &test_shared_directory, "stopped",
                   FLAGS("--ranks", "2", "--steps", "100000000", "--local-steps", "8",
                         "--save-every", "800000"));
    test_program_wait_text(&one.program, TEST_STDERR, "step 1/");
    assert_int_equal(kill(one.program.pid, SIGINT), 0);
    assert_int_equal(test_program_wait(&one.program), 130);
    test_program_assert_no_children();
    assert_has(one.program.text[TEST_STDERR], "ending after the current round of local steps, ");
    const long stopped =
        test_program_number_after(&one.program, TEST_STDERR, "--resume goes on after step ");
    assert_true(stopped > 0);
    assert_int_equal(stopped % 8, 0);
    training_assert_same_file(&one, STATE, &one, "state-rank-1.safetensors");
    (void)snprintf(steps, sizeof steps, "%ld", stopped + 8);
    training_expect(&one, &test_shared_directory, "stopped", 0,
                    FLAGS("--ranks", "2", "--steps", steps, "--local-steps", "8", "--resume"));
    training_expect(&two, &test_shared_directory, "not-stopped", 0,
                    FLAGS("--ranks", "2", "--steps", steps, "--local-steps", "8"));
    training_assert_same_file(&one, STATE, &two, STATE);
}

/* At the end of an epoch some ranks have no sentences: they stay where they are, and take part in the round. */
static void ranks_without_sentences_take_part(void **state)
{
    (void)state;
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_shared_path("three.jsonl"));
    test_shared_put("three.jsonl",
                    "{\"text\":\"a b c\"}\n{\"text\":\"d e f\"}\n{\"text\":\"g h i\"}\n");
    for (int i = 0; i < 2; i++) {
        training_expect(i == 0 ? &one : &two, &test_shared_directory, i == 0 ? "few" : "few-tcp", 0,
                        FLAGS("--ranks", "4", "--data", path, "--lr", "1e-2", "--local-steps", "3",
                              "--transport", i == 0 ? "shm" : "tcp"));
    }
    training_assert_same_file(&one, STATE, &two, "state-rank-3.safetensors");
}

/* Experts and adapters, with evaluations between rounds, which change nothing. */
static void it_goes_with_experts_and_adapters(void **state)
{
    (void)state;
    char model[BASE_PATH_BYTES];
    for (int i = 0; i < 2; i++) {
        training_expect(i == 0 ? &one : &two, &test_shared_directory, i == 0 ? "moe" : "moe-tcp", 0,
                        FLAGS("--ranks", "2", "--experts", "4", "--local-steps", "2", "--lr",
                              "1e-2", "--transport", i == 0 ? "shm" : "tcp", "--eval-every",
                              i == 0 ? "0" : "2"));
    }
    training_assert_same_file(&one, STATE, &two, "state-rank-1.safetensors");
    training_expect(&one, &test_shared_directory, "frozen", 0, FLAGS("--ranks", "2"));
    (void)snprintf(model, sizeof model, "%s", one.out);
    for (int i = 0; i < 2; i++) {
        training_expect(i == 0 ? &one : &two, &test_shared_directory, i == 0 ? "lora" : "lora-tcp",
                        0,
                        FLAGS("--ranks", "2", "--checkpoint", model, "--lora", "2", "--local-steps",
                              "3", "--lr", "1e-2", "--transport", i == 0 ? "shm" : "tcp",
                              "--save-every", i == 0 ? "0" : "3"));
    }
    training_assert_same_file(&one, STATE, &two, "state-rank-1.safetensors");
    json_t *manifest = training_manifest(&two);
    const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), 0);
    const double outer =
        real_of(training_row(rank, "state", "purpose", "outer"), "allocated_bytes");
    assert_true(outer > 0.0 && outer < 8.0 * real_of(manifest, "model_params") / 4.0);
    json_decref(manifest);
}

/* Each in one line. */
static void what_does_not_go_with_it_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *flag, *value, *says;
    } cases[] = {
        {"--mode", "pp-cpu", "--local-steps 3 goes with mode ddp-cpu, not with pp-cpu"},
        {"--zero", "1", "--local-steps 3 goes with --zero 0"},
        {"--context-ranks", "2", "--local-steps 3 goes with --context-ranks 1"},
        {"--steps", "7", "--steps 7 is no multiple of --local-steps 3"},
        {"--save-every", "4", "--save-every 4 is no multiple of --local-steps 3"},
        {"--eval-every", "5", "--eval-every 5 is no multiple of --local-steps 3"},
        {"--outer-lr", "0", "--local-steps 3 needs a --outer-lr above 0"},
        {"--outer-lr", "-1", "--outer-lr"},
        {"--outer-momentum", "1", "--outer-momentum"},
        {"--local-steps", "-3", "--local-steps"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        training_expect_refused(&one,
                                FLAGS("--ranks", "2", "--layers", "2", "--local-steps", "3",
                                      cases[i].flag, cases[i].value),
                                cases[i].says);
    }
    training_expect_refused(&one, FLAGS("--ranks", "2", "--outer-lr", "1"),
                            "--outer-lr goes with --local-steps of 2 or more");
    training_expect_refused(&one, FLAGS("--local-steps", "1", "--outer-momentum", "0.5"),
                            "--outer-momentum goes with --local-steps of 2 or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_round_ends_with_the_mean_of_ranks_alone),
        cmocka_unit_test(every_transport_gives_the_same_bits),
        cmocka_unit_test(rounds_of_one_step_are_plain_training),
        cmocka_unit_test(the_plan_and_the_record_have_one_exchange_in_a_round),
        cmocka_unit_test(steps_within_a_round_send_a_few_bytes),
        cmocka_unit_test(pieces_give_the_bits_of_the_whole),
        cmocka_unit_test(another_course_is_refused),
        cmocka_unit_test(a_killed_rank_costs_only_time),
        cmocka_unit_test(a_stop_waits_for_the_end_of_a_round),
        cmocka_unit_test(ranks_without_sentences_take_part),
        cmocka_unit_test(it_goes_with_experts_and_adapters),
        cmocka_unit_test(what_does_not_go_with_it_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
