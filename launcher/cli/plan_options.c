/* Reads the command line of `launcher plan` by a table of its options. Called by plan_command.c. */
#include "cli/plan_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "budget/codings.h"
#include "cli/other_names.h"
#include "cli/plan_checkpoint.h"
#include "pipeline/picture.h"
#include "proto/limits.h"

enum {
    COUNT_MAX = 1 << 20,
    LAYERS_MAX = 1024,
    HEADS_MAX = 1024,
    WIDTH_MAX = 1 << 16,
    HIDDEN_MAX = 1 << 18, /* columns of an MLP */
    TOKENS_MAX = 1 << 24, /* of a vocabulary, of a sequence */
};

static const double MICRO = 1e-6;
static const double GIGA = 1e9;
static const double TERA = 1e12;

/* "10,450": latency in microseconds, gigabytes per second. */
static base_status parse_link(const base_field *field, const char *text, void *member,
                              base_error *reterr)
{
    (void)field;
    char *end = NULL;
    const double latency_us = strtod(text, &end);
    const double gigabytes = *end == ',' && end > text ? strtod(end + 1, &end) : 0;
    if (*end != '\0' || !(latency_us >= 0 && latency_us < 1e9) ||
        !(gigabytes > 0 && gigabytes < 1e9)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "'%.64s': must be microseconds and gigabytes per second, as in 10,450",
                         text);
    }
    *(coll_tp_link *)member =
        (coll_tp_link){.latency_s = latency_us * MICRO, .bandwidth_bytes_per_s = gigabytes * GIGA};
    return BASE_OK;
}

static void format_link(const base_field *field, const void *member, char text[BASE_CODED_BYTES])
{
    const coll_tp_link *link = member;
    (void)field;
    (void)snprintf(text, BASE_CODED_BYTES, "%g,%g", link->latency_s / MICRO,
                   link->bandwidth_bytes_per_s / GIGA);
}

static const base_coding link_coding = {.parse = parse_link, .format = format_link};

#define OWN(kind, member) BASE_##kind(launch_plan_options, member)
#define COUNT(member)     OWN(INT, member), .least = 1, .most = COUNT_MAX

enum { GRANULARITY_S_MAX = 24 * 3600 };

