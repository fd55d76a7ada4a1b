/* A second model family, written as somebody who adds one would. Used by test_chain.c, and an
 * example for that person. */
#include "chain.h"

#include <jansson.h>
#include <stdio.h>

#include "model/decoder.h"
#include "model/normal.h"
#include "model/pieces.h"

enum { DEVIATION }; /* of the first values: settings[DEVIATION] */

/* Tensors: emb, pos, then weight and bias of each layer, norm.weight, norm.bias, out. */
static int tensor_count(const rank_model_config *config)
{
    return 5 + 2 * config->layers;
}

static void describe_tensor(const rank_model_config *config, int index, rank_tensor *tensor)
{
    const size_t width = (size_t)config->width;
    const int from_end = tensor_count(config) - index;
    *tensor = (rank_tensor){.cut = {.parts = 1, .unit = 1}};
    if (index == 0 || from_end == 1) {
        (void)snprintf(tensor->name, sizeof tensor->name, "%s", index == 0 ? "emb" : "out");
        rank_tensor_set_shape(tensor, (size_t)config->vocab_size, width, 0);
        tensor->cut.kind = RANK_CUT_VOCAB;
    } else if (index == 1) {
        (void)snprintf(tensor->name, sizeof tensor->name, "pos");
        rank_tensor_set_shape(tensor, (size_t)config->context, width, 0);
    } else if (from_end <= 3) {
        (void)snprintf(tensor->name, sizeof tensor->name, "norm.%s",
                       from_end == 3 ? "weight" : "bias");
        rank_tensor_set_shape(tensor, 0, width, 0);
    } else {
        const bool is_bias = index % 2 == 1;
        (void)snprintf(tensor->name, sizeof tensor->name, "layers.%d.%s", (index - 2) / 2,
                       is_bias ? "bias" : "weight");
        rank_tensor_set_shape(tensor, is_bias ? 0 : width, width, 0);
        tensor->cut =
            (rank_cut){.kind = RANK_CUT_HIDDEN, .axis = is_bias ? 0 : 1, .parts = 1, .unit = 2};
    }
}

static void tensor(const rank_model_config *config, int index, rank_tensor *found)
{
    size_t offset = 0;
    for (int i = 0; i <= index; i++) {
        describe_tensor(config, i, found);
        found->offset = offset;
        offset += found->count;
    }
}

static base_status check(const rank_model_config *config, base_error *reterr)
{
    return config->vocab_size > 0 && config->width > 0 && config->layers > 0 && config->context > 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "chain: a size is not positive");
}

static base_status configure(const json_t *object, rank_model_config *config, base_error *reterr)
{
    *config = (rank_model_config){
        .family = &chain_family,
        .vocab_size = (int)json_integer_value(json_object_get(object, "vocab")),
        .width = (int)json_integer_value(json_object_get(object, "width")),
        .layers = (int)json_integer_value(json_object_get(object, "layers")),
        .heads = 1,
        .context = (int)json_integer_value(json_object_get(object, "context")),
        .settings = {[DEVIATION] = json_number_value(json_object_get(object, "deviation"))},
    };
    return check(config, reterr);
}

static json_t *describe(const rank_model_config *config)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:f}", "model_type", "chain", "vocab",
                     config->vocab_size, "width", config->width, "layers", config->layers,
                     "context", config->context, "deviation", config->settings[DEVIATION]);
}

static void init(const rank_model_config *config, uint64_t seed, float *params)
{
    for (int i = 0; i < tensor_count(config); i++) {
        rank_tensor t;
        tensor(config, i, &t);
        if (t.dims == 2) {
            rank_fill_normal(seed, i, (float)config->settings[DEVIATION], params + t.offset,
                             t.count);
        } else {
            rank_fill(i == tensor_count(config) - 3 ? 1.0f : 0.0f, params + t.offset, t.count);
        }
    }
}

/* A pass: where everything lies. Layer i reads stream(i), (T, C), and writes stream(i + 1). */
typedef struct chain_pass {
    const rank_run *run;
    const rank_backend *backend;
    rank_queue *queue;
    const rank_rows *rows;
    size_t width;
    int layers;
    float *streams, *sums; /* (layers + 1, T, C), (layers, T, C): x·W before GELU */
    float *out, *mean, *rstd;
    float *logits, *dx, *dbranch; /* work: (T, V), (T, C), (T, C) */
} chain_pass;

static size_t cut_saved(chain_pass *pass, const rank_shape *shape, float *memory)
{
    rank_pieces from = {.begin = memory};
    const size_t floats = shape->token_count_max * (size_t)shape->config->width;
    pass->streams = rank_pieces_cut(&from, ((size_t)shape->config->layers + 1) * floats);
    pass->sums = rank_pieces_cut(&from, (size_t)shape->config->layers * floats);
    pass->out = rank_pieces_cut(&from, floats);
    pass->mean = rank_pieces_cut(&from, shape->token_count_max);
    pass->rstd = rank_pieces_cut(&from, shape->token_count_max);
    return from.used;
}

