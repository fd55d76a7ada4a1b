/* `launcher plan`, from its command line to its JSON, text and drawing. */
#include "cli/plan_options.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "plan_run.h"
#include "support.h"

static void json_has_the_same_figures_as_the_estimate(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    assert_int_equal(
        plan_run(PLAN_WORDS("--model", "gpt2", "--ranks", "4", "--data", "2", "--pipeline", "2",
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
    static char text[PLAN_TEXT_BYTES];
#define ASK(...)                                                                                   \
    PLAN_WORDS("--model", "gpt2-xl", "--ranks", "8", "--device", "h100", "--batch", "1",           \
               "--pipeline", "2", "--price", "2.50", "--steps", "10000", "--global-batch",         \
               __VA_ARGS__)
    assert_int_equal(plan_run(PLAN_WORDS("--ranks", "8"), text), BASE_EXIT_DONE);
    assert_has(text, "Layouts of these ranks, by tokens/s; those that do not fit come "
                     "last\n");
    assert_int_equal(plan_run(ASK("64"), text), BASE_EXIT_DONE); /* 16 micro-batches */
    assert_has(text, ". idle (0 follows 9, and a follows j)\n");
    assert_has(text, " % of the pipeline's time (the step without ");
    assert_null(strstr(text, "% of the step"));
    /* 8 ranks at 2.50 dollars: $16.777778 is 3020 s of them */
    assert_has(text, "10000 steps take 3020 s and cost $16.777778: ");
    /* 3024 s, and an hour at least, of one host for 20 dollars an hour */
    assert_has(text,
               "authorize LABEL 36.80 --account ACCOUNT --job JOB.json --instances 1 --gpus 8 "
               "--max-price 20.00 --max-hours 0.84\n");
    assert_has(text, " and 3600 s that the vendor may bill at least;");
    assert_has(text, "those 3600 s are assumed without --granularity SECONDS");
    assert_int_equal(plan_run(ASK("64", "--ranks-per-host", "4", "--granularity", "60"), text),
                     BASE_EXIT_DONE);
    assert_has(text, " --instances 2 --gpus 4 --max-price 10.00 --max-hours ");
    assert_has(text, " and 60 s that the vendor may bill at least; what");
    assert_null(strstr(text, "assumed"));
    assert_int_equal(plan_run(ASK("64", "--granularity", "-1"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(ASK("64"), text), BASE_EXIT_DONE);
    assert_int_equal(plan_run(ASK("40"), text), BASE_EXIT_DONE); /* 10 */
    assert_has(text, ". idle\n");
#undef ASK
}

/* With --context-ranks 1, too, nothing is said of context ranks. */
static void context_ranks_are_shown_where_there_are_some(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    static char plain[PLAN_TEXT_BYTES];
#define ASK(...) PLAN_WORDS("--model", "gpt2", "--ranks", "8", "--global-batch", "64", __VA_ARGS__)
    assert_int_equal(plan_run(ASK("--precision", "bfloat16"), plain), BASE_EXIT_DONE);
    assert_int_equal(plan_run(ASK("--context-ranks", "1"), text), BASE_EXIT_DONE);
    assert_string_equal(text, plain);
    assert_null(strstr(text, "context r"));
    assert_null(strstr(text, "context-ranks"));
    assert_null(strstr(text, "exchanges of heads"));
    assert_int_equal(plan_run(ASK("--context-ranks", "2", "--pipeline", "1"), text),
                     BASE_EXIT_DONE);
    assert_has(text, "\nlayout    8 ranks = 4 data x 2 context x 1 tensor x 1 pipeline\n");
    assert_has(text, "\n  data context tensor pipeline        step ");
    assert_has(text, "\n     4       2      1        1 ");
    assert_has(text, "\n  q, k and v      all_to_all         2 inside ");
    assert_has(text, "\n  attention       all_to_all         2 inside ");
    assert_has(text, "\n  exchanges of heads ");
    assert_int_equal(plan_run(ASK("--context-ranks", "2", "--pipeline", "1", "--json"), text),
                     BASE_EXIT_DONE);
#undef ASK
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    int data = 0;
    int context_ranks = 0;
    double exchanges_s = 0;
    assert_int_equal(json_unpack(json, "{s:{s:i, s:i}, s:{s:f}}", "layout", "data", &data,
                                 "context_ranks", &context_ranks, "step", "context_exchanges_s",
                                 &exchanges_s),
                     0);
    assert_true(data == 4 && context_ranks == 2 && exchanges_s > 0);
    json_decref(json);
    /* all of the ranks, where there is no --ranks */
    assert_int_equal(plan_run(PLAN_WORDS("--model", "gpt2", "--data", "2", "--tensor", "1",
                                         "--pipeline", "2", "--context-ranks", "3"),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, "\nlayout    12 ranks = 2 data x 3 context x 1 tensor x 2 pipeline\n");
}

static void unknown_prices_are_unknown(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    assert_int_equal(plan_run(PLAN_WORDS("--steps", "10", "--json"), text), BASE_EXIT_DONE);
    assert_has(text, "\"cost_usd\": null");
    assert_int_equal(plan_run(PLAN_WORDS("--steps", "10"), text), BASE_EXIT_DONE);
    assert_has(text, "not known without --price");
    assert_int_equal(plan_run(PLAN_WORDS("--steps", "1000000", "--price", "900000"), text),
                     BASE_EXIT_DONE);
    assert_has(text, "beyond what the budget can count");
}

static void what_does_not_fit_ends_with_1(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    assert_int_equal(plan_run(PLAN_WORDS("--ranks", "1", "--memory", "10"), text), BASE_EXIT_ERROR);
    assert_has(text, "does not fit");
    assert_int_equal(plan_run(PLAN_WORDS("--ranks", "1", "--memory", "1000"), text),
                     BASE_EXIT_DONE);
    assert_null(strstr(text, "does not fit"));
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

static void a_checkpoint_gives_its_shape(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    plan_write_config("{\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 3, \"n_head\": 2, "
                      "\"n_positions\": 32}");
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text), BASE_EXIT_USAGE);
    plan_write_config("{\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 3, \"n_head\": 2, "
                      "\"n_positions\": 32, \"model_type\": \"gpt2\"}");
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text), BASE_EXIT_DONE);
    assert_has(text, "3 layers, width 64, 2 heads, vocabulary 100, context 32");
    plan_write_config(
        "{\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 40000000000, \"n_head\": 2, "
        "\"n_positions\": 32, \"model_type\": \"gpt2\"}");
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text), BASE_EXIT_USAGE);
    plan_write_config("{\"model_type\": \"gemma3\", \"vision_config\": {}, \"text_config\": "
                      "{\"model_type\": \"gemma3_text\", \"hidden_size\": 2560}}");
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "model_type \"gemma3\" is of text and more (text_config)");
    (void)unlink(plan_path("config.json"));
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text), BASE_EXIT_USAGE);
    assert_int_equal(mkfifo(plan_path("config.json"), 0600), 0); /* nobody writes to it */
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "config.json is not a regular file");
    (void)unlink(plan_path("config.json"));
}

