/* Counts parameters, activations and operations of GPT-2, Llama, Qwen2, Qwen3, Gemma 3, and of models with experts. Called by
 * estimate.c. What a rank really allocates is in rank/model/transformer/memory.c; ctest -R gpu-node compares. */
#include "plan/model.h"

#include <stddef.h>
#include <string.h>

#include "proto/pipeline.h"

enum {
    WIDENING = 4,   /* of GPT-2's MLP */
    OF_A_CHOICE = 4 /* weight, expert, and where its row stands, both ways */
};

#define GPT2(layer_count, columns, head_count, words, tokens)                                      \
    {                                                                                              \
        .layers = (layer_count), .width = (columns), .heads = (head_count), .vocab_size = (words), \
        .context = (tokens), .context_max = (tokens), .kv_heads = (head_count),                    \
        .head_width = (columns) / (head_count), .hidden = WIDENING * (columns), .tied = true       \
    }

#define LLAMA(layer_count, columns, head_count, kv_count, mlp, words, tokens, is_tied, is_biased)  \
    {                                                                                              \
        .layers = (layer_count), .width = (columns), .heads = (head_count), .vocab_size = (words), \
        .context = (tokens) < LAUNCH_MODEL_CONTEXT ? (tokens) : LAUNCH_MODEL_CONTEXT,              \
        .context_max = (tokens), .kv_heads = (kv_count), .head_width = (columns) / (head_count),   \
        .hidden = (mlp), .gated = true, .rms = true, .rotated = true, .tied = (is_tied),           \
        .biased = (is_biased)                                                                      \
    }

/* A Llama with heads of 128. Each token goes to 2 of 8 experts. */
#define MIXTRAL(layer_count, columns, head_count, mlp, tokens)                                     \
    {                                                                                              \
        .layers = (layer_count), .width = (columns), .heads = (head_count), .vocab_size = 32000,   \
        .context = LAUNCH_MODEL_CONTEXT, .context_max = (tokens), .kv_heads = 8,                   \
        .head_width = 128, .hidden = (mlp), .experts = 8, .chosen = 2, .gated = true, .rms = true, \
        .rotated = true                                                                            \
    }

/* A Llama with heads of 128, and norms of them. */
#define QWEN3(layer_count, columns, head_count, mlp, is_tied)                                      \
    {                                                                                              \
        .layers = (layer_count), .width = (columns), .heads = (head_count), .vocab_size = 151936,  \
        .context = LAUNCH_MODEL_CONTEXT, .context_max = 40960, .kv_heads = 8, .head_width = 128,   \
        .hidden = (mlp), .gated = true, .rms = true, .rotated = true, .tied = (is_tied),           \
        .head_norms = true                                                                         \
    }

/* The same, where each token goes to 8 of 128 experts. */
#define QWEN3_MOE(layer_count, columns, head_count, mlp)                                           \
    {                                                                                              \
        .layers = (layer_count), .width = (columns), .heads = (head_count), .vocab_size = 151936,  \
        .context = LAUNCH_MODEL_CONTEXT, .context_max = 40960, .kv_heads = 4, .head_width = 128,   \
        .hidden = (mlp), .experts = 128, .chosen = 8, .gated = true, .rms = true, .rotated = true, \
        .head_norms = true                                                                         \
    }

/* Heads of 256, a window of 512 in five layers of six, and norms wherever they may be. */
#define GEMMA3(layer_count, columns, mlp)                                                          \
    {                                                                                              \
        .layers = (layer_count), .width = (columns), .heads = 4, .vocab_size = 262144,             \
        .context = LAUNCH_MODEL_CONTEXT, .context_max = 32768, .kv_heads = 1, .head_width = 256,   \
        .hidden = (mlp), .gated = true, .rms = true, .rotated = true, .tied = true,                \
        .head_norms = true, .after_norms = true, .window = 512, .full_every = 6                    \
    }

/* GPT-2: Radford et al. 2019. GPT-3: Brown et al., arXiv:2005.14165, table 2.1. The others: the
 * config.json of their checkpoints; mistral-7b is version 0.2, without a sliding window. */