static size_t cut_work(chain_pass *pass, const rank_shape *shape, float *memory)
{
    rank_pieces from = {.begin = memory};
    const size_t floats = shape->token_count_max * (size_t)shape->config->width;
    pass->logits =
        rank_pieces_cut(&from, shape->token_count_max * (size_t)shape->config->vocab_size);
    pass->dx = rank_pieces_cut(&from, floats);
    pass->dbranch = rank_pieces_cut(&from, floats);
    return from.used;
}

static size_t saved_floats(const rank_shape *shape)
{
    chain_pass pass;
    return cut_saved(&pass, shape, NULL);
}

static size_t work_floats(const rank_shape *shape)
{
    chain_pass pass;
    return cut_work(&pass, shape, NULL);
}

static chain_pass pass_begin(const rank_run *run, const rank_saved *saved)
{
    chain_pass pass = {.run = run,
                       .backend = run->device.backend,
                       .queue = run->device.queue,
                       .rows = &saved->rows,
                       .width = (size_t)run->shape.config->width,
                       .layers = run->shape.config->layers};
    (void)cut_saved(&pass, &run->shape, saved->activations);
    (void)cut_work(&pass, &run->shape, run->work);
    return pass;
}

static float *stream(const chain_pass *pass, int layer)
{
    return pass->streams + (size_t)layer * pass->run->shape.token_count_max * pass->width;
}

static float *sum(const chain_pass *pass, int layer)
{
    return pass->sums + (size_t)layer * pass->run->shape.token_count_max * pass->width;
}

static const float *need(const chain_pass *pass, int index)
{
    rank_tensor t;
    tensor(pass->run->shape.config, index, &t);
    return pass->run->hooks->need(pass->run->hooks->weights, t.offset, t.count);
}

static float *grad(const chain_pass *pass, float *grads, int index)
{
    rank_tensor t;
    tensor(pass->run->shape.config, index, &t);
    return grads + t.offset;
}

/* a is (rows, depth) unless it says otherwise, and b (depth, columns). */
static void product(const chain_pass *pass, rank_product args)
{
    args.a_row = args.a_row > 0 ? args.a_row : args.depth;
    args.a_depth = args.a_depth > 0 ? args.a_depth : 1;
    args.b_row = args.b_row > 0 ? args.b_row : args.columns;
    args.c_row = args.columns;
    args.leaves = 1;
    pass->backend->product(pass->queue, &args);
}

static void make_logits(const chain_pass *pass, const float *rows, size_t count, float *logits)
{
    product(pass, (rank_product){.rows = count,
                                 .columns = (size_t)pass->run->shape.config->vocab_size,
                                 .depth = pass->width,
                                 .a = rows,
                                 .b = need(pass, 4 + 2 * pass->layers),
                                 .c = logits,
                                 .b_row = pass->width,
                                 .b_transposed = true});
}

static void cross_entropy(const chain_pass *pass, bool want_gradient, double *loss)
{
    make_logits(pass, pass->out, pass->rows->active_count, pass->logits);
    pass->backend->cross_entropy(
        pass->queue,
        &(rank_cross_entropy){.rows = pass->rows->active_count,
                              .vocab_size = (size_t)pass->run->shape.config->vocab_size,
                              .targets = pass->rows->active_targets,
                              .logits = pass->logits,
                              .want_gradient = want_gradient,
                              .loss = loss});
}

static rank_move_rows active(const chain_pass *pass, float *at)
{
    return (rank_move_rows){.count = pass->rows->active_count,
                            .total = pass->rows->count,
                            .width = pass->width,
                            .rows = pass->rows->active,
                            .at = at};
}

static void run_layers(const chain_pass *pass)
{
    const size_t width = pass->width;
    const size_t count = pass->rows->count;
    pass->backend->embed(pass->queue,
                         &(rank_embed){count, width, pass->rows->ids, pass->rows->positions,
                                       need(pass, 0), need(pass, 1), stream(pass, 0), 0, 0});
    for (int layer = 0; layer < pass->layers; layer++) {
        product(pass, (rank_product){.rows = count,
                                     .columns = width,
                                     .depth = width,
                                     .a = stream(pass, layer),
                                     .b = need(pass, 2 + 2 * layer),
                                     .c = sum(pass, layer)});
        pass->backend->gelu(pass->queue,
                            &(rank_gelu){count, width, need(pass, 3 + 2 * layer), sum(pass, layer),
                                         stream(pass, layer + 1), RANK_FLOAT32});
    }
    const rank_move_rows together = active(pass, stream(pass, pass->layers));
    pass->backend->gather_rows(pass->queue, &together);
    pass->backend->layernorm(pass->queue,
                             &(rank_layernorm){.rows = pass->rows->active_count,
                                               .width = width,
                                               .x = stream(pass, pass->layers),
                                               .weight = need(pass, 2 + 2 * pass->layers),
                                               .bias = need(pass, 3 + 2 * pass->layers),
                                               .out = pass->out,
                                               .mean = pass->mean,
                                               .rstd = pass->rstd});
}

