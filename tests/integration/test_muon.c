/* Trainings with --optimizer muon: the same bits however many ranks share out the matrices and in parts, what the
 * record says of it, what `launcher plan` says before, and where it is refused. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "trace_file.h"

static training_run one, two; /* large: they hold a program's output */

#define MUON  "--optimizer", "muon", "--lr", "1e-2"
#define SHAPE "--layers", "3", "--heads", "4", MUON

static void expect_same(const char *const *flags)
{
    training_expect(&two, &test_shared_directory, "other", 0, flags);
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

static void ranks_change_no_bits(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "whole", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", SHAPE));
    expect_same(FLAGS("--ranks", "4", SHAPE));
    expect_same(
        FLAGS("--ranks", "2", "--micro-batches", "2", SHAPE, "--recompute", "--transport", "tcp"));
    expect_same(FLAGS("--mode", "pp-cpu", "--ranks", "3", "--micro-batches", "4", SHAPE));
    expect_same(
        FLAGS("--mode", "pp-cpu", "--ranks", "2", "--stages", "1", "--micro-batches", "2", SHAPE));
    training_expect(&one, &test_shared_directory, "experts", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", "--experts", "4", SHAPE));
    expect_same(FLAGS("--ranks", "4", "--experts", "4", SHAPE));
    expect_same(FLAGS("--ranks", "4", "--experts", "4", "--expert-ranks", "2", SHAPE));
    expect_same(FLAGS("--ranks", "2", "--micro-batches", "2", "--experts", "4", "--expert-ranks",
                      "2", SHAPE, "--transport", "tcp"));
    training_expect(&one, &test_shared_directory, "shared", 0,
                    FLAGS("--ranks", "4", "--context-ranks", "2", SHAPE));
    expect_same(FLAGS("--ranks", "4", "--context-ranks", "2", SHAPE, "--transport", "tcp"));
}

/* Each rank has parameters of its own, and updates all its matrices. */
static void local_steps_share_nothing_out(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "rounds", 0,
                    FLAGS("--ranks", "2", SHAPE, "--local-steps", "3"));
    expect_same(FLAGS("--ranks", "2", SHAPE, "--local-steps", "3", "--transport", "tcp"));
}

static void a_training_in_parts_has_the_bits_of_the_whole(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "at-once", 0, FLAGS("--ranks", "4", SHAPE));
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--mode", "pp-cpu", "--ranks", "3", "--micro-batches", "4", SHAPE,
                          "--steps", "2", "--save-every", "2", "--resume"));
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "2", "--micro-batches", "2", SHAPE, "--steps", "4",
                          "--save-every", "4", "--resume"));
    training_expect(
        &two, &test_shared_directory, "parts", 1,
        FLAGS("--ranks", "4", "--layers", "3", "--heads", "4", "--save-every", "6", "--resume"));
    assert_has(two.program.text[TEST_STDERR],
               "it was written with --optimizer muon, and this job has adamw");
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "4", SHAPE, "--save-every", "6", "--resume"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "4", SHAPE, "--muon-momentum", "0.9", "--steps", "7",
                          "--save-every", "7", "--resume"));
    assert_has(two.program.text[TEST_STDERR], "--resume: --muon-momentum is 0.9 now, and was 0.95");
}

/* Each rank has the momentum of its experts alone, and a checkpoint all. */
static void experts_change_ranks_between_parts(void **state)
{
    (void)state;
    static const char *const expert_ranks[] = {"2", "1", "4"};
    static const char *const steps[] = {"2", "4", "6"};
    training_expect(&one, &test_shared_directory, "experts-at-once", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", "--experts", "4", SHAPE));
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        training_expect(&two, &test_shared_directory, "experts-in-parts", 0,
                        FLAGS("--ranks", "4", "--experts", "4", SHAPE, "--expert-ranks",
                              expert_ranks[i], "--steps", steps[i], "--save-every", steps[i],
                              "--resume"));
    }
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

/* The optimizer and its momentum, and that the memory is what was planned. */
static void the_record_says_it(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "said", 0, FLAGS("--ranks", "2", SHAPE));
    json_t *manifest = training_manifest(&one);
    const json_t *training = json_object_get(manifest, "training");
    assert_string_equal(json_string_value(json_object_get(training, "optimizer")), "Muon");
    assert_true(json_number_value(json_object_get(training, "muon_momentum")) == 0.95);
    assert_true(json_is_true(json_object_get(manifest, "byte_equivalent")));
    assert_has(json_string_value(json_object_get(manifest, "lesson_notes")), "of Muon and AdamW");
    json_decref(manifest);
    training_expect(&two, &test_shared_directory, "another", 0,
                    FLAGS("--ranks", "2", SHAPE, "--muon-momentum", "0.5"));
    size_t bytes[2];
    char *files[2] = {training_file(&one, "model.safetensors", &bytes[0]),
                      training_file(&two, "model.safetensors", &bytes[1])};
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_not_equal(files[0], files[1], bytes[0]);
    free(files[0]);
    free(files[1]);
}

