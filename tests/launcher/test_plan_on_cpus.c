/* What a plan says beyond itself: the command that runs a layout on CPUs, and with which flags it would
 * fit. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "launch/options.h"
#include "plan/estimate.h"
#include "plan_run.h"
#include "support.h"

/* The JSON has that stage of ZeRO, or recompute. */
static void assert_ways(const char *text, int wanted)
{
    int zero[2] = {-1, -1};
    int recompute[2] = {-1, -1};
    double bytes[2] = {0, 0};
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_int_equal(json_unpack(json, "{s:[{s:i, s:b, s:f}, {s:i, s:b, s:f}!]}", "fits_with",
                                 "zero", &zero[0], "recompute", &recompute[0], "memory_bytes",
                                 &bytes[0], "zero", &zero[1], "recompute", &recompute[1],
                                 "memory_bytes", &bytes[1]),
                     0);
    assert_true(zero[0] == wanted && recompute[0] == 0 && zero[1] == 0 && recompute[1] == 1);
    assert_true(bytes[0] > 0 && bytes[0] <= 70e9 && bytes[1] > 0 && bytes[1] <= 70e9);
    json_decref(json);
}

/* Of the text, and of the JSON. */
static void flags_that_save_memory_are_planned_and_offered(void **state)
{
#define LARGE "--batch", "16", "--data", "4", "--tensor", "1", "--pipeline", "1"
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    assert_int_equal(plan_run(PLAN_WORDS(LARGE, "--memory", "70"), text), BASE_EXIT_ERROR);
    assert_has(text, " of 70.0 GB: does not fit\n  with --zero 2 it would fit: 55.0 GB\n"
                     "  with --recompute it would fit: 55.7 GB\n");
    assert_int_equal(plan_run(PLAN_WORDS(LARGE, "--memory", "70", "--recompute"), text),
                     BASE_EXIT_DONE);
    assert_has(text, "together        55.7 GB of 70.0 GB\n");
    assert_has(text, " of 16 x 1024, with --recompute\n");
    assert_has(text, "\n    of it again ");
    assert_has(text, " --micro-batches 4 --recompute\n");
    assert_int_equal(plan_run(PLAN_WORDS(LARGE, "--memory", "40"), text), BASE_EXIT_ERROR);
    assert_has(text, ": does not fit\n  with --zero 2 --recompute it would fit: 25.3 GB\n");
    assert_int_equal(plan_run(PLAN_WORDS(LARGE, "--memory", "15"), text), BASE_EXIT_ERROR);
    assert_null(strstr(text, "--recompute"));
    assert_int_equal(
        plan_run(PLAN_WORDS("--batch", "16", "--ranks", "4", "--data", "4", "--memory", "70"),
                 text),
        BASE_EXIT_ERROR);
    assert_int_equal(plan_run(PLAN_WORDS("--batch", "16", "--ranks", "4", "--memory", "70"), text),
                     BASE_EXIT_DONE);
    assert_has(text, "  fits with --zero 2 or --recompute\n");
    assert_int_equal(plan_run(PLAN_WORDS(LARGE, "--memory", "70", "--json"), text),
                     BASE_EXIT_ERROR);
    assert_has(text, "\"recompute\": false");
    assert_ways(text, 2);
    assert_has(text, "\"computing_again_s\": 0");
    assert_has(text, "\"zero\": 0");
    assert_int_equal(plan_run(PLAN_WORDS(LARGE, "--recompute", "--json"), text), BASE_EXIT_DONE);
    assert_has(text, "\"recompute\": true");
    assert_has(text, "\"fits_with\": []");
#undef LARGE
}

/* The stages of ZeRO that the launcher trains with. */
static const int zero_stages[] = {1, 2, 3};

/* The command for CPUs is one that the launcher accepts, of the layout that it stands beside. */
static void assert_runs(const char *command, const launch_layout *layout, int zero, int chunks)
{
    static launch_options options;
    base_error error = {.message = ""};
    char copy[1024];
    char *rest = NULL;
    char *arguments[PLAN_ARGS_MAX + 1] = {0};
    int count = 0;
    (void)snprintf(copy, sizeof copy, "%s", command);
    for (char *at = strtok_r(copy, " ", &rest); at != NULL && count < PLAN_ARGS_MAX;
         at = strtok_r(NULL, " ", &rest)) {
        arguments[count++] = at;
    }
    assert_string_equal(arguments[0], "launcher");
    assert_ok(launch_options_parse(count, arguments, &options, &error), &error);
    assert_ok(launch_options_check(&options, &error), &error);
    const proto_job *job = &options.job;
    assert_int_equal(proto_job_replicas(job), layout->data);
    assert_int_equal(proto_job_context_ranks(job), layout->context_ranks);
    assert_int_equal(proto_job_tensor(job), layout->tensor);
    assert_int_equal(proto_job_stages(job), layout->pipeline);
    assert_int_equal(job->train.batch * job->train.micro_batches * layout->data, 192);
    assert_int_equal(job->parallel.zero, zero);
    assert_int_equal(proto_job_pipeline(job).chunks, chunks);
    assert_true(layout->pipeline == 1 ||
                job->parallel.pipeline ==
                    (chunks > 1 ? PROTO_PIPELINE_INTERLEAVED : PROTO_PIPELINE_1F1B));
    const bool whole = layout->tensor == 1 && layout->pipeline == 1;
    assert_int_equal(job->job.mode, whole ? PROTO_MODE_DDP_CPU : PROTO_MODE_PP_CPU);
}