/* A Llama's config.json with more keys behind those that all have. */
static void write_llama(const char *more)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "{\"vocab_size\": 100, \"hidden_size\": 64, \"num_hidden_layers\": 3, "
                   "\"num_attention_heads\": 4, \"max_position_embeddings\": 131072, %s}",
                   more);
    plan_write_config(text);
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
        {"\"model_type\": \"qwen3\", \"intermediate_size\": 96, \"num_key_value_heads\": 2, "
         "\"head_dim\": 20",
         "114744 parameters"}, /* 3 · 2 · 20 more than the first one's */
        {"\"model_type\": \"qwen3\", \"intermediate_size\": 96", "4 heads of 128"},
        {"\"model_type\": \"qwen3\", \"intermediate_size\": 96, \"attention_bias\": true", NULL},
        {"\"model_type\": \"mamba\", \"intermediate_size\": 96", NULL},
    };
    static char text[PLAN_TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_llama(cases[i].more);
        assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text),
                         cases[i].words != NULL ? BASE_EXIT_DONE : BASE_EXIT_USAGE);
        if (cases[i].words != NULL && strstr(text, cases[i].words) == NULL) {
            fail_msg("no \"%s\" in %s", cases[i].words, text);
        }
    }
    write_llama("\"num_attention_heads\": 0, " LLAMA);
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text), BASE_EXIT_USAGE);
    write_llama(LLAMA);
    assert_int_equal(
        plan_run(PLAN_WORDS("--checkpoint", plan_directory, "--context", "65536"), text),
        BASE_EXIT_DONE);
    assert_has(text, "context 65536 of 131072");
    write_llama(LLAMA ", \"sliding_window\": 4096");
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text), BASE_EXIT_DONE);
    assert_has(text, "context 4096");
    (void)unlink(plan_path("config.json"));
}