static const struct {
    const char *name;
    launch_model model;
} models[] = {
    {"minigpt", GPT2(2, 128, 4, 512, 64)},
    {"gpt2", GPT2(12, 768, 12, 50257, 1024)},
    {"gpt2-medium", GPT2(24, 1024, 16, 50257, 1024)},
    {"gpt2-large", GPT2(36, 1280, 20, 50257, 1024)},
    {"gpt2-xl", GPT2(48, 1600, 25, 50257, 1024)},
    {"gpt3-6.7b", GPT2(32, 4096, 32, 50257, 2048)},
    {"gpt3-175b", GPT2(96, 12288, 96, 50257, 2048)},
    {"smollm2-135m", LLAMA(30, 576, 9, 3, 1536, 49152, 8192, true, false)},
    {"smollm2-360m", LLAMA(32, 960, 15, 5, 2560, 49152, 8192, true, false)},
    {"smollm2-1.7b", LLAMA(24, 2048, 32, 32, 8192, 49152, 8192, true, false)},
    {"tinyllama-1.1b", LLAMA(22, 2048, 32, 4, 5632, 32000, 2048, false, false)},
    {"llama-3.2-1b", LLAMA(16, 2048, 32, 8, 8192, 128256, 131072, true, false)},
    {"llama-3.1-8b", LLAMA(32, 4096, 32, 8, 14336, 128256, 131072, false, false)},
    {"llama-3.1-70b", LLAMA(80, 8192, 64, 8, 28672, 128256, 131072, false, false)},
    {"mistral-7b", LLAMA(32, 4096, 32, 8, 14336, 32000, 32768, false, false)},
    {"qwen2.5-0.5b", LLAMA(24, 896, 14, 2, 4864, 151936, 32768, true, true)},
    {"qwen2.5-7b", LLAMA(28, 3584, 28, 4, 18944, 152064, 32768, false, true)},
    {"qwen3-0.6b", QWEN3(28, 1024, 16, 3072, true)},
    {"qwen3-1.7b", QWEN3(28, 2048, 16, 6144, true)},
    {"qwen3-4b", QWEN3(36, 2560, 32, 9728, true)},
    {"qwen3-8b", QWEN3(36, 4096, 32, 12288, false)},
    {"smollm3-3b", LLAMA(36, 2048, 16, 4, 11008, 128256, 65536, true, false)},
    {"gemma-3-270m", GEMMA3(18, 640, 2048)},
    {"gemma-3-1b", GEMMA3(26, 1152, 6912)},
    {"mixtral-8x7b", MIXTRAL(32, 4096, 32, 14336, 32768)},
    {"mixtral-8x22b", MIXTRAL(56, 6144, 48, 16384, 65536)},
    {"qwen3-30b-a3b", QWEN3_MOE(48, 2048, 32, 768)},
    {"qwen3-235b-a22b", QWEN3_MOE(94, 4096, 64, 1536)},
};

const char *launch_model_name(int index)
{
    return index < (int)(sizeof models / sizeof models[0]) ? models[index].name : NULL;
}

const launch_model *launch_model_get(int index)
{
    return &models[index].model;
}

launch_model launch_model_gpt2(int64_t layers, int64_t width, int64_t heads, int64_t vocab_size,
                               int64_t context)
{
    return (launch_model)GPT2(layers, width, heads, vocab_size, context);
}

launch_model launch_model_mixtral(const launch_model *sizes)
{
    const proto_job_model asked = {.width = sizes->width};
    return (launch_model){.layers = sizes->layers,
                          .width = sizes->width,
                          .heads = sizes->heads,
                          .vocab_size = sizes->vocab_size,
                          .context = sizes->context,
                          .context_max = sizes->context,
                          .kv_heads = sizes->heads,
                          .head_width = sizes->width / sizes->heads,
                          .hidden = proto_job_expert_width(&asked),
                          .experts = sizes->experts,
                          .chosen = sizes->chosen,
                          .gated = true,
                          .rms = true,
                          .rotated = true,
                          .tied = true};
}

int64_t launch_model_mlps_used(const launch_model *model)
{
    return model->experts > 0 ? model->chosen : 1;
}

int64_t launch_model_routing(const launch_model *model)
{
    return model->experts + OF_A_CHOICE * model->chosen;
}

int64_t launch_model_queries(const launch_model *model)
{
    return model->heads * model->head_width;
}

int64_t launch_model_keys(const launch_model *model)
{
    return model->kv_heads * model->head_width;
}

int64_t launch_model_key_copies(const launch_model *model, int tensor)
{
    return tensor > model->kv_heads ? tensor / model->kv_heads : 1;
}

int launch_model_matrices(const launch_model *model, launch_matrix matrices[LAUNCH_MATRICES_MAX])
{
    const int64_t width = model->width;
    const int64_t queries = launch_model_queries(model);
    const int64_t keys = launch_model_keys(model);
    const int64_t mlps = model->experts > 0 ? model->experts : 1;
    const launch_matrix of_gpt2[] = {{"attn.c_attn", width, queries + 2 * keys, 1},
                                     {"attn.c_proj", queries, width, 1},
                                     {"mlp.c_fc", width, model->hidden, 1},
                                     {"mlp.c_proj", model->hidden, width, 1}};
    const launch_matrix of_llama[LAUNCH_MATRICES_MAX] = {
        {"self_attn.q_proj", width, queries, 1},       {"self_attn.k_proj", width, keys, 1},
        {"self_attn.v_proj", width, keys, 1},          {"self_attn.o_proj", queries, width, 1},
        {"mlp.gate_proj", width, model->hidden, mlps}, {"mlp.up_proj", width, model->hidden, mlps},
        {"mlp.down_proj", model->hidden, width, mlps}, {"mlp.gate", width, model->experts, 1},
    };
    if (!model->gated) {
        memcpy(matrices, of_gpt2, sizeof of_gpt2);
        return sizeof of_gpt2 / sizeof of_gpt2[0];
    }
    memcpy(matrices, of_llama, sizeof of_llama);
    return LAUNCH_MATRICES_MAX - (model->experts > 0 ? 0 : 1);
}