/* The spans of a step, on all ranks, in iterations of a matrix: of their own, or of operations. */
static int count_of(const trace_file *in, int step, int matrix, const char *category)
{
    int count = 0;
    for (size_t i = 0; i < in->count; i++) {
        const trace_span *own = &in->spans[i];
        count += own->step == step && trace_file_is(own, category) &&
                         trace_file_integer(own->args, "matrix") == matrix
                     ? 1
                     : 0;
    }
    return count;
}

/* Each of the 12 matrices once in each step, on the rank that computes it: a norm and 15 products. */
static void the_trace_shows_the_iterations(void **state)
{
    (void)state;
    enum { MATRICES = 12 };
    static const char *const stages[] = {"0", "1"};
    for (size_t z = 0; z < sizeof stages / sizeof stages[0]; z++) {
        training_expect(&one, &test_shared_directory, "traced", 0,
                        FLAGS("--ranks", "2", SHAPE, "--zero", stages[z]));
        trace_file in = trace_file_read(&one);
        trace_file_check_nesting(&in);
        assert_true(in.step_count > 0);
        for (int s = 0; s < in.step_count; s++) {
            for (int matrix = 0; matrix < MATRICES; matrix++) {
                assert_int_equal(count_of(&in, in.steps[s], matrix, "newton_schulz"), 1);
                assert_int_equal(count_of(&in, in.steps[s], matrix, "operation"), 1 + 15);
            }
            assert_int_equal(count_of(&in, in.steps[s], MATRICES, "newton_schulz"), 0);
        }
        trace_file_free(&in);
    }
}

static double real_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

/* What `launcher plan` says of the job, whose model it has trained. The caller frees it. */
static json_t *plan_of(const training_run *run, int ranks, const char *expert_ranks)
{
    static test_program program;
    char count[12];
    char global_batch[12];
    (void)snprintf(count, sizeof count, "%d", ranks);
    (void)snprintf(global_batch, sizeof global_batch, "%d", 2 * ranks);
    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "plan", "--checkpoint", run->out, "--data", count,
                             "--tensor", "1", "--pipeline", "1", "--expert-ranks", expert_ranks,
                             "--batch", "2", "--global-batch", global_batch, "--context", "64",
                             "--precision", "float32", "--optimizer", "muon", "--json"),
                       NULL);
    assert_int_equal(test_program_wait(&program), 0);
    json_t *plan = json_loads(program.text[TEST_STDOUT], JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(plan);
    return plan;
}

/* Of all exchanges of a kind in the bill. */
static double bytes_of(const json_t *plan, const char *operation)
{
    size_t i = 0;
    const json_t *row = NULL;
    double bytes = 0;
    json_array_foreach(json_object_get(plan, "bill"), i, row)
    {
        const bool is =
            strcmp(json_string_value(json_object_get(row, "operation")), operation) == 0;
        bytes += is ? real_of(row, "times") * real_of(row, "payload_bytes") : 0;
    }
    return bytes;
}

/* Memory as planned by the job's ranks, as they have it, and as `launcher plan` says; and the same of what they
 * exchange, but for so many bytes of losses and counts. */
static void assert_planned(const training_run *run, int ranks, const char *expert_ranks,
                           double sums_bytes)
{
    json_t *plan = plan_of(run, ranks, expert_ranks);
    json_t *manifest = training_manifest(run);
    const json_t *list = json_object_get(manifest, "ranks");
    assert_int_equal(json_array_size(list), ranks);
    const double optimizer = real_of(json_object_get(plan, "memory"), "optimizer");
    const json_t *matrices = training_row(plan, "bill", "what", "matrices");
    assert_string_equal(json_string_value(json_object_get(plan, "optimizer")), "muon");
    for (size_t i = 0; i < (size_t)ranks; i++) {
        const json_t *rank = json_array_get(list, i);
        const json_t *moments = training_row(rank, "state", "purpose", "moments");
        const json_t *gathers = training_row(rank, "exchanges", "kind", "all_gather");
        const json_t *sums = training_row(rank, "exchanges", "kind", "all_reduce");
        assert_true(real_of(moments, "planned_bytes") == optimizer);
        assert_true(real_of(moments, "allocated_bytes") == optimizer);
        assert_true(real_of(gathers, "calls") == 1 && real_of(matrices, "times") == 1);
        assert_true(real_of(gathers, "bytes") == real_of(matrices, "payload_bytes"));
        assert_true(real_of(sums, "bytes") - sums_bytes == bytes_of(plan, "all_reduce"));
    }
    json_decref(manifest);
    json_decref(plan);
}