static const base_field rows[] = {
    {OWN(ENUM, model), .name_of = launch_model_name, .option = "model", .value = "NAME",
     .help = "minigpt, gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt3-6.7b, gpt3-175b, smollm2-135m, "
             "smollm2-360m, smollm2-1.7b, tinyllama-1.1b, llama-3.2-1b, llama-3.1-8b, "
             "llama-3.1-70b, mistral-7b, qwen2.5-0.5b, qwen2.5-7b, qwen3-0.6b, "
             "qwen3-1.7b, qwen3-4b, qwen3-8b, smollm3-3b, gemma-3-270m, gemma-3-1b, mixtral-8x7b, "
             "mixtral-8x22b, qwen3-30b-a3b, "
             "qwen3-235b-a22b",
     .group = "The model"},
    {OWN(PATH, checkpoint), .filled = true, .option = "checkpoint", .value = "DIR",
     .help = "the shape of this GPT-2, Llama, Qwen2, Qwen3 or Mixtral in place of --model"},
    {OWN(INT, model_of.layers), .least = 1, .most = LAYERS_MAX, .option = "layers", .value = "N",
     .help = "in place of the model's, as the next nine"},
    {OWN(INT, model_of.width), .least = 1, .most = WIDTH_MAX, .option = "width", .value = "N",
     .help = "of the embedding"},
    {OWN(INT, model_of.heads), .least = 1, .most = HEADS_MAX, .option = "heads", .value = "N",
     .help = "attention heads"},
    {OWN(INT, model_of.kv_heads), .least = 1, .most = HEADS_MAX, .option = "kv-heads", .value = "N",
     .help = "of a Llama: heads of keys and values"},
    {OWN(INT, model_of.head_width), .least = 1, .most = WIDTH_MAX, .option = "head-width",
     .value = "N", .help = "of a Llama: elements of a head"},
    {OWN(INT, model_of.hidden), .least = 1, .most = HIDDEN_MAX, .option = "mlp-width", .value = "N",
     .help = "of a Llama: columns of the MLP, or of an expert"},
    {OWN(INT, model_of.experts), .least = 1, .most = PROTO_EXPERTS_MAX, .option = "experts",
     .value = "E",
     .help =
         "in each block, in place of one MLP; a GPT-2 becomes a Mixtral, as with the launcher's "
         "--experts"},
    {OWN(INT, model_of.chosen), .least = 1, .most = PROTO_EXPERTS_MAX,
     .option = "experts-per-token", .value = "K",
     .help = "to how many of them a token goes (as the model has it, or 2)"},
    {OWN(INT, model_of.vocab_size), .least = 2, .most = TOKENS_MAX, .option = "vocab-size",
     .value = "N", .help = "different tokens"},
    {OWN(INT, model_of.context), .least = 2, .most = TOKENS_MAX, .option = "context", .value = "N",
     .help = "tokens of a sequence; of a Llama, where 0, as many as it takes, but 8192 at most"},

    {OWN(BOOL, ask.decode), .option = "decode", .group = "The work",
     .help = "plan decoding: a step is a token for each sequence; else a step of training"},
    {COUNT(ask.batch), .option = "batch", .value = "N",
     .help = "sequences of a micro-batch; with --decode on each replica at a time"},
    {COUNT(ask.global_batch), .option = "global-batch", .value = "N",
     .help = "sequences of a training step, on all ranks together"},
    {OWN(ENUM, ask.precision), .name_of = proto_precision_name, .option = "precision",
     .value = "TYPE", .help = "of products: float32, tf32, bfloat16"},
    {OWN(ENUM, ask.weights), .name_of = proto_weights_name, .option = "weights", .value = "TYPE",
     .help =
         "with --decode, of matrices: checkpoint: as --precision; int8, int4: 8 or 4 bits, and a "
         "scale for 32"},
    {OWN(BOOL, ask.recompute), .option = "recompute",
     .help = "of training: keep only the blocks' inputs for backward, and compute the rest again"},
    {OWN(INT, ask.zero), .least = 0, .most = PROTO_ZERO_PARAMETERS, .option = "zero",
     .value = "STAGE",
     .help = "of training: what replicas shard: 0: nothing; 1: the optimizer's moments; 2: "
             "gradients too; "
             "3: parameters too"},
    {OWN(ENUM, ask.optimizer), .name_of = proto_optimizer_name, .option = "optimizer",
     .value = "NAME",
     .help = "of training: adamw, or muon of the blocks' matrices and AdamW of all else"},
    {COUNT(ask.local_steps), .option = "local-steps", .value = "H",
     .help = "of training: replicas take H steps alone, and then exchange what they have changed "
             "(1: gradients in each step)"},
    {OWN(INT, ask.adapters.rank), .least = 0, .most = PROTO_LORA_RANK_MAX, .option = "lora",
     .value = "RANK",
     .help = "of training: adapters (LoRA) alone, beside a model that is frozen; 0: the model"},
    {OWN(TEXT, lora_targets), .option = "lora-targets", .value = "LIST",
     .help = "of --lora: the layers, as q_proj,v_proj; all-linear: all (as PEFT: c_attn, or "
             "q_proj,v_proj)"},
    {COUNT(steps), .option = "steps", .value = "N", .help = "say how long so many steps take"},

    {COUNT(ranks), .option = "ranks", .letter = 'n', .value = "N",
     .help =
         "data x context ranks x tensor x pipeline (8, unless data, tensor and pipeline are given)",
     .group = "The layout"},
    {COUNT(layout.data), .option = "data", .value = "N",
     .help = "replicas that add up their gradients (try all)"},
    {COUNT(layout.tensor), .option = "tensor", .value = "N",
     .help = "ranks that share each layer (try all)"},
    {OWN(INT, layout.context_ranks), .least = 1, .most = PROTO_CONTEXT_RANKS_MAX,
     .option = "context-ranks", .value = "N",
     .help = "of training: ranks that share the tokens of each micro-batch"},
    {OWN(INT, layout.expert_ranks), .least = 1, .most = PROTO_EXPERT_RANKS_MAX,
     .option = "expert-ranks", .value = "N",
     .help = "of training, with experts: replicas that have some whole ones each (try all)"},
    {OWN(INT, layout.pipeline), .least = 1, .most = PROTO_PIPELINE_STAGES_MAX, .option = "pipeline",
     .value = "N", .help = "stages of layers (try all)"},
    {OWN(ENUM, ask.schedule), .name_of = proto_pipeline_name, .option = "schedule", .value = "NAME",
     .help = "of a pipeline: gpipe, 1f1b, interleaved, zb-h1"},
    {OWN(INT, ask.chunks), .least = 1, .most = PROTO_PIPELINE_CHUNKS_MAX, .option = "chunks",
     .value = "N", .help = "of layers in each stage, with interleaved"},

    {OWN(ENUM, device), .name_of = launch_device_name, .option = "device", .value = "NAME",
     .help = "h200, h100, a100, l40s, l4, rtx4090", .group = "The machine"},
    {OWN(REAL, teraflops), .min = 0.001, .max = 1e6, .option = "tflops", .value = "X",
     .help = "at the peak in that precision, in place of the device's, as the next five"},
    {OWN(REAL, memory_gigabytes), .min = 0.001, .max = 1e6, .option = "memory", .value = "GB",
     .help = "of a rank"},
    {OWN(REAL, memory_gigabytes_per_s), .min = 0.001, .max = 1e6, .option = "memory-bandwidth",
     .value = "GB/S", .help = "of a rank"},
    {OWN(CODED, inside), .coding = &link_coding, .option = "link", .value = "US,GB/S",
     .help = "in a host: latency of a small all-reduce between two ranks, bandwidth each way"},
    {OWN(CODED, between), .coding = &link_coding, .option = "network", .value = "US,GB/S",
     .help = "between hosts, for each rank"},
    {COUNT(host_ranks), .option = "ranks-per-host", .value = "N", .help = "of each host"},
    {OWN(REAL, ask.efficiency), .min = 0.001, .max = 1, .option = "efficiency", .value = "X",
     .help = "share of the peak that products reach"},
    {OWN(REAL, ask.memory_efficiency), .min = 0.001, .max = 1, .option = "memory-efficiency",
     .value = "X", .help = "share of the memory's bandwidth that reading reaches"},
    {OWN(CODED, price_micro_per_hour), .coding = &budget_price_coding, .option = "price",
     .value = "USD", .help = "of a rank for an hour, with --steps: what they cost"},
    {OWN(INT, granularity_s), .least = 0, .most = GRANULARITY_S_MAX, .option = "granularity",
     .value = "SECONDS",
     .help = "what the vendor bills at least: granularity_seconds of budget-service's policy"},

    {OWN(BOOL, json), .option = "json", .help = "print JSON", .group = "Output"},
    {OWN(PATH, picture), .filled = true, .option = "plot", .value = "FILE",
     .help = "draw the pipeline's step; .svg"},
    {OWN(BOOL, help), .option = "help", .letter = 'h', .help = "this"},
};