/* Of an MLP's matrices. */
static double mlp_params(const launch_model *model)
{
    return (model->gated ? 3 : 2) * (double)model->hidden * (double)model->width;
}

/* Of a layer's matrices with so many MLPs: queries, keys, values, the projection behind them, and the MLPs. */
static double matrix_params(const launch_model *model, int64_t mlps)
{
    const double queries = (double)launch_model_queries(model);
    const double keys = (double)launch_model_keys(model);
    return (2 * queries + 2 * keys) * (double)model->width + (double)mlps * mlp_params(model);
}

/* Of a layer. */
static double router_params(const launch_model *model)
{
    return (double)model->experts * (double)model->width;
}

double launch_model_router_params(const launch_model *model)
{
    return (double)model->layers * router_params(model);
}

static launch_stage whole_of(const launch_model *model)
{
    return (launch_stage){.layers = model->layers, .embeds = true, .answers = true};
}

double launch_model_seen(const launch_model *model)
{
    const double context = (double)model->context;
    const double window = (double)model->window;
    const double full = context / 2;
    if (model->window == 0 || model->window >= model->context) {
        return full;
    }
    const int64_t full_layers = model->full_every > 0 ? model->layers / model->full_every : 0;
    const double local = window - window * window / (2 * context); /* the first ones see less */
    const double share = (double)full_layers / (double)model->layers;
    return share * full + (1 - share) * local;
}

int64_t launch_model_params(const launch_model *model)
{
    const launch_stage whole = whole_of(model);
    return (int64_t)launch_stage_params(model, &whole, 1);
}

int64_t launch_model_params_used(const launch_model *model)
{
    const double idle = (double)(model->experts - model->chosen) * mlp_params(model);
    return launch_model_params(model) - model->layers * (int64_t)idle;
}

static proto_pipeline_model pipeline_model(const launch_model *model)
{
    return (proto_pipeline_model){.layers = model->layers,
                                  .width = model->width,
                                  .vocab_size = model->vocab_size,
                                  .context = model->context};
}

launch_stage launch_model_stage(const launch_model *model, int stages, int stage)
{
    const proto_pipeline_model shape = pipeline_model(model);
    return (launch_stage){.layers = proto_pipeline_layers(&shape, stages, stage),
                          .embeds = stage == 0,
                          .answers = stage == stages - 1};
}

double launch_stage_params(const launch_model *model, const launch_stage *part, int tensor)
{
    const double width = (double)model->width;
    const double norm = model->rms ? width : 2 * width;
    double cut = matrix_params(model, model->experts > 0 ? model->experts : 1);
    double whole = (model->after_norms ? 4 : 2) * norm + router_params(model);
    const double again = (double)(launch_model_key_copies(model, tensor) - 1);
    const double keys = 2 * (double)launch_model_keys(model);
    cut += again * keys * width;
    if (!model->rms || model->biased) {
        cut += (double)launch_model_queries(model) + (1 + again) * keys;
    }
    if (!model->rms) {
        cut += (double)model->hidden;
        whole += 2 * width; /* the biases behind sums */
    }
    if (model->head_norms) {
        whole += 2 * (double)model->head_width;
    }
    double params = (double)part->layers * (cut / tensor + whole);
    if (part->embeds || (part->answers && model->tied)) {
        params += (double)model->vocab_size * width / tensor;
    }
    if (part->answers && !model->tied) {
        params += (double)model->vocab_size * width / tensor;
    }
    if (part->embeds && !model->rotated) {
        params += (double)model->context * width;
    }
    if (part->answers) {
        params += norm;
    }
    return params;
}

double launch_stage_expert_params(const launch_model *model, const launch_stage *part, int tensor)
{
    return (double)part->layers * (double)model->experts * mlp_params(model) / tensor;
}

/* The residual stream, and what norms, softmax and routers keep, is float32 in any case. */
static double type_bytes(proto_precision precision)
{
    return precision == PROTO_PRECISION_BFLOAT16 ? 2 : sizeof(float);
}

