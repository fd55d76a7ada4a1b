/* `launcher plan`, from its command line to its JSON, text and drawing. */
#include "cli/plan_options.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "cli/cli.h"
#include "launch/options.h"
#include "support.h"

enum { ARGS_MAX = 32, TEXT_BYTES = 1 << 16 };

#define WORDS(...) ((const char *const[]){"launcher", "plan", __VA_ARGS__ __VA_OPT__(, ) NULL})

static char directory[] = "/tmp/plan-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[64];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static char warnings[TEXT_BYTES]; /* what the last run has printed on stderr */

/* A file in place of a standard descriptor; *kept is the old one. */
static FILE *divert(int fd, int *kept)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    *kept = dup(fd);
    assert_true(dup2(fileno(file), fd) >= 0);
    return file;
}

static void restore(int fd, int kept, FILE *file, char text[TEXT_BYTES])
{
    assert_true(dup2(kept, fd) >= 0);
    (void)close(kept);
    rewind(file);
    text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
    (void)fclose(file);
}

/* Runs the command; what it prints is in `text`. */
static int run(const char *const *given, char text[TEXT_BYTES])
{
    static char copies[ARGS_MAX][256];
    char *arguments[ARGS_MAX + 1] = {0};
    int count = 0;
    for (; given[count] != NULL && count < ARGS_MAX; count++) {
        (void)snprintf(copies[count], sizeof copies[0], "%s", given[count]);
        arguments[count] = copies[count];
    }
    (void)fflush(stdout);
    int kept[2];
    FILE *out = divert(STDOUT_FILENO, &kept[0]);
    FILE *err = divert(STDERR_FILENO, &kept[1]);
    const int exit_status = launch_cli(count, arguments, RANK_PATH);
    (void)fflush(stdout);
    restore(STDOUT_FILENO, kept[0], out, text);
    restore(STDERR_FILENO, kept[1], err, warnings);
    return exit_status;
}

static void json_has_the_same_figures_as_the_estimate(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(
        run(WORDS("--model", "gpt2", "--ranks", "4", "--data", "2", "--pipeline", "2",
                  "--global-batch", "64", "--price", "2.00", "--steps", "1000", "--json"),
            text),
        BASE_EXIT_DONE);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    int64_t parameters = 0;
    int data = 0;
    int tensor = 0;
    double bubble = 0;
    double step_s = 0;
    const char *cost = NULL;
    assert_int_equal(json_unpack(json, "{s:{s:I}, s:{s:i, s:i}, s:{s:f}, s:{s:f}, s:s}", "model",
                                 "parameters", &parameters, "layout", "data", &data, "tensor",
                                 &tensor, "pipeline", "bubble_of_equal_stages", &bubble, "step",
                                 "step_s", &step_s, "cost_usd", &cost),
                     0);
    assert_int_equal(parameters, 124439808);
    assert_int_equal(data, 2);
    assert_int_equal(tensor, 1);
    assert_true(fabs(bubble - 1.0 / 9) < 1e-12);
    /* 4 ranks for whole seconds at 2 dollars an hour, rounded up */
    const double micro = ceil(4 * ceil(1000 * step_s) * 2e6 / 3600);
    assert_true(fabs(strtod(cost, NULL) * 1e6 - micro) < 0.5);
    json_decref(json);
}

/* The text says of what a share is, how the layouts are sorted, and the time that is paid. */
static void the_text_says_what_its_figures_are(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
#define ASK(...)                                                                                   \
    WORDS("--model", "gpt2-xl", "--ranks", "8", "--device", "h100", "--batch", "1", "--price",     \
          "2.50", "--steps", "10000", "--global-batch", __VA_ARGS__)
    assert_int_equal(run(ASK("64"), text), BASE_EXIT_DONE); /* 16 micro-batches */
    assert_has(text, "Layouts of these ranks, by tokens/s; those that do not fit come "
                     "last\n");
    assert_has(text, ". idle (0 follows 9, and a follows j)\n");
    assert_has(text, " % of the pipeline's time (the step without ");
    assert_null(strstr(text, "% of the step"));
    /* 8 ranks at 2.50 dollars: $16.155556 is 2908 s of them */
    assert_has(text, "10000 steps take 2908 s and cost $16.155556: ");
    assert_int_equal(run(ASK("40", "--pipeline", "2"), text), BASE_EXIT_DONE); /* 10 */
    assert_has(text, ". idle\n");
#undef ASK
}