static const base_fields fields = {
    .rows = rows, .count = sizeof rows / sizeof rows[0], .what = "plan"};

enum { DEFAULT_MODEL = 4, DEFAULT_DEVICE = 1, DEFAULT_RANKS = 8 };

static const launch_plan_options defaults = {
    .ask = {.precision = PROTO_PRECISION_BFLOAT16,
            .efficiency = 0.4,
            .memory_efficiency = 0.8,
            .batch = 4,
            .global_batch = 256,
            .schedule = PROTO_PIPELINE_1F1B},
    .model = DEFAULT_MODEL,
    .device = DEFAULT_DEVICE,
    .granularity_s = LAUNCH_PLAN_GRANULARITY_S,
    .layout = {.context_ranks = 1},
};

void launch_plan_options_help(FILE *stream)
{
    const base_option_set set = {.fields = &fields, .defaults = &defaults};
    (void)fputs(
        "Usage: launcher plan [OPTION]...\n"
        "\n"
        "Says before anything runs what a model needs on some ranks: memory, each exchange\n"
        "with its bytes, the pipeline's bubble, a step's time, and what it costs. It is an\n"
        "estimate; nothing is started. Without --data, --tensor and --pipeline it compares\n"
        "all layouts, and shows the fastest one that fits.\n"
        "\n"
        "Defaults are in brackets.\n",
        stream);
    base_options_help(&set, 1, stream);
    (void)fputs("\nExit status: 0 it fits; 1 it does not, or an error; 2 wrong usage.\n", stream);
}