/* Llamas whose blocks end with a matrix, with norms of heads, or have biases between matrices. */
static const char *draw(const char *type)
{
    static test_program program;
    static char out[BASE_PATH_BYTES];
    char config[512];
    (void)snprintf(config, sizeof config,
                   "{\"model_type\": \"%s\", \"vocab_size\": 512, \"hidden_size\": 40, "
                   "\"intermediate_size\": 72, \"num_hidden_layers\": 2, "
                   "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 10, "
                   "\"rms_norm_eps\": 1e-6, \"max_position_embeddings\": 64, "
                   "\"hidden_act\": \"silu\", \"tie_word_embeddings\": true}",
                   type);
    assert_int_equal(mkdir(test_shared_path(type), 0700), 0);
    char name[64];
    (void)snprintf(name, sizeof name, "%s/config.json", type);
    test_shared_put(name, config);
    char like[BASE_PATH_BYTES];
    (void)snprintf(like, sizeof like, "%s", test_shared_path(type));
    (void)snprintf(out, sizeof out, "%s-drawn", like);
    test_program_start(&program, FLAGS(RANDOM_CHECKPOINT_PATH, out, TOKENIZER_PATH, "--like", like),
                       NULL);
    assert_int_equal(test_program_wait(&program), 0);
    return out;
}

static void the_plan_has_what_jobs_have(void **state)
{
    (void)state;
    enum { SUMS_OF_NORM = 20 /* of what ranks have apart */ };
    enum { SUMS = 32, SUMS_OF_EXPERTS = 40 + 8 * 4 * 3 /* and the loads of each in each layer */ };
    static const char *const llamas[] = {"llama", "qwen2", "qwen3"};
    training_expect(&one, &test_shared_directory, "planned", 0,
                    FLAGS("--ranks", "2", "--steps", "2", SHAPE));
    assert_planned(&one, 2, "1", SUMS);
    training_expect(&one, &test_shared_directory, "planned-experts", 0,
                    FLAGS("--ranks", "2", "--steps", "2", "--experts", "4", SHAPE));
    assert_planned(&one, 2, "1", SUMS_OF_EXPERTS);
    training_expect(
        &one, &test_shared_directory, "planned-expert-ranks", 0,
        FLAGS("--ranks", "4", "--steps", "2", "--experts", "4", "--expert-ranks", "2", SHAPE));
    assert_planned(&one, 4, "2", SUMS_OF_EXPERTS + SUMS_OF_NORM);
    for (size_t i = 0; i < sizeof llamas / sizeof llamas[0]; i++) {
        training_expect(&one, &test_shared_directory, "planned-llama", 0,
                        FLAGS("--ranks", "3", "--steps", "2", "--width", "40", "--layers", "2",
                              "--heads", "4", "--checkpoint", draw(llamas[i]), MUON));
        assert_planned(&one, 3, "1", SUMS);
    }
}

/* One layer has four matrices, so some of eight ranks have nothing to update. */
static void ranks_may_be_more_than_matrices(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "few", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "8", MUON));
    training_expect(&two, &test_shared_directory, "many", 0, FLAGS("--ranks", "8", MUON));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    training_expect_refused(&one, FLAGS("--optimizer", "adam"), "--optimizer");
    training_expect_refused(&one, FLAGS("--muon-momentum", "0.9"),
                            "--muon-momentum goes with --optimizer muon");
    training_expect_refused(&one, FLAGS(MUON, "--muon-momentum", "1"), "--muon-momentum");
    training_expect_refused(&one, FLAGS(MUON, "--mode", "ddp-nccl"),
                            "--optimizer muon goes with modes that train on CPUs (ddp-cpu, "
                            "pp-cpu), not with ddp-nccl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_change_no_bits),
        cmocka_unit_test(local_steps_share_nothing_out),
        cmocka_unit_test(a_training_in_parts_has_the_bits_of_the_whole),
        cmocka_unit_test(experts_change_ranks_between_parts),
        cmocka_unit_test(the_record_says_it),
        cmocka_unit_test(the_trace_shows_the_iterations),
        cmocka_unit_test(the_plan_has_what_jobs_have),
        cmocka_unit_test(ranks_may_be_more_than_matrices),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
