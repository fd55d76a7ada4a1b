/* Trainings with --zero: the bits of those without, and checkpoints that fit both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "training.h"

static training_run one, two; /* large: they hold a program's output */

/* Of every stage and number of ranks, over every transport, with buckets of several sizes; gradients are
 * clipped. */
static void the_bits_are_those_without(void **state)
{
    (void)state;
    static const char *const stages[] = {"1", "2", "3"};
    static const char *const ranks[] = {"1", "2", "3", "4"};
    static const char *const transports[] = {"shm", "tcp", "zmq"};
    static const char *const buckets[] = {"1024", "20000", "1000000"};
    for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++) {
        training_expect(&one, &test_shared_directory, "whole", 0,
                        FLAGS("--ranks", ranks[r], "--lr", "1e-2", "--clip", "0.5"));
        for (size_t i = 0; i < 9; i++) {
            if (r % 2 == 0 && i % 3 != i / 3) { /* of 1 and 3 ranks each stage once */
                continue;
            }
            training_expect(&two, &test_shared_directory, "sharded", 0,
                            FLAGS("--ranks", ranks[r], "--lr", "1e-2", "--clip", "0.5", "--zero",
                                  stages[i / 3], "--transport", transports[i % 3], "--bucket-bytes",
                                  buckets[(i + r) % 3]));
            training_assert_same_model(&one, &two);
        }
    }
    training_expect(&two, &test_shared_directory, "sharded", 0,
                    FLAGS("--ranks", "2", "--micro-batches", "2", "--lr", "1e-2", "--clip", "0.5",
                          "--zero", "1", "--timing", "bracketed"));
    training_assert_same_model(&one, &two); /* 2 × 2 slots are 4 × 1 */
    training_expect(&one, &test_shared_directory, "ring", 0,
                    FLAGS("--ranks", "4", "--lr", "1e-2", "--zero", "1", "--algorithm", "ring"));
    training_expect(&two, &test_shared_directory, "tree", 0,
                    FLAGS("--ranks", "4", "--lr", "1e-2", "--zero", "1", "--algorithm", "tree"));
    training_assert_same_model(&one, &two); /* a reduce-scatter has no tree */
}

/* The losses of all steps together, to the last bit, as rank 0 has reported them. */
static double losses(const training_run *run)
{
    size_t i = 0;
    const json_t *row = NULL;
    double sum = 0.0;
    json_t *rows = training_timings(run->out);
    json_array_foreach(rows, i, row)
    {
        if (json_integer_value(json_object_get(row, "rank")) == 0) {
            sum = sum * 2.0 + json_number_value(json_object_get(row, "loss_global"));
        }
    }
    json_decref(rows);
    assert_true(sum > 1.0);
    return sum;
}

/* Where a rank adds up its micro-batches last, a power of two of ranks has the bits of one rank. Activations
 * may be computed again, and evaluating takes the whole model for a while. */
static void micro_batches_come_after_ranks(void **state)
{
    (void)state;
    static const char *const ranks[] = {"2", "4"};
    static const char *const micro_batches[] = {"4", "2"};
    training_expect(&one, &test_shared_directory, "alone", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "8", "--lr", "1e-2", "--layers", "3",
                          "--eval-every", "2"));
    for (size_t i = 0; i < 4; i++) {
        training_expect(&two, &test_shared_directory, "shared", 0,
                        FLAGS("--ranks", ranks[i % 2], "--micro-batches", micro_batches[i % 2],
                              "--lr", "1e-2", "--layers", "3", "--zero", i < 2 ? "2" : "3",
                              "--bucket-bytes", "60000", "--eval-every", "2", "--eval",
                              i % 2 == 0 ? "--recompute" : "--no-scaling"));
        training_assert_same_model(&one, &two);
        assert_true(losses(&one) == losses(&two));
    }
}

/* A training in parts, with other ranks and with --zero or without, ends with the bits and the moments
 * of the whole. */