static void unknown_prices_are_unknown(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS("--steps", "10", "--json"), text), BASE_EXIT_DONE);
    assert_has(text, "\"cost_usd\": null");
    assert_int_equal(run(WORDS("--steps", "10"), text), BASE_EXIT_DONE);
    assert_has(text, "not known without --price");
    assert_int_equal(run(WORDS("--steps", "1000000", "--price", "900000"), text), BASE_EXIT_DONE);
    assert_has(text, "beyond what the budget can count");
}

static void what_does_not_fit_ends_with_1(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS("--ranks", "1", "--memory", "10"), text), BASE_EXIT_ERROR);
    assert_has(text, "does not fit");
    assert_int_equal(run(WORDS("--ranks", "1", "--memory", "1000"), text), BASE_EXIT_DONE);
    assert_null(strstr(text, "does not fit"));
}

/* Of the text, and of the JSON. */
static void recompute_is_planned_and_offered(void **state)
{
#define LARGE "--batch", "16", "--data", "4", "--tensor", "1", "--pipeline", "1"
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS(LARGE, "--memory", "70"), text), BASE_EXIT_ERROR);
    assert_has(text, " of 70.0 GB: does not fit\n  with --recompute it would fit: 55.7 GB\n");
    assert_int_equal(run(WORDS(LARGE, "--memory", "70", "--recompute"), text), BASE_EXIT_DONE);
    assert_has(text, "together        55.7 GB of 70.0 GB\n");
    assert_has(text, " of 16 x 1024, with --recompute\n");
    assert_has(text, "\n    of it again ");
    assert_has(text, " --micro-batches 4 --recompute\n");
    assert_int_equal(run(WORDS(LARGE, "--memory", "40"), text), BASE_EXIT_ERROR);
    assert_null(strstr(text, "--recompute"));
    assert_int_equal(
        run(WORDS("--batch", "16", "--ranks", "4", "--data", "4", "--memory", "70"), text),
        BASE_EXIT_ERROR);
    assert_int_equal(run(WORDS("--batch", "16", "--ranks", "4", "--memory", "70"), text),
                     BASE_EXIT_DONE);
    assert_has(text, "  fits with --recompute\n");
    assert_int_equal(run(WORDS(LARGE, "--memory", "70", "--json"), text), BASE_EXIT_ERROR);
    assert_has(text, "\"recompute\": false");
    assert_has(text, "\"memory_bytes_with_recompute\": 5");
    assert_has(text, "\"computing_again_s\": 0");
    assert_int_equal(run(WORDS(LARGE, "--recompute", "--json"), text), BASE_EXIT_DONE);
    assert_has(text, "\"recompute\": true");
    assert_has(text, "\"memory_bytes_with_recompute\": null");
#undef LARGE
}

static void own_figures_replace_the_devices(void **state)
{
    (void)state;
    static launch_plan_options options;
    base_error error;
    char *arguments[] = {(char[]){"plan"},       (char[]){"--link=5,100"},
                         (char[]){"--tflops=7"}, (char[]){"--precision=float32"},
                         (char[]){"--layers=6"}, (char[]){"--ranks-per-host=2"}};
    assert_ok(launch_plan_options_parse(6, arguments, &options, &error), &error);
    const launch_device *device = &options.ask.device;
    assert_true(fabs(device->inside.latency_s - 5e-6) < 1e-15);
    assert_true(device->inside.bandwidth_bytes_per_s == 100e9);
    assert_true(device->flops[PROTO_PRECISION_FLOAT32] == 7e12);
    assert_int_equal(device->host_ranks, 2);
    assert_int_equal(options.ask.model.layers, 6);
    assert_int_equal(options.ask.model.width, 1600);
}