static void take(int64_t *value, int64_t given)
{
    *value = given != 0 ? given : *value;
}

static void take_real(double *value, double given, double unit)
{
    *value = given != 0 ? given * unit : *value;
}

static void take_link(coll_tp_link *link, const coll_tp_link *given)
{
    *link = given->bandwidth_bytes_per_s > 0 ? *given : *link;
}

static bool is_within(int64_t value, int64_t most)
{
    return value >= 1 && value <= most;
}

/* What follows from width and heads: all of a GPT-2's shape, and a Llama's width of heads where a
 * flag has changed one of the two. */
static base_status complete_heads(const launch_model *given, launch_model *model,
                                  base_error *reterr)
{
    const bool changed = given->width != 0 || given->heads != 0;
    if (!model->gated && (given->kv_heads != 0 || given->head_width != 0 || given->hidden != 0)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--kv-heads, --head-width and --mlp-width are of a Llama");
    }
    if ((!model->gated || (changed && given->head_width == 0)) &&
        model->width % model->heads != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a width of %" PRId64 " is no multiple of %" PRId64 " heads", model->width,
                         model->heads);
    }
    if (!model->gated) {
        *model = launch_model_gpt2(model->layers, model->width, model->heads, model->vocab_size,
                                   model->context);
        return BASE_OK;
    }
    model->head_width = changed ? model->width / model->heads : model->head_width;
    take(&model->kv_heads, given->kv_heads);
    take(&model->head_width, given->head_width);
    take(&model->hidden, given->hidden);
    if (!is_within(model->head_width, WIDTH_MAX) || !is_within(model->hidden, HIDDEN_MAX)) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "a head has 1 to %d elements, and an MLP up to %d columns", WIDTH_MAX,
                         HIDDEN_MAX);
    }
    return is_within(model->kv_heads, model->heads) && model->heads % model->kv_heads == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "%" PRId64 " heads are no multiple of %" PRId64
                           " heads of keys and values: --kv-heads",
                           model->heads, model->kv_heads);
}

/* Experts in place of MLPs. */
static base_status complete_experts(const launch_model *given, launch_model *model,
                                    base_error *reterr)
{
    const proto_job_model asked = {.experts_per_token = given->chosen};
    take(&model->experts, given->experts);
    if (model->experts == 0) {
        return given->chosen == 0 ? BASE_OK
                                  : base_fail(reterr, BASE_ERR_INVALID,
                                              "--experts-per-token goes with --experts, or with a "
                                              "model that has some");
    }
    if (model->chosen == 0 || given->chosen != 0) {
        model->chosen = proto_job_experts_per_token(&asked);
    }
    if (!is_within(model->experts, PROTO_EXPERTS_MAX) ||
        !is_within(model->chosen, model->experts)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a block has 1 to %d experts, and a token goes to some of them, not to "
                         "%" PRId64 " of %" PRId64 ": --experts-per-token",
                         PROTO_EXPERTS_MAX, model->chosen, model->experts);
    }
    if (!model->gated) {
        *model = launch_model_mixtral(model);
    }
    return BASE_OK;
}