static void checkpoints_fit_both(void **state)
{
    (void)state;
    static const char *const moments[] = {"exp_avg", "exp_avg_sq"};
    static const struct {
        const char *ranks, *micro_batches, *zero, *steps;
    } parts[] = {{"4", "1", "1", "1"}, {"2", "2", "0", "2"}, {"2", "2", "2", "3"},
                 {"2", "2", "3", "4"}, {"4", "1", "3", "5"}, {"1", "4", "1", "6"}};
    char name[96];
    training_expect(&one, &test_shared_directory, "at-once", 0,
                    FLAGS("--ranks", "4", "--lr", "1e-2", "--save-every", "6"));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        training_expect(&two, &test_shared_directory, "in-parts", 0,
                        FLAGS("--ranks", parts[i].ranks, "--micro-batches", parts[i].micro_batches,
                              "--zero", parts[i].zero, "--steps", parts[i].steps, "--lr", "1e-2",
                              "--save-every", "6", "--resume"));
    }
    training_assert_same_model(&one, &two);
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        (void)snprintf(name, sizeof name, "checkpoints/step-000000006/%s.safetensors", moments[i]);
        training_assert_same_file(&one, name, &two, name);
    }
}

static json_int_t bytes_of(const json_t *rank, const char *purpose)
{
    const json_t *row = training_row(rank, "state", "purpose", purpose);
    const json_int_t allocated = json_integer_value(json_object_get(row, "allocated_bytes"));
    assert_int_equal(json_integer_value(json_object_get(row, "planned_bytes")), allocated);
    return allocated;
}

static double real_of(const json_t *rank, const char *kind, const char *key)
{
    return json_number_value(json_object_get(training_row(rank, "exchanges", "kind", kind), key));
}

/* The moments that `launcher plan` says three replicas of a run's model have with --zero 1. */
static json_int_t planned_moments(const training_run *run)
{
    static test_program program;
    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "plan", "--checkpoint", run->out, "--data", "3",
                             "--tensor", "1", "--pipeline", "1", "--batch", "1", "--global-batch",
                             "3", "--context", "64", "--zero", "1", "--json"),
                       NULL);
    assert_int_equal(test_program_wait(&program), 0);
    json_t *plan = json_loads(program.text[TEST_STDOUT], JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(plan);
    const json_t *memory = json_object_get(plan, "memory");
    const json_int_t moments = (json_int_t)json_number_value(json_object_get(memory, "optimizer"));
    json_decref(plan);
    return moments;
}

/* The moments of all ranks together are those of one without --zero. Nobody has more than its part
 * and a block, and whoever has most has what was planned. A reduce-scatter and an all-gather move
 * what was reduced before. */
static void the_record_has_the_memory(void **state)
{
    (void)state;
    json_int_t sum = 0;
    json_int_t most = 0;
    training_expect(&one, &test_shared_directory, "plain", 0, FLAGS("--ranks", "3"));
    training_expect(&two, &test_shared_directory, "memory", 0,
                    FLAGS("--ranks", "3", "--zero", "1"));
    json_t *plain = training_manifest(&one);
    json_t *sharded = training_manifest(&two);
    const json_t *whole = json_array_get(json_object_get(plain, "ranks"), 0);
    const json_int_t params = json_integer_value(json_object_get(plain, "model_params"));
    assert_int_equal(bytes_of(whole, "parameters"), 4 * params);
    assert_int_equal(bytes_of(whole, "arena"), 4 * params);
    assert_int_equal(bytes_of(whole, "gradients"), 0);
    assert_int_equal(bytes_of(whole, "moments"), 8 * params);
    assert_true(real_of(whole, "reduce_scatter", "calls") == 0.0);
    for (size_t i = 0; i < 3; i++) {
        const json_t *rank = json_array_get(json_object_get(sharded, "ranks"), i);
        const json_int_t moments = bytes_of(rank, "moments");
        assert_int_equal(bytes_of(rank, "parameters"), 4 * params);
        assert_true(moments <= 8 * (params / 3 + 1024));
        assert_true(real_of(rank, "reduce_scatter", "calls") >= 1.0);
        assert_true(real_of(rank, "reduce_scatter", "bytes") == 4.0 * (double)params);
        assert_true(real_of(rank, "all_gather", "bytes") == 4.0 * (double)params);
        sum += moments;
        most = moments > most ? moments : most;
    }
    assert_int_equal(sum, 8 * params);
    assert_int_equal(most, planned_moments(&two));
    json_decref(plain);
    json_decref(sharded);
}