static void write_config(const char *text)
{
    FILE *file = fopen(path_of("config.json"), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_checkpoint_gives_its_shape(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    write_config("{\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 3, \"n_head\": 2, "
                 "\"n_positions\": 32}");
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_USAGE);
    write_config("{\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 3, \"n_head\": 2, "
                 "\"n_positions\": 32, \"model_type\": \"gpt2\"}");
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_DONE);
    assert_has(text, "3 layers, width 64, 2 heads, vocabulary 100, context 32");
    write_config("{\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 40000000000, \"n_head\": 2, "
                 "\"n_positions\": 32, \"model_type\": \"gpt2\"}");
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_USAGE);
    (void)unlink(path_of("config.json"));
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_USAGE);
    assert_int_equal(mkfifo(path_of("config.json"), 0600), 0); /* nobody writes to it */
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_USAGE);
    assert_has(warnings, "config.json is not a regular file");
    (void)unlink(path_of("config.json"));
}

/* A Llama's config.json with more keys behind those that all have. */
static void write_llama(const char *more)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"vocab_size\": 100, \"hidden_size\": 64, \"num_hidden_layers\": 3, "
                   "\"num_attention_heads\": 4, \"max_position_embeddings\": 131072, %s}",
                   more);
    write_config(text);
}

#define LLAMA "\"model_type\": \"llama\", \"intermediate_size\": 96"

static void a_llamas_config_gives_its_shape(void **state)
{
    static const struct {
        const char *more;
        const char *words; /* NULL: it is refused */
    } cases[] = {
        {LLAMA ", \"num_key_value_heads\": 2, \"head_dim\": 20",
         "4 heads of 20, 2 of keys and values, MLP 96, vocabulary 100, context 8192 of 131072; "
         "114624 parameters"},
        {LLAMA ", \"num_key_value_heads\": null, \"head_dim\": null, \"tie_word_embeddings\": true",
         "4 heads of 16, 4 of keys and values, MLP 96, vocabulary 100, context 8192 of 131072; "
         "111296 parameters"},
        {"\"model_type\": \"mistral\", \"intermediate_size\": 96, \"num_key_value_heads\": 1",
         "4 heads of 16, 1 of keys and values"},
        {LLAMA ", \"attention_bias\": true", NULL},
        {LLAMA ", \"mlp_bias\": true", NULL},
        {LLAMA ", \"num_key_value_heads\": 3", NULL},
        {LLAMA ", \"num_key_value_heads\": 0", NULL},
        {LLAMA ", \"head_dim\": \"wide\"", NULL},
        {LLAMA ", \"head_dim\": -16", NULL},
        {"\"model_type\": \"llama\"", NULL},
        {"\"model_type\": \"llama\", \"intermediate_size\": 0", NULL},
        {"\"model_type\": \"qwen2\", \"intermediate_size\": 96, \"num_key_value_heads\": 2, "
         "\"head_dim\": 20",
         "115104 parameters"}, /* 3 (80 + 2 · 40) more than the first one's */
        {"\"model_type\": \"qwen2\", \"intermediate_size\": 96, \"use_sliding_window\": true",
         NULL},
        {"\"model_type\": \"mamba\", \"intermediate_size\": 96", NULL},
    };
    static char text[TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_llama(cases[i].more);
        assert_int_equal(run(WORDS("--checkpoint", directory), text),
                         cases[i].words != NULL ? BASE_EXIT_DONE : BASE_EXIT_USAGE);
        if (cases[i].words != NULL && strstr(text, cases[i].words) == NULL) {
            fail_msg("no \"%s\" in %s", cases[i].words, text);
        }
    }
    write_llama("\"num_attention_heads\": 0, " LLAMA);
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_USAGE);
    write_llama(LLAMA);
    assert_int_equal(run(WORDS("--checkpoint", directory, "--context", "65536"), text),
                     BASE_EXIT_DONE);
    assert_has(text, "context 65536 of 131072");
    write_llama(LLAMA ", \"sliding_window\": 4096");
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_DONE);
    assert_has(text, "context 4096");
    (void)unlink(path_of("config.json"));
}