static base_status complete_model(launch_plan_options *options, base_error *reterr)
{
    launch_model *model = &options->ask.model;
    const launch_model *given = &options->model_of;
    *model = *launch_model_get(options->model);
    if (options->checkpoint[0] != '\0' && options->given.model) {
        return base_fail(reterr, BASE_ERR_INVALID, "--checkpoint or --model, not both");
    }
    if (options->checkpoint[0] != '\0') {
        const base_status status = launch_plan_checkpoint(options->checkpoint, model, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    take(&model->layers, given->layers);
    take(&model->width, given->width);
    take(&model->heads, given->heads);
    take(&model->vocab_size, given->vocab_size);
    take(&model->context, given->context);
    if (!is_within(model->layers, LAYERS_MAX) || !is_within(model->width, WIDTH_MAX) ||
        !is_within(model->heads, HEADS_MAX) || !is_within(model->vocab_size, TOKENS_MAX) ||
        !is_within(model->context, TOKENS_MAX)) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "a model has 1 to %d layers and heads, a width up to %d, a vocabulary and "
                         "a context up to %d",
                         LAYERS_MAX, WIDTH_MAX, TOKENS_MAX);
    }
    const base_status status = complete_heads(given, model, reterr);
    return status == BASE_OK ? complete_experts(given, model, reterr) : status;
}

/* Refuses what this work has no use for. */
static base_status check_used(const launch_plan_options *options, base_error *reterr)
{
    const bool schedules = options->given.schedule || options->ask.chunks != 0;
    const char *flag = options->given.schedule ? "schedule" : "chunks";
    const char *of_training = schedules                                         ? flag
                              : options->given.global_batch                     ? "global-batch"
                              : options->ask.recompute                          ? "recompute"
                              : options->ask.zero != 0                          ? "zero"
                              : options->ask.local_steps > 1                    ? "local-steps"
                              : options->ask.optimizer != PROTO_OPTIMIZER_ADAMW ? "optimizer"
                              : options->ask.adapters.rank > 0                  ? "lora"
                              : options->layout.context_ranks > 1               ? "context-ranks"
                              : options->layout.expert_ranks > 1                ? "expert-ranks"
                                                                                : NULL;
    if (options->ask.decode && of_training != NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "--%s is of training: not with --decode",
                         of_training);
    }
    const bool splits = options->ask.schedule == PROTO_PIPELINE_ZB_H1;
    if (splits && (options->ask.recompute || options->ask.adapters.rank > 0)) {
        return base_fail(reterr, BASE_ERR_INVALID, "--%s does not go with --schedule zb-h1",
                         options->ask.recompute ? "recompute" : "lora");
    }
    if (!options->ask.decode && options->ask.weights != PROTO_WEIGHTS_CHECKPOINT) {
        return base_fail(reterr, BASE_ERR_INVALID, "--weights goes with --decode");
    }
    return !schedules || options->layout.pipeline != 1
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "--%s goes with --pipeline of 2 or more",
                           flag);
}

/* Steps that replicas take alone. */
static base_status check_local(const launch_plan_options *options, base_error *reterr)
{
    const launch_ask *ask = &options->ask;
    const int64_t local = launch_ask_local_steps(ask);
    if (local > 1 && ask->zero > 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--local-steps goes with --zero 0: each rank updates all parameters");
    }
    return options->steps % local == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "--steps %" PRId64 " is no multiple of --local-steps %" PRId64,
                           options->steps, local);
}

static base_status complete_adapters(launch_plan_options *options, base_error *reterr)
{
    launch_adapters *adapters = &options->ask.adapters;
    if (adapters->rank == 0) {
        return options->lora_targets[0] == '\0'
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID, "--lora-targets goes with --lora");
    }
    if (options->ask.model.experts > 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "--lora: models with experts have no adapters");
    }
    if (options->ask.zero >= PROTO_ZERO_GRADIENTS) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--lora goes with --zero 0 and 1: adapters' gradients are small");
    }
    return launch_adapters_choose(&options->ask.model, adapters->rank, options->lora_targets,
                                  adapters, reterr);
}