/* Checks the commands of all layouts of a plan with that stage of ZeRO, that schedule and so many context
 * ranks. Returns how many have the first. */
static int assert_commands(int zero, const char *schedule, int context_ranks)
{
    char stage[12];
    char shared[12];
    static char text[PLAN_TEXT_BYTES];
    json_t *layout = NULL;
    size_t index = 0;
    int commands = 0;
    int sharded = 0;
    int interleaved = 0;
    (void)snprintf(stage, sizeof stage, "%d", zero);
    (void)snprintf(shared, sizeof shared, "%d", context_ranks);
    assert_int_equal(
        plan_run(PLAN_WORDS("--model", "gpt2", "--layers", "12", "--width", "384", "--heads", "12",
                            "--context", "128", "--ranks", "24", "--batch", "2", "--global-batch",
                            "192", "--zero", stage, "--schedule", schedule, "--context-ranks",
                            shared, "--json"),
                 text),
        BASE_EXIT_DONE);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    json_array_foreach(json_object_get(json, "layouts"), index, layout)
    {
        launch_layout at = {.data = 0};
        int has = 0;
        json_t *command = NULL;
        assert_int_equal(json_unpack(layout, "{s:{s:I, s:I, s:I, s:I}, s:i, s:o}", "layout", "data",
                                     &at.data, "context_ranks", &at.context_ranks, "tensor",
                                     &at.tensor, "pipeline", &at.pipeline, "zero", &has, "on_cpus",
                                     &command),
                         0);
        assert_int_equal(at.context_ranks, context_ranks);
        assert_int_equal(launch_layout_ranks(&at), 24);
        assert_int_equal(has, launch_layout_copies(&at) > 1 ? zero : 0);
        /* parts on CPUs are a power of two, and pp-cpu has no ZeRO */
        if (at.tensor % 3 == 0 || (has > 0 && (at.tensor > 1 || at.pipeline > 1))) {
            assert_true(json_is_null(command));
        } else {
            const int chunks = at.pipeline > 1 && strcmp(schedule, "interleaved") == 0 ? 2 : 1;
            assert_runs(json_string_value(command), &at, has, chunks);
            commands++;
            interleaved += chunks > 1 ? 1 : 0;
            sharded += has > 0 ? 1 : 0;
        }
    }
    assert_true(commands > (zero > 0 && context_ranks > 1 ? 0 : 1));
    assert_int_equal(interleaved > 0, strcmp(schedule, "interleaved") == 0);
    json_decref(json);
    return sharded;
}

static void layouts_have_a_command_for_cpus(void **state)
{
    (void)state;
    for (int context_ranks = 1; context_ranks <= 4; context_ranks++) {
        assert_int_equal(assert_commands(0, "1f1b", context_ranks), 0);
        assert_int_equal(assert_commands(0, "interleaved", context_ranks), 0);
        for (size_t i = 0; i < sizeof zero_stages / sizeof *zero_stages; i++) {
            assert_int_equal(assert_commands(zero_stages[i], "1f1b", context_ranks), 1);
        }
    }
}