/* A token's bytes in the residual stream: what a block and a norm begin with. */
static double stream_bytes(const launch_model *model)
{
    return (double)model->width * sizeof(float);
}

/* A token's bytes behind a norm: the result, and what backward needs beside it. */
static double norm_bytes(const launch_model *model, proto_precision precision)
{
    return (double)model->width * type_bytes(precision) + (model->rms ? 1 : 2) * sizeof(float);
}

/* A token's bytes of a block's routing, which is never computed again. */
static double routing_bytes(const launch_model *model)
{
    return (double)launch_model_routing(model) * sizeof(float);
}

double launch_block_rest_bytes(const launch_model *model, int tensor, double tokens,
                               proto_precision precision)
{
    const double mlps = (double)launch_model_mlps_used(model) * (model->gated ? 2 : 1);
    const double queries = (double)launch_model_queries(model);
    /* keys and values of a head stand beside each head of queries that shares them */
    const double columns = 3 * queries + queries + mlps * (double)model->hidden;
    const double normed_heads = model->head_norms ? (double)(model->heads + model->kv_heads) : 0;
    const double floats = 2 * (double)model->heads + normed_heads * ((double)model->head_width + 1);
    const double cut = columns * type_bytes(precision) + floats * sizeof(float);
    /* what is added to the stream, before its norm */
    const double added = model->after_norms ? 2 * (stream_bytes(model) + sizeof(float)) : 0;
    return tokens * (2 * norm_bytes(model, precision) + stream_bytes(model) + added + cut / tensor);
}

double launch_stage_activation_bytes(const launch_model *model, const launch_stage *part,
                                     int tensor, double tokens, proto_precision precision,
                                     bool recompute)
{
    const double input = tokens * stream_bytes(model);
    const double rest = recompute ? 0 : launch_block_rest_bytes(model, tensor, tokens, precision);
    const double norm = input + tokens * norm_bytes(model, precision);
    const double tables = model->window > 0 ? 2 : 1;
    const double turns = model->rotated ? tables * (double)model->head_width * sizeof(float) : 0;
    const double kept = input + tokens * routing_bytes(model) + rest;
    return (double)part->layers * kept + (part->answers ? norm : 0) + tokens * turns;
}

/* Of a token in a layer: scores, and their sum of values. */
static double attention_flops(const launch_model *model, double seen)
{
    return 2 * 2 * seen * (double)launch_model_queries(model);
}

/* With its products, but for the router's. */
static double layer_flops(const launch_model *model, double seen)
{
    return 2 * matrix_params(model, launch_model_mlps_used(model)) + attention_flops(model, seen);
}

double launch_stage_forward_flops(const launch_model *model, const launch_stage *part, int tensor,
                                  double tokens, double seen)
{
    const double layers = (double)part->layers;
    const double output = part->answers ? 2 * (double)model->vocab_size * (double)model->width : 0;
    const double cut = layers * layer_flops(model, seen) + output;
    return tokens * (cut / tensor + layers * 2 * router_params(model));
}

double launch_stage_backward_flops(const launch_model *model, const launch_stage *part, int tensor,
                                   double tokens, double seen, bool frozen)
{
    const double forward = launch_stage_forward_flops(model, part, tensor, tokens, seen);
    if (!frozen) {
        return 2 * forward;
    }
    const double qkv = (double)(launch_model_queries(model) + 2 * launch_model_keys(model));
    const double first = part->embeds ? 2 * qkv * (double)model->width : 0;
    const double attention = (double)part->layers * attention_flops(model, seen);
    return forward + tokens * (attention - first) / tensor;
}

double launch_stage_weights_flops(const launch_model *model, const launch_stage *part, int tensor,
                                  double tokens)
{
    return tokens * (double)part->layers * 2 * matrix_params(model, launch_model_mlps_used(model)) /
           tensor;
}

double launch_stage_put_off_bytes(const launch_model *model, const launch_stage *part, int tensor,
                                  double tokens, proto_precision precision)
{
    return tokens * (double)part->layers * (double)model->hidden * type_bytes(precision) / tensor;
}

double launch_stage_repeated_flops(const launch_model *model, const launch_stage *part, int tensor,
                                   double tokens, double seen)
{
    const double mlps = model->after_norms ? 0 : (double)launch_model_mlps_used(model);
    const double last = 2 * mlps * (double)model->hidden * (double)model->width;
    return tokens * (double)part->layers * (layer_flops(model, seen) - last) / tensor;
}

double launch_model_output_layers(const launch_model *model)
{
    const launch_stage layer = {.layers = 1};
    const launch_stage output = {.answers = true};
    const double seen = (double)model->context / 2;
    return launch_stage_forward_flops(model, &output, 1, 1, seen) /
           launch_stage_forward_flops(model, &layer, 1, 1, seen);
}