static void forward(const rank_run *run, const rank_forward_args *args)
{
    const chain_pass pass = pass_begin(run, args->saved);
    pass.backend->zero(pass.queue, args->saved->loss, sizeof *args->saved->loss);
    run_layers(&pass);
    if (args->logits != NULL) { /* this family is only asked for them without targets */
        make_logits(&pass, pass.out, (size_t)args->logits->count, args->logits->at);
    }
    if (args->want_loss && pass.rows->target_count > 0) {
        cross_entropy(&pass, false, args->saved->loss);
    }
}

static void backward_out(const chain_pass *pass, float *grads)
{
    const size_t vocab = (size_t)pass->run->shape.config->vocab_size;
    const size_t rows = pass->rows->active_count;
    const int norm = 2 + 2 * pass->layers;
    product(pass, (rank_product){.rows = vocab,
                                 .columns = pass->width,
                                 .depth = rows,
                                 .a = pass->logits,
                                 .b = pass->out,
                                 .c = grad(pass, grads, norm + 2),
                                 .a_row = 1,
                                 .a_depth = vocab});
    product(pass, (rank_product){.rows = rows,
                                 .columns = pass->width,
                                 .depth = vocab,
                                 .a = pass->logits,
                                 .b = need(pass, norm + 2),
                                 .c = pass->dbranch});
    pass->backend->layernorm_grad(pass->queue,
                                  &(rank_layernorm_grad){.rows = rows,
                                                         .width = pass->width,
                                                         .x = stream(pass, pass->layers),
                                                         .mean = pass->mean,
                                                         .rstd = pass->rstd,
                                                         .weight = need(pass, norm),
                                                         .dout = pass->dbranch,
                                                         .dx = pass->dx,
                                                         .dweight = grad(pass, grads, norm),
                                                         .dbias = grad(pass, grads, norm + 1)});
    const rank_move_rows apart = active(pass, pass->dx);
    pass->backend->spread_rows(pass->queue, &apart);
}

static void backward_layer(const chain_pass *pass, int layer, float *grads)
{
    const size_t width = pass->width;
    const size_t count = pass->rows->count;
    pass->backend->gelu_grad(pass->queue,
                             &(rank_gelu_grad){count, width, sum(pass, layer), pass->dx,
                                               grad(pass, grads, 3 + 2 * layer), RANK_FLOAT32});
    product(pass, (rank_product){.rows = width,
                                 .columns = width,
                                 .depth = count,
                                 .a = stream(pass, layer),
                                 .b = pass->dx,
                                 .c = grad(pass, grads, 2 + 2 * layer),
                                 .a_row = 1,
                                 .a_depth = width});
    product(pass, (rank_product){.rows = count,
                                 .columns = width,
                                 .depth = width,
                                 .a = pass->dx,
                                 .b = need(pass, 2 + 2 * layer),
                                 .c = pass->dbranch,
                                 .b_row = width,
                                 .b_transposed = true});
    pass->backend->copy(pass->queue, pass->dx, pass->dbranch, count * width * sizeof *pass->dx);
}

static void backward(const rank_run *run, const rank_backward_args *args)
{
    const chain_pass pass = pass_begin(run, args->saved);
    const size_t total = rank_model_param_count(run->shape.config);
    pass.backend->zero(pass.queue, args->grads, total * sizeof *args->grads);
    if (pass.rows->target_count > 0) {
        cross_entropy(&pass, true, args->saved->loss);
        backward_out(&pass, args->grads);
        for (int layer = pass.layers - 1; layer >= 0; layer--) {
            backward_layer(&pass, layer, args->grads);
        }
        pass.backend->embed_grad(pass.queue,
                                 &(rank_embed_grad){pass.rows->count, pass.width, pass.rows->ids,
                                                    pass.rows->positions, pass.dx, args->grads,
                                                    grad(&pass, args->grads, 1), 0, 0});
    }
    if (run->hooks->ready != NULL) {
        run->hooks->ready(run->hooks->ready_user, 0, total, pass.backend->mark(pass.queue));
    }
}

/* Training reads of it that there are no experts. */
static void describe_decoder(const rank_model_config *config, int ranks, rank_decoder *decoder)
{
    (void)ranks;
    *decoder = (rank_decoder){.heads = 1,
                              .kv_heads = 1,
                              .head_width = (size_t)config->width,
                              .hidden = (size_t)config->width,
                              .leaves = 1};
}

static const rank_decoder_table decoder_table = {.describe = describe_decoder};

static const char *const model_types[] = {"chain", NULL};
static const char *const ignored[] = {"layers.*.mask", NULL};

const rank_family chain_family = {
    .model_types = model_types,
    .ignored = ignored,
    .file_prefix = "chain.",
    .configure = configure,
    .describe = describe,
    .check = check,
    .tensor_count = tensor_count,
    .tensor = tensor,
    .init = init,
    .saved_floats = saved_floats,
    .work_floats = work_floats,
    .decoder = &decoder_table,
    .forward = forward,
    .backward = backward,
};
