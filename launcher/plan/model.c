/* Counts parameters, activations and operations of GPT-2's family. Called by estimate.c. What a rank
 * really allocates is in rank/model/transformer/memory.c; ctest -R gpu-node compares. */
#include "plan/model.h"

#include <stddef.h>

#include "proto/pipeline.h"

enum { WIDENING = 4 };

/* GPT-2: Radford et al. 2019. GPT-3: Brown et al., arXiv:2005.14165, table 2.1. */
static const struct {
    const char *name;
    launch_model model;
} models[] = {
    {"minigpt", {2, 128, 4, 512, 64}},
    {"gpt2", {12, 768, 12, 50257, 1024}},
    {"gpt2-medium", {24, 1024, 16, 50257, 1024}},
    {"gpt2-large", {36, 1280, 20, 50257, 1024}},
    {"gpt2-xl", {48, 1600, 25, 50257, 1024}},
    {"gpt3-6.7b", {32, 4096, 32, 50257, 2048}},
    {"gpt3-175b", {96, 12288, 96, 50257, 2048}},
};

const char *launch_model_name(int index)
{
    return index < (int)(sizeof models / sizeof models[0]) ? models[index].name : NULL;
}

const launch_model *launch_model_get(int index)
{
    return &models[index].model;
}

int64_t launch_model_params(const launch_model *model)
{
    const launch_stage whole = {.layers = model->layers, .embeds = true, .answers = true};
    return (int64_t)launch_stage_params(model, &whole, 1);
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
    const double cut = (4 + 2 * WIDENING) * width * width + (3 + WIDENING) * width;
    const double whole = 6 * width; /* two norms, two biases */
    double params = (double)part->layers * (cut / tensor + whole);
    if (part->embeds || part->answers) {
        params += (double)model->vocab_size * width / tensor;
    }
    if (part->embeds) {
        params += (double)model->context * width;
    }
    if (part->answers) {
        params += 2 * width;
    }
    return params;
}

double launch_stage_activation_bytes(const launch_model *model, const launch_stage *part,
                                     int tensor, double tokens, proto_precision precision)
{
    const double width = (double)model->width;
    const double whole = sizeof(float); /* the residual stream, and what norms and softmax keep */
    const double narrow = precision == PROTO_PRECISION_BFLOAT16 ? 2 : whole;
    const double norm = width * (whole + narrow) + 2 * whole;
    const double cut = (4 + WIDENING) * width * narrow + 2 * (double)model->heads * whole;
    const double layer = 2 * norm + cut / tensor;
    return tokens * ((double)part->layers * layer + (part->answers ? norm : 0));
}

double launch_stage_forward_flops(const launch_model *model, const launch_stage *part, int tensor,
                                  double tokens, double seen)
{
    const double width = (double)model->width;
    const double products = 2 * (4 + 2 * WIDENING) * width * width;
    const double attention = 2 * 2 * seen * width; /* scores, and their sum of values */
    const double output = part->answers ? 2 * (double)model->vocab_size * width : 0;
    return tokens * ((double)part->layers * (products + attention) + output) / tensor;
}

double launch_model_output_layers(const launch_model *model)
{
    const proto_pipeline_model shape = pipeline_model(model);
    return proto_pipeline_output_layers(&shape);
}