/* A window of no tokens has no figures. */
static void what_is_not_positive_in_a_config_is_refused(void **state)
{
#define GEMMA "\"model_type\": \"gemma3_text\", \"intermediate_size\": 96, "
    static const char *const members[] = {"sliding_window", "_sliding_window_pattern"};
    static char text[PLAN_TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        for (int value = -1; value <= 1; value++) {
            char more[128];
            char wanted[128];
            (void)snprintf(more, sizeof more, GEMMA "\"%s\": %d", members[i], value);
            (void)snprintf(wanted, sizeof wanted, "\"%s\" is missing or no positive integer",
                           members[i]);
            write_llama(more);
            assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory, "--decode"), text),
                             value > 0 ? BASE_EXIT_DONE : BASE_EXIT_USAGE);
            assert_true(value > 0 || strstr(plan_warnings, wanted) != NULL);
        }
    }
    (void)unlink(plan_path("config.json"));
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
        {LLAMA ", \"hidden_act\": \"gelu\"", "hidden_act must be \"silu\" or \"swish\""},
        {SILU ", \"head_dim\": 7", "heads of 7 elements"},
        {SILU ", \"sliding_window\": 4096", NULL},
        {SILU ", \"sliding_window\": 0", "sliding_window is not positive"},
        {SILU ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0}",
         "rope_type \"yarn\""},
        {SILU ", \"quantization_config\": {\"bits\": 4}", "quantization_config: "},
    };
    static char text[PLAN_TEXT_BYTES];
    char wanted[256];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_llama(cases[i].more);
        assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory), text),
                         BASE_EXIT_DONE);
        (void)snprintf(wanted, sizeof wanted, "warning: this program does not run that model: %s: ",
                       plan_path("config.json"));
        if ((cases[i].field != NULL) != (strstr(plan_warnings, wanted) != NULL) ||
            (cases[i].field != NULL && strstr(plan_warnings, cases[i].field) == NULL)) {
            fail_msg("case %zu says: %s", i, plan_warnings);
        }
        const char *end = strchr(plan_warnings, '\n'); /* one line */
        assert_true(cases[i].field == NULL ? plan_warnings[0] == '\0'
                                           : end != NULL && end[1] == '\0');
        assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory, "--json"), text),
                         BASE_EXIT_DONE);
        json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL); /* no warning in it */
        assert_non_null(json);
        json_decref(json);
    }
    (void)unlink(plan_path("config.json"));
}