/* A plan needs the shape alone, but the user wants to know that no rank takes the model. */
static void what_no_rank_runs_is_planned_with_a_warning(void **state)
{
#define SILU LLAMA ", \"hidden_act\": \"silu\""
    static const struct {
        const char *more;
        const char *field; /* NULL: there is no warning */
    } cases[] = {
        {SILU, NULL},
        {LLAMA ", \"hidden_act\": \"gelu\"", "hidden_act must be \"silu\""},
        {SILU ", \"head_dim\": 7", "heads of 7 elements"},
        {SILU ", \"sliding_window\": 4096", NULL},
        {SILU ", \"sliding_window\": 0", "sliding_window is not positive"},
        {SILU ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0}",
         "rope_type \"yarn\""},
        {SILU ", \"quantization_config\": {\"bits\": 4}", "quantization_config: "},
    };
    static char text[TEXT_BYTES];
    char wanted[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_llama(cases[i].more);
        assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_DONE);
        (void)snprintf(wanted, sizeof wanted, "warning: this program does not run that model: %s: ",
                       path_of("config.json"));
        if ((cases[i].field != NULL) != (strstr(warnings, wanted) != NULL) ||
            (cases[i].field != NULL && strstr(warnings, cases[i].field) == NULL)) {
            fail_msg("case %zu says: %s", i, warnings);
        }
        const char *end = strchr(warnings, '\n'); /* one line */
        assert_true(cases[i].field == NULL ? warnings[0] == '\0' : end != NULL && end[1] == '\0');
        assert_int_equal(run(WORDS("--checkpoint", directory, "--json"), text), BASE_EXIT_DONE);
        json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL); /* no warning in it */
        assert_non_null(json);
        json_decref(json);
    }
    (void)unlink(path_of("config.json"));
}