/* With --zero 2 and 3 a rank has only its shard of what the stage before had whole, and what is in use. */
static void later_stages_take_less(void **state)
{
    (void)state;
    json_int_t in_use[4][2];
    for (int stage = 1; stage <= 3; stage++) {
        const char number[] = {(char)('0' + stage), '\0'};
        training_expect(&one, &test_shared_directory, "stage", 0,
                        FLAGS("--ranks", "4", "--width", "128", "--layers", "8", "--bucket-bytes",
                              "16384", "--zero", number));
        json_t *manifest = training_manifest(&one);
        const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), 1);
        const json_int_t params = json_integer_value(json_object_get(manifest, "model_params"));
        const json_t *arena = training_row(rank, "state", "purpose", "arena");
        in_use[stage][0] = json_integer_value(json_object_get(arena, "allocated_bytes"));
        in_use[stage][1] = bytes_of(rank, "parameters");
        assert_true(in_use[stage][0] <=
                    json_integer_value(json_object_get(arena, "planned_bytes")));
        assert_true(bytes_of(rank, "moments") <= 8 * (params / 4 + 1024));
        assert_true(bytes_of(rank, "gradients") <= (stage > 1 ? 4 * (params / 4 + 1024) : 0));
        assert_true(json_is_null(json_object_get(manifest, "byte_equivalent")) == (stage == 3));
        if (stage == 3) {
            assert_true(real_of(rank, "all_gather", "bytes") > 1.5 * 4.0 * (double)params);
        }
        json_decref(manifest);
    }
    assert_true(2 * in_use[2][0] < in_use[1][0]);
    assert_true(in_use[2][1] == in_use[1][1]);
    assert_true(2 * in_use[3][1] < in_use[2][1]);
}

/* At the end of an epoch some ranks have no sentences, and compute nothing. */
static void ranks_without_sentences_take_part(void **state)
{
    (void)state;
    static const char *const stages[] = {"0", "2", "3"};
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_shared_path("three.jsonl"));
    test_shared_put("three.jsonl",
                    "{\"text\":\"a b c\"}\n{\"text\":\"d e f\"}\n{\"text\":\"g h i\"}\n");
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        training_run *run = i == 0 ? &one : &two;
        training_expect(run, &test_shared_directory, i == 0 ? "few" : "few-sharded", 0,
                        FLAGS("--ranks", "4", "--micro-batches", "2", "--data", path, "--lr",
                              "1e-2", "--zero", stages[i]));
        if (i > 0) {
            training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
        }
    }
}

static void kill_one(const char *stage)
{
    training_start(&one, &test_shared_directory, "killed",
                   FLAGS("--ranks", "3", "--zero", stage, "--steps", "100000"));
    training_expect_killed(&one, 1);
}

static void a_killed_rank_is_named(void **state)
{
    (void)state;
    kill_one("1");
    kill_one("2");
    kill_one("3");
}

static void other_modes_refuse_it(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "stages", 2,
                    FLAGS("--mode", "pp-cpu", "--ranks", "1", "--zero", "1"));
    if (strstr(one.program.text[TEST_STDERR], "zero 1 goes with mode ddp-cpu, not with pp-cpu") ==
        NULL) {
        fail_msg("another message: %s", one.program.text[TEST_STDERR]);
    }
    training_expect(&one, &test_shared_directory, "bracketed", 2,
                    FLAGS("--ranks", "1", "--zero", "2", "--timing", "bracketed"));
    assert_has(one.program.text[TEST_STDERR], "timing bracketed goes with 0 and 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_without),
        cmocka_unit_test(micro_batches_come_after_ranks),
        cmocka_unit_test(checkpoints_fit_both),
        cmocka_unit_test(the_record_has_the_memory),
        cmocka_unit_test(later_stages_take_less),
        cmocka_unit_test(ranks_without_sentences_take_part),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(other_modes_refuse_it),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