/* The text has the command of the layout that it shows. */
static void the_text_ends_with_the_command_for_cpus(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
#define MINI "--model", "minigpt", "--batch", "4", "--global-batch", "64"
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--data", "2", "--tensor", "2", "--pipeline", "2",
                                         "--steps", "10"),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, "\nOn CPUs: launcher --mode pp-cpu --ranks 8 --stages 2 --tensor 2 --pipeline "
                     "1f1b --layers 2 --width 128 --heads 4 --context 64 --batch 4 "
                     "--micro-batches 8 --steps 10\n");
    assert_int_equal(
        plan_run(PLAN_WORDS(MINI, "--data", "2", "--tensor", "1", "--pipeline", "1"), text),
        BASE_EXIT_DONE);
    assert_has(text,
               "\nOn CPUs: launcher --mode ddp-cpu --ranks 2 --layers 2 --width 128 --heads 4 "
               "--context 64 --batch 4 --micro-batches 8\n");
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--data", "2", "--tensor", "1", "--pipeline", "1",
                                         "--zero", "3", "--recompute"),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, " of 4 x 64, with --zero 3 --recompute\n");
    assert_has(text, "\n  parameters, not hidden ");
    assert_has(text, " --context 64 --batch 4 --micro-batches 8 --zero 3 --recompute\n");
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--data", "2", "--tensor", "1", "--pipeline", "1",
                                         "--local-steps", "7"),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, "\nround     7 steps that each replica takes alone;");
    assert_has(text, "\n  changes         all_reduce         2 inside   0.143 ");
    assert_has(text, " --context 64 --batch 4 --micro-batches 8 --local-steps 7\n");
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--data", "2", "--tensor", "2", "--pipeline", "2",
                                         "--context-ranks", "2"),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, "\nOn CPUs: launcher --mode pp-cpu --ranks 16 --stages 2 --context-ranks 2 "
                     "--tensor 2 --pipeline 1f1b --layers 2 ");
    assert_int_equal(
        plan_run(PLAN_WORDS(MINI, "--layers", "6", "--data", "1", "--tensor", "1", "--pipeline",
                            "2", "--schedule", "interleaved", "--chunks", "3", "--steps", "5"),
                 text),
        BASE_EXIT_DONE);
    assert_has(text,
               "\nOn CPUs: launcher --mode pp-cpu --ranks 2 --stages 2 --pipeline interleaved "
               "--chunks 3 --layers 6 --width 128 --heads 4 --context 64 --batch 4 "
               "--micro-batches 16 --steps 5\n");
    assert_int_equal(plan_run(PLAN_WORDS(MINI, "--data", "1", "--tensor", "1", "--pipeline", "2",
                                         "--schedule", "interleaved", "--chunks", "1"),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, " --stages 2 --pipeline 1f1b --layers 2 "); /* as a job of one chunk has it */
    assert_null(strstr(text, "--chunks"));
    static const struct {
        const char *words[12];
    } none[] = {
        {{"--model", "gpt2", "--ranks", "3", "--tensor", "3", "--global-batch", "64"}},
        {{MINI, "--data", "2", "--pipeline", "2", "--zero", "1"}}, /* pp-cpu has no ZeRO */
        {{"--decode", "--model", "minigpt", "--ranks", "2"}},
        {{MINI, "--width", "32768", "--ranks", "1", "--memory",
          "9999"}}, /* wider than ranks take */
        {{MINI, "--layers", "513", "--ranks", "1"}},
        {{"--model", "smollm2-135m", "--ranks", "2"}}, /* of which there is no checkpoint */
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        const char *words[PLAN_ARGS_MAX] = {"launcher", "plan"};
        memcpy(words + 2, none[i].words, sizeof none[i].words);
        assert_int_equal(plan_run(words, text), BASE_EXIT_DONE);
        assert_null(strstr(text, "On CPUs"));
    }
#undef MINI
}

static void put_file(const char *name)
{
    FILE *file = fopen(plan_path(name), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

/* Plans a Llama of two heads of keys and values on 2 x 2 ranks. */
static void plan_llama(const char *more, const char *flag, const char *value,
                       char text[PLAN_TEXT_BYTES])
{
    char config[512];
    (void)snprintf(config, sizeof config,
                   "{\"model_type\": \"llama\", \"vocab_size\": 512, \"hidden_size\": 64, "
                   "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"hidden_act\": "
                   "\"silu\", \"num_key_value_heads\": 2, \"max_position_embeddings\": 4096, %s}",
                   more);
    plan_write_config(config);
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory, "--data", "2", "--tensor",
                                         "2", "--pipeline", "1", "--batch", "1", flag, value),
                              text),
                     BASE_EXIT_DONE);
}

/* A checkpoint is trained further if it is whole, ranks know it, and nothing changes its shape. */
static void a_checkpoints_command_names_it(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    char wanted[256];
    plan_llama("\"intermediate_size\": 96", NULL, NULL, text);
    assert_null(strstr(text, "On CPUs")); /* the weights are missing */
    put_file("tokenizer.json");
    put_file("model.safetensors");
    plan_llama("\"intermediate_size\": 96", NULL, NULL, text);
    (void)snprintf(wanted, sizeof wanted,
                   "\nOn CPUs: launcher --mode pp-cpu --ranks 4 --stages 1 --tensor 2 --checkpoint "
                   "%s --context 4096 --batch 1 --micro-batches 128\n",
                   plan_directory);
    assert_has(text, wanted);
    plan_llama("\"intermediate_size\": 96", "--context", "1024", text);
    assert_has(text, " --context 1024 ");
    plan_llama("\"intermediate_size\": 96", "--context", "8192", text); /* more than it takes */
    assert_null(strstr(text, "On CPUs"));
    plan_llama("\"intermediate_size\": 96", "--layers", "4", text);
    assert_null(strstr(text, "On CPUs"));
    plan_llama("\"intermediate_size\": 48", NULL, NULL, text); /* 24 columns each: no sixteens */
    assert_null(strstr(text, "On CPUs"));
    plan_llama("\"intermediate_size\": 96, \"rope_scaling\": {\"rope_type\": \"yarn\", "
               "\"factor\": 4.0}",
               NULL, NULL, text); /* which ranks do not know */
    assert_null(strstr(text, "On CPUs"));
    (void)unlink(plan_path("config.json"));
    (void)unlink(plan_path("tokenizer.json"));
    (void)unlink(plan_path("model.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_that_save_memory_are_planned_and_offered),
        cmocka_unit_test(layouts_have_a_command_for_cpus),
        cmocka_unit_test(the_text_ends_with_the_command_for_cpus),
        cmocka_unit_test(a_checkpoints_command_names_it),
    };
    return cmocka_run_group_tests(tests, plan_setup, plan_teardown);
}