/* A flag changes what it names; the width of heads follows from width and heads. */
static void flags_change_a_llamas_shape(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--json"), text),
                     BASE_EXIT_DONE);
    assert_has(text, "\"parameters\": 8030261248");
    assert_has(text, "\"name\": \"llama-3.1-8b\"");
    assert_has(text, "\"kv_heads\": 8");
    assert_has(text, "\"head_width\": 128");
    assert_has(text, "\"mlp_width\": 14336");
    assert_has(text, "\"tied\": false");
    assert_int_equal(run(WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--width", "2048",
                               "--kv-heads", "4", "--mlp-width", "5632"),
                         text),
                     BASE_EXIT_DONE);
    assert_has(text, "own: 32 layers, width 2048, 32 heads of 64, 4 of keys and "
                     "values, MLP 5632, ");
    assert_int_equal(run(WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--heads", "24",
                               "--head-width", "64"),
                         text),
                     BASE_EXIT_DONE);
    assert_has(text, "width 4096, 24 heads of 64, 8 of keys");
    assert_int_equal(
        run(WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--heads", "24"), text),
        BASE_EXIT_USAGE);
    assert_int_equal(
        run(WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--kv-heads", "5"), text),
        BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--model", "gpt2", "--kv-heads", "4"), text), BASE_EXIT_USAGE);
}

/* The command for CPUs is one that the launcher accepts, of the layout that it stands beside. */
static void assert_runs(const char *command, int data, int tensor, int pipeline)
{
    static launch_options options;
    base_error error = {.message = ""};
    char copy[1024];
    char *rest = NULL;
    char *arguments[ARGS_MAX + 1] = {0};
    int count = 0;
    (void)snprintf(copy, sizeof copy, "%s", command);
    for (char *at = strtok_r(copy, " ", &rest); at != NULL && count < ARGS_MAX;
         at = strtok_r(NULL, " ", &rest)) {
        arguments[count++] = at;
    }
    assert_string_equal(arguments[0], "launcher");
    assert_ok(launch_options_parse(count, arguments, &options, &error), &error);
    assert_ok(launch_options_check(&options, &error), &error);
    const proto_job *job = &options.job;
    assert_int_equal(proto_job_replicas(job), data);
    assert_int_equal(proto_job_tensor(job), tensor);
    assert_int_equal(proto_job_stages(job), pipeline);
    assert_int_equal(job->train.batch * job->train.micro_batches * data, 64);
    assert_true(pipeline == 1 || job->parallel.pipeline == PROTO_PIPELINE_1F1B);
    const bool whole = tensor == 1 && pipeline == 1;
    assert_int_equal(job->job.mode, whole ? PROTO_MODE_DDP_CPU : PROTO_MODE_PP_CPU);
}

static void layouts_have_a_command_for_cpus(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    json_t *layout = NULL;
    size_t index = 0;
    int commands = 0;
    assert_int_equal(run(WORDS("--model", "gpt2", "--layers", "6", "--width", "384", "--heads",
                               "12", "--context", "128", "--ranks", "24", "--batch", "2",
                               "--global-batch", "64", "--json"),
                         text),
                     BASE_EXIT_DONE);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    json_array_foreach(json_object_get(json, "layouts"), index, layout)
    {
        int data = 0;
        int tensor = 0;
        int pipeline = 0;
        json_t *command = NULL;
        assert_int_equal(json_unpack(layout, "{s:{s:i, s:i, s:i}, s:o}", "layout", "data", &data,
                                     "tensor", &tensor, "pipeline", &pipeline, "on_cpus", &command),
                         0);
        if (tensor % 3 == 0) { /* parts on CPUs are a power of two */
            assert_true(json_is_null(command));
        } else {
            assert_runs(json_string_value(command), data, tensor, pipeline);
            commands++;
        }
    }
    assert_true(commands > 3);
    json_decref(json);
}

/* The text has the command of the layout that it shows. */
static void the_text_ends_with_the_command_for_cpus(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
#define MINI "--model", "minigpt", "--batch", "4", "--global-batch", "64"
    assert_int_equal(
        run(WORDS(MINI, "--data", "2", "--tensor", "2", "--pipeline", "2", "--steps", "10"), text),
        BASE_EXIT_DONE);
    assert_has(text, "\nOn CPUs: launcher --mode pp-cpu --ranks 8 --stages 2 --tensor 2 --pipeline "
                     "1f1b --layers 2 --width 128 --heads 4 --context 64 --batch 4 "
                     "--micro-batches 8 --steps 10\n");
    assert_int_equal(run(WORDS(MINI, "--data", "2", "--tensor", "1", "--pipeline", "1"), text),
                     BASE_EXIT_DONE);
    assert_has(text,
               "\nOn CPUs: launcher --mode ddp-cpu --ranks 2 --layers 2 --width 128 --heads 4 "
               "--context 64 --batch 4 --micro-batches 8\n");
    static const struct {
        const char *words[12];
    } none[] = {
        {{MINI, "--layers", "4", "--pipeline", "2", "--schedule", "interleaved"}},
        {{"--model", "gpt2", "--ranks", "3", "--tensor", "3", "--global-batch", "64"}},
        {{"--decode", "--model", "minigpt", "--ranks", "2"}},
        {{"--model", "smollm2-135m", "--ranks", "2"}}, /* of which there is no checkpoint */
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        const char *words[ARGS_MAX] = {"launcher", "plan"};
        memcpy(words + 2, none[i].words, sizeof none[i].words);
        assert_int_equal(run(words, text), BASE_EXIT_DONE);
        assert_null(strstr(text, "On CPUs"));
    }
#undef MINI
}

static void put_file(const char *name)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

/* Plans a Llama of two heads of keys and values on 2 x 2 ranks. */
static void plan_llama(const char *more, const char *flag, const char *value, char text[TEXT_BYTES])
{
    char config[512];
    (void)snprintf(config, sizeof config,
                   "{\"model_type\": \"llama\", \"vocab_size\": 512, \"hidden_size\": 64, "
                   "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"hidden_act\": "
                   "\"silu\", \"num_key_value_heads\": 2, \"max_position_embeddings\": 4096, %s}",
                   more);
    write_config(config);
    assert_int_equal(run(WORDS("--checkpoint", directory, "--data", "2", "--tensor", "2",
                               "--pipeline", "1", "--batch", "1", flag, value),
                         text),
                     BASE_EXIT_DONE);
}

/* A checkpoint is trained further if it is whole, ranks know it, and nothing changes its shape. */
static void a_checkpoints_command_names_it(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    char wanted[256];
    plan_llama("\"intermediate_size\": 96", NULL, NULL, text);
    assert_null(strstr(text, "On CPUs")); /* the weights are missing */
    put_file("tokenizer.json");
    put_file("model.safetensors");
    plan_llama("\"intermediate_size\": 96", NULL, NULL, text);
    (void)snprintf(wanted, sizeof wanted,
                   "\nOn CPUs: launcher --mode pp-cpu --ranks 4 --stages 1 --tensor 2 --checkpoint "
                   "%s --context 4096 --batch 1 --micro-batches 128\n",
                   directory);
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
    (void)unlink(path_of("config.json"));
    (void)unlink(path_of("tokenizer.json"));
    (void)unlink(path_of("model.safetensors"));
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (const char *at = strstr(text, words); at != NULL; at = strstr(at + 1, words)) {
        count++;
    }
    return count;
}

static void the_drawing_has_every_task(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS("--ranks", "4", "--pipeline", "4", "--global-batch", "32",
                               "--picture", path_of("plan.svg")),
                         text),
                     BASE_EXIT_DONE);
    assert_has(text, "stage 3");
    FILE *file = fopen(path_of("plan.svg"), "r");
    assert_non_null(file);
    text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
    (void)fclose(file);
    assert_int_equal(count_of(text, ", forward of micro-batch"), 4 * 8);
    assert_int_equal(count_of(text, ", backward of micro-batch"), 4 * 8);
    assert_has(text, "</svg>");
    (void)unlink(path_of("plan.svg"));
    assert_int_equal(
        run(WORDS("--ranks", "1", "--pipeline", "1", "--picture", path_of("plan.svg")), text),
        BASE_EXIT_USAGE);
    assert_int_not_equal(access(path_of("plan.svg"), F_OK), 0);
    assert_int_equal(run(WORDS("--ranks", "4", "--pipeline", "4", "--global-batch", "32",
                               "--picture", path_of("plan.png")),
                         text),
                     BASE_EXIT_USAGE);
    assert_int_not_equal(access(path_of("plan.png"), F_OK), 0);
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS("now"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--model", "gpt5"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--link", "10"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--link", "10,0"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--heads", "7"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--link", ",450"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--chunks", "2"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--schedule", "interleaved", "--chunks", "1"), text),
                     BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--price", "1"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--batch", "3"), text), BASE_EXIT_USAGE);
    assert_int_equal(
        run(WORDS("--data", "1048576", "--tensor", "1048576", "--pipeline", "1"), text),
        BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--ranks", "1048576"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--efficiency", "0"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--ranks", "7", "--data", "2"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--decode", "--schedule", "interleaved"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--decode", "--chunks", "1"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--decode", "--global-batch", "64"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--decode", "--recompute"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--schedule", "interleaved", "--pipeline", "1"), text),
                     BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--checkpoint", directory, "--model", "gpt2"), text),
                     BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--help"), text), BASE_EXIT_DONE);
    assert_has(text, "--global-batch N");
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_the_same_figures_as_the_estimate),
        cmocka_unit_test(the_text_says_what_its_figures_are),
        cmocka_unit_test(unknown_prices_are_unknown),
        cmocka_unit_test(what_does_not_fit_ends_with_1),
        cmocka_unit_test(recompute_is_planned_and_offered),
        cmocka_unit_test(own_figures_replace_the_devices),
        cmocka_unit_test(a_checkpoint_gives_its_shape),
        cmocka_unit_test(what_no_rank_runs_is_planned_with_a_warning),
        cmocka_unit_test(a_llamas_config_gives_its_shape),
        cmocka_unit_test(flags_change_a_llamas_shape),
        cmocka_unit_test(layouts_have_a_command_for_cpus),
        cmocka_unit_test(the_text_ends_with_the_command_for_cpus),
        cmocka_unit_test(a_checkpoints_command_names_it),
        cmocka_unit_test(the_drawing_has_every_task),
        cmocka_unit_test(wrong_words_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