/* What does not depend on the layout, so that the search need not find it out. */
static base_status complete_work(launch_plan_options *options, base_error *reterr)
{
    launch_ask *ask = &options->ask;
    const bool interleaved = ask->schedule == PROTO_PIPELINE_INTERLEAVED;
    base_status used = check_used(options, reterr);
    used = used == BASE_OK ? check_local(options, reterr) : used;
    if (used != BASE_OK) {
        return used;
    }
    if (!interleaved && ask->chunks != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "--chunks goes with --schedule interleaved");
    }
    if (ask->chunks == 1) {
        ask->schedule = PROTO_PIPELINE_1F1B; /* as proto_job_pipeline has it */
    }
    ask->chunks = ask->chunks != 0 ? ask->chunks : interleaved ? 2 : 1;
    if (!ask->decode && ask->global_batch % ask->batch != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--global-batch %" PRId64 " is no multiple of --batch %" PRId64,
                         ask->global_batch, ask->batch);
    }
    if (options->price_micro_per_hour > 0 && options->steps == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "--price goes with --steps");
    }
    return options->picture[0] == '\0' ? BASE_OK
                                       : launch_pipeline_picture_check(options->picture, reterr);
}

static base_status complete_ranks(launch_plan_options *options, base_error *reterr)
{
    const launch_layout *layout = &options->layout;
    const int64_t product = launch_layout_ranks(layout); /* 0: one is open */
    if (options->ranks == 0) {
        options->ranks = product != 0 ? product : DEFAULT_RANKS;
    }
    if (options->ranks > COUNT_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT, "%" PRId64 " ranks are more than %d",
                         options->ranks, COUNT_MAX);
    }
    return options->ranks % layout->context_ranks == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "--context-ranks %" PRId64 " does not divide --ranks %" PRId64,
                           layout->context_ranks, options->ranks);
}

static void complete_device(launch_plan_options *options)
{
    launch_device *device = &options->ask.device;
    *device = *launch_device_get(options->device);
    take_real(&device->flops[options->ask.precision], options->teraflops, TERA);
    take_real(&device->memory_bytes, options->memory_gigabytes, GIGA);
    take_real(&device->memory_bytes_per_s, options->memory_gigabytes_per_s, GIGA);
    take_link(&device->inside, &options->inside);
    take_link(&device->between, &options->between);
    take(&device->host_ranks, options->host_ranks);
}

static void note_option(void *user, const base_field *row)
{
    launch_plan_options *options = user;
    options->given.model = options->given.model || strcmp(row->option, "model") == 0;
    options->given.schedule = options->given.schedule || strcmp(row->option, "schedule") == 0;
    options->given.global_batch =
        options->given.global_batch || strcmp(row->option, "global-batch") == 0;
}

base_status launch_plan_options_parse(int argc, char **argv, launch_plan_options *options,
                                      base_error *reterr)
{
    *options = defaults;
    const base_option_set set = {.fields = &fields, .record = options};
    const base_command_line line = {.argc = argc,
                                    .argv = argv,
                                    .sets = &set,
                                    .set_count = 1,
                                    .seen = note_option,
                                    .user = options,
                                    .others = launch_plan_other_names,
                                    .other_count = LAUNCH_PLAN_OTHER_NAMES};
    int rest = 0;
    base_status status = base_options_parse(&line, &rest, reterr);
    if (status == BASE_OK && rest < argc && !options->help) {
        status = base_fail(reterr, BASE_ERR_INVALID, "unexpected argument '%s'", argv[rest]);
    }
    status = status == BASE_OK ? complete_model(options, reterr) : status;
    status = status == BASE_OK ? complete_adapters(options, reterr) : status;
    status = status == BASE_OK ? complete_ranks(options, reterr) : status;
    status = status == BASE_OK ? complete_work(options, reterr) : status;
    if (status == BASE_OK) {
        complete_device(options);
    }
    return status;
}