/* A flag changes what it names; the width of heads follows from width and heads. */
static void flags_change_a_llamas_shape(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    assert_int_equal(
        plan_run(PLAN_WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--json"), text),
        BASE_EXIT_DONE);
    assert_has(text, "\"parameters\": 8030261248");
    assert_has(text, "\"name\": \"llama-3.1-8b\"");
    assert_has(text, "\"kv_heads\": 8");
    assert_has(text, "\"head_width\": 128");
    assert_has(text, "\"mlp_width\": 14336");
    assert_has(text, "\"tied\": false");
    assert_int_equal(plan_run(PLAN_WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--width",
                                         "2048", "--kv-heads", "4", "--mlp-width", "5632"),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, "own: 32 layers, width 2048, 32 heads of 64, 4 of keys and "
                     "values, MLP 5632, ");
    assert_int_equal(plan_run(PLAN_WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--heads",
                                         "24", "--head-width", "64"),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, "width 4096, 24 heads of 64, 8 of keys");
    assert_int_equal(
        plan_run(PLAN_WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--heads", "24"), text),
        BASE_EXIT_USAGE);
    assert_int_equal(
        plan_run(PLAN_WORDS("--memory", "1000", "--model", "llama-3.1-8b", "--kv-heads", "5"),
                 text),
        BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--model", "gpt2", "--kv-heads", "4"), text),
                     BASE_EXIT_USAGE);
}

static void the_drawing_has_every_task(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    assert_int_equal(plan_run(PLAN_WORDS("--ranks", "4", "--pipeline", "4", "--global-batch", "32",
                                         "--plot", plan_path("plan.svg")),
                              text),
                     BASE_EXIT_DONE);
    assert_has(text, "stage 3");
    FILE *file = fopen(plan_path("plan.svg"), "r");
    assert_non_null(file);
    text[fread(text, 1, PLAN_TEXT_BYTES - 1, file)] = '\0';
    (void)fclose(file);
    assert_int_equal(test_count(text, ", forward of micro-batch"), 4 * 8);
    assert_int_equal(test_count(text, ", backward of micro-batch"), 4 * 8);
    assert_has(text, "</svg>");
    (void)unlink(plan_path("plan.svg"));
    assert_int_equal(
        plan_run(PLAN_WORDS("--ranks", "1", "--pipeline", "1", "--plot", plan_path("plan.svg")),
                 text),
        BASE_EXIT_USAGE);
    assert_int_not_equal(access(plan_path("plan.svg"), F_OK), 0);
    assert_int_equal(plan_run(PLAN_WORDS("--ranks", "4", "--pipeline", "4", "--global-batch", "32",
                                         "--plot", plan_path("plan.png")),
                              text),
                     BASE_EXIT_USAGE);
    assert_int_not_equal(access(plan_path("plan.png"), F_OK), 0);
}

static void flags_of_jobs_are_known_as_such(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    assert_int_equal(plan_run(PLAN_WORDS("--stages", "2"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "unknown flag --stages; did you mean --pipeline?");
    assert_int_equal(plan_run(PLAN_WORDS("--micro-batches", "2"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "unknown flag --micro-batches; did you mean --global-batch?");
    assert_int_equal(plan_run(PLAN_WORDS("--mode", "pp-cpu"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "unknown flag --mode: a plan is of training, or with --decode of ");
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    static char text[PLAN_TEXT_BYTES];
    assert_int_equal(plan_run(PLAN_WORDS("now"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--model", "gpt5"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--link", "10"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--link", "10,0"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--heads", "7"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--link", ",450"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--chunks", "2"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--chunks", "1"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--price", "1"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--batch", "3"), text), BASE_EXIT_USAGE);
    assert_int_equal(
        plan_run(PLAN_WORDS("--data", "1048576", "--tensor", "1048576", "--pipeline", "1"), text),
        BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--ranks", "1048576"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--efficiency", "0"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--ranks", "7", "--data", "2"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--decode", "--schedule", "interleaved"), text),
                     BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--decode", "--chunks", "1"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--decode", "--global-batch", "64"), text),
                     BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--decode", "--recompute"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--decode", "--zero", "1"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--zero is of training: not with --decode");
    assert_int_equal(plan_run(PLAN_WORDS("--decode", "--context-ranks", "2"), text),
                     BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--context-ranks is of training: not with --decode");
    assert_int_equal(plan_run(PLAN_WORDS("--decode", "--lora", "4"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--lora is of training: not with --decode");
    assert_int_equal(plan_run(PLAN_WORDS("--lora-targets", "c_attn"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--lora-targets goes with --lora");
    assert_int_equal(plan_run(PLAN_WORDS("--lora", "4", "--zero", "2"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--lora goes with --zero 0 and 1");
    assert_int_equal(plan_run(PLAN_WORDS("--weights", "int8"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--weights goes with --decode");
    assert_int_equal(plan_run(PLAN_WORDS("--local-steps", "10", "--steps", "95"), text),
                     BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--steps 95 is no multiple of --local-steps 10");
    assert_int_equal(plan_run(PLAN_WORDS("--local-steps", "10", "--zero", "1"), text),
                     BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--local-steps goes with --zero 0");
    assert_int_equal(plan_run(PLAN_WORDS("--local-steps", "10", "--decode"), text),
                     BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--local-steps is of training: not with --decode");
    assert_int_equal(plan_run(PLAN_WORDS("--context-ranks", "0"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--context-ranks", "65"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--context-ranks", "3"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--context-ranks 3 does not divide --ranks 8");
    assert_int_equal(plan_run(PLAN_WORDS("--context-ranks", "8"), text), BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--context-ranks 8 does not divide the model's heads, 25");
    assert_int_equal(plan_run(PLAN_WORDS("--zero", "4"), text), BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--zero", "2", "--data", "4", "--pipeline", "2"), text),
                     BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--zero 2 goes without stages of layers: --pipeline 1, or --zero 1");
    assert_int_equal(plan_run(PLAN_WORDS("--schedule", "interleaved", "--pipeline", "1"), text),
                     BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--schedule", "zb-h1", "--recompute"), text),
                     BASE_EXIT_USAGE);
    assert_has(plan_warnings, "--recompute does not go with --schedule zb-h1");
    assert_int_equal(plan_run(PLAN_WORDS("--checkpoint", plan_directory, "--model", "gpt2"), text),
                     BASE_EXIT_USAGE);
    assert_int_equal(plan_run(PLAN_WORDS("--help"), text), BASE_EXIT_DONE);
    assert_has(text, "--global-batch N");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_the_same_figures_as_the_estimate),
        cmocka_unit_test(the_text_says_what_its_figures_are),
        cmocka_unit_test(context_ranks_are_shown_where_there_are_some),
        cmocka_unit_test(unknown_prices_are_unknown),
        cmocka_unit_test(what_does_not_fit_ends_with_1),
        cmocka_unit_test(own_figures_replace_the_devices),
        cmocka_unit_test(a_checkpoint_gives_its_shape),
        cmocka_unit_test(what_is_not_positive_in_a_config_is_refused),
        cmocka_unit_test(what_no_rank_runs_is_planned_with_a_warning),
        cmocka_unit_test(a_llamas_config_gives_its_shape),
        cmocka_unit_test(flags_change_a_llamas_shape),
        cmocka_unit_test(the_drawing_has_every_task),
        cmocka_unit_test(flags_of_jobs_are_known_as_such),
        cmocka_unit_test(wrong_words_are_refused),
    };
    return cmocka_run_group_tests(tests, plan_setup, plan_teardown);
}
