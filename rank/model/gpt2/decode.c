/* One step of decoding over the layers of a run, on this rank's shard of each. Called through
 * gpt2.c's table.
 *
 *     embedding of this rank's ids, all-reduce
 *     each layer:  norm · q, k and v of this rank's heads · attention over their cache
 *                  · projection (row-parallel), all-reduce
 *                  · norm · this rank's hidden columns · GELU · down (row-parallel), all-reduce
 *     norm · logits of this rank's ids
 *
 * Every rank has the whole residual stream. The exchanged memory has two halves. One holds the
 * stream, and an all-reduce writes its sum into the other. The next norm adds the stream to the
 * sum, so the stream is then in the other half. */
#include "model/gpt2/pass.h"
#include "model/pieces.h"

typedef struct gpt2_step {
    const rank_run *run;
    const rank_decode_args *args;
    const rank_backend *backend;
    rank_queue *queue;
    const rank_rows *rows;
    gpt2_layout layout;
    size_t width;
    size_t heads;  /* this rank's */
    size_t across; /* heads × head width */
    size_t hidden; /* this rank's columns of the MLP */
    int attention_leaves;
    int hidden_leaves;
    float *stream; /* (T, C): one half of the exchanged memory, */
    float *sum;    /* and the other */
    float *normed; /* (T, C) */
    float *mean;   /* (T) */
    float *rstd;   /* (T) */
    float *qkv;    /* (T, 3·across) */
    float *attention;
    float *up;     /* (T, hidden), before GELU; NULL where the product makes GELU, */
    float *active; /* and after */
    float *scratch;
    float *narrow; /* the input of a product, rounded to decode_type; NULL where that is float32 */
    int layer;
} gpt2_step;

static size_t cut_work(gpt2_step *step, const rank_shape *shape, float *memory)
{
    rank_pieces from = {.begin = memory};
    const size_t tokens = shape->token_count_max;
    const size_t ranks = (size_t)shape->tp->ranks;
    step->width = (size_t)shape->config->width;
    step->heads = (size_t)shape->config->heads / ranks;
    step->across = step->width / ranks;
    step->hidden = WIDENING * step->width / ranks;
    step->normed = rank_pieces_cut(&from, tokens * step->width);
    step->mean = rank_pieces_cut(&from, tokens);
    step->rstd = rank_pieces_cut(&from, tokens);
    step->qkv = rank_pieces_cut(&from, tokens * 3 * step->across);
    step->attention = rank_pieces_cut(&from, tokens * step->across);
    if (!shape->backend->product_gelu) {
        step->up = rank_pieces_cut(&from, tokens * step->hidden);
    }
    step->active = rank_pieces_cut(&from, tokens * step->hidden);
    const size_t depth = step->hidden > step->width ? step->hidden : step->width;
    if (shape->decode_type != RANK_FLOAT32) {
        step->narrow = rank_pieces_cut(&from, (tokens * depth + 1) / 2);
    }
    step->scratch =
        rank_pieces_cut(&from, shape->backend->attention_cached_scratch(
                                   step->across / step->heads, (size_t)shape->config->context));
    return from.used;
}

size_t gpt2_step_floats(const rank_shape *shape)
{
    gpt2_step step = {.narrow = NULL};
    return cut_work(&step, shape, NULL);
}

size_t gpt2_exchanged_floats(const rank_shape *shape)
{
    return 2 * shape->token_count_max * (size_t)shape->config->width;
}

size_t gpt2_cache_floats(const rank_shape *shape)
{
    return 2 * (size_t)shape->config->width / (size_t)shape->tp->ranks;
}

static void begin(gpt2_step *step, const rank_run *run, const rank_decode_args *args)
{
    const rank_shape *shape = &run->shape;
    *step = (gpt2_step){
        .run = run,
        .args = args,
        .backend = run->device.backend,
        .queue = run->device.queue,
        .rows = &args->saved->rows,
        .stream = args->exchanged,
        .attention_leaves = gpt2_attention_leaves(shape->config, shape->tp->ranks),
        .hidden_leaves = gpt2_hidden_leaves(shape->config, shape->tp->ranks),
    };
    gpt2_layout_make(shape->config, &step->layout);
    (void)cut_work(step, shape, run->work);
    step->sum = step->stream + shape->token_count_max * step->width;
}

/* This rank's part of the tensor at `offset` of the whole model's parameters. */
static const float *shard(const gpt2_step *step, size_t offset, size_t count)
{
    return step->run->hooks->need(step->run->hooks->weights, offset, count);
}

static const float *weight(const gpt2_step *step, int layer, int tensor)
{
    const size_t *in_block = step->layout.in_block;
    const size_t block = step->layout.block + (size_t)layer * in_block[BLOCK_TENSORS];
    return shard(step, block + in_block[tensor], in_block[tensor + 1] - in_block[tensor]);
}

/* Sums the ranks' parts. Every rank gets the sum. */
static void all_reduce(const gpt2_step *step, float *at, size_t rows)
{
    const rank_tp *tp = step->run->shape.tp;
    tp->all_reduce(tp->group, at, rows * step->width);
}

static void embed(const gpt2_step *step)
{
    const rank_model_config *config = step->run->shape.config;
    const rank_tp *tp = step->run->shape.tp;
    step->backend->embed_packed(
        step->queue,
        &(rank_embed_packed){
            .tokens = step->rows->count,
            .width = step->width,
            .ids = step->rows->ids,
            .positions = step->rows->positions,
            .first_id = tp->vocab_first,
            .columns = tp->vocab_count,
            .wte = shard(step, step->layout.wte, step->layout.wpe),
            .wte_row = step->backend->plain_weights ? step->width : 0,
            .wte_type = step->run->shape.decode_type,
            .wpe = shard(step, step->layout.wpe, (size_t)config->context * step->width),
            .out = step->stream,
        });
    all_reduce(step, step->stream, step->rows->count);
}

/* y (rows, columns) = x (rows, depth) · b, in the form in which shards hold b. */
static void product(const gpt2_step *step, rank_product args)
{
    const bool plain = step->backend->plain_weights;
    args.rows = args.rows > 0 ? args.rows : step->rows->count;
    args.a_row = args.depth;
    args.a_depth = 1;
    args.c_row = args.columns;
    args.leaves = args.leaves > 0 ? args.leaves : 1;
    args.b_row = plain ? args.depth : 0;
    args.b_transposed = plain;
    args.b_type = step->run->shape.decode_type;
    args.scratch = step->narrow;
    step->backend->product(step->queue, &args);
}

/* A row-parallel product: this rank's part of the sum, then the all-reduce. */
static void row_parallel(const gpt2_step *step, rank_product args)
{
    args.columns = step->width;
    args.c = step->sum;
    product(step, args);
    all_reduce(step, step->sum, args.rows);
}

/* The stream's norm, into `normed`. */
static void norm_stream(const gpt2_step *step, size_t rows, const float *scale, const float *bias)
{
    step->backend->layernorm(step->queue, &(rank_layernorm){.rows = rows,
                                                            .width = step->width,
                                                            .x = step->stream,
                                                            .weight = scale,
                                                            .bias = bias,
                                                            .out = step->normed,
                                                            .mean = step->mean,
                                                            .rstd = step->rstd});
}

/* The stream becomes stream + sum + sum_bias. Also computes its norm if scale is not NULL. */
static void add_to_stream(gpt2_step *step, size_t rows, const float *sum_bias, const float *scale,
                          const float *bias)
{
    step->backend->layernorm(step->queue, &(rank_layernorm){.rows = rows,
                                                            .width = step->width,
                                                            .x = step->sum,
                                                            .residual = step->stream,
                                                            .residual_bias = sum_bias,
                                                            .weight = scale,
                                                            .bias = bias,
                                                            .out = scale ? step->normed : NULL,
                                                            .mean = step->mean,
                                                            .rstd = step->rstd});
    float *before = step->stream;
    step->stream = step->sum;
    step->sum = before;
}

static void attend(const gpt2_step *step)
{
    const rank_decode_args *args = step->args;
    const rank_model_config *config = step->run->shape.config;
    const rank_cache *cache = args->cache;
    const size_t half = cache->block_count * cache->block_tokens * step->across;
    const size_t layer = (size_t)(step->layer - step->run->shape.first_layer);
    const rank_type type = step->run->shape.decode_type;
    char *keys = (char *)cache->memory + layer * 2 * half * rank_type_bytes(type);
    step->backend->attention_cached(
        step->queue, &(rank_attention_cached){
                         .heads = step->heads,
                         .kv_heads = step->heads,
                         .head_width = step->across / step->heads,
                         .sequence_count = step->rows->segment_count,
                         .row_start = step->rows->segment_start,
                         .lengths = args->lengths,
                         .block_table = args->block_table,
                         .table_width = args->table_width,
                         .block_tokens = cache->block_tokens,
                         .length_max = (size_t)config->context,
                         .qkv = step->qkv,
                         .bias = weight(step, step->layer, QKV_BIAS),
                         .keys = keys,
                         .values = keys + half * rank_type_bytes(type),
                         .cache_type = type,
                         .out = step->attention,
                         .scratch = step->scratch,
                         .rows = step->rows->count,
                         .one_row_each = step->rows->count == step->rows->segment_count,
                     });
}

/* After the attention of the model's last layer, drops the rows whose output is not needed. */
static void keep_active_rows(const gpt2_step *step)
{
    const rank_rows *rows = step->rows;
    if (rows->active_count == rows->count) {
        return;
    }
    rank_move_rows together = {.count = rows->active_count,
                               .total = rows->count,
                               .width = step->across,
                               .rows = rows->active,
                               .at = step->attention};
    step->backend->gather_rows(step->queue, &together);
    together.width = step->width;
    together.at = step->stream;
    step->backend->gather_rows(step->queue, &together);
}

static void mlp(const gpt2_step *step, size_t rows)
{
    const float *bias = weight(step, step->layer, UP_BIAS);
    const bool fused = step->backend->product_gelu;
    product(step, (rank_product){.rows = rows,
                                 .columns = step->hidden,
                                 .depth = step->width,
                                 .a = step->normed,
                                 .b = weight(step, step->layer, UP_WEIGHT),
                                 .c = fused ? step->active : step->up,
                                 .gelu_bias = fused ? bias : NULL});
    if (!fused) {
        step->backend->gelu(step->queue, &(rank_gelu){.rows = rows,
                                                      .width = step->hidden,
                                                      .bias = bias,
                                                      .x = step->up,
                                                      .out = step->active});
    }
    row_parallel(step, (rank_product){.rows = rows,
                                      .depth = step->hidden,
                                      .a = step->active,
                                      .b = weight(step, step->layer, DOWN_WEIGHT),
                                      .leaves = step->hidden_leaves});
}

/* Runs a layer from the norm of its input to its last sum, which end_layer adds to the stream.
 * Returns how many rows are left. */
static size_t run_layer(gpt2_step *step)
{
    const int layer = step->layer;
    const bool last = layer + 1 == step->run->shape.config->layers;
    const size_t rows = last ? step->rows->active_count : step->rows->count;
    product(step, (rank_product){.rows = step->rows->count,
                                 .columns = 3 * step->across,
                                 .depth = step->width,
                                 .a = step->normed,
                                 .b = weight(step, layer, QKV_WEIGHT),
                                 .c = step->qkv});
    attend(step);
    if (last) {
        keep_active_rows(step);
    }
    if (rows == 0) {
        return 0;
    }
    row_parallel(step, (rank_product){.rows = rows,
                                      .depth = step->across,
                                      .a = step->attention,
                                      .b = weight(step, layer, PROJ_WEIGHT),
                                      .leaves = step->attention_leaves});
    add_to_stream(step, rows, weight(step, layer, PROJ_BIAS), weight(step, layer, LN2_WEIGHT),
                  weight(step, layer, LN2_BIAS));
    mlp(step, rows);
    return rows;
}

/* This rank's logits, from the final norm. */
static void make_logits(const gpt2_step *step)
{
    product(step, (rank_product){.rows = step->rows->active_count,
                                 .columns = (size_t)step->run->shape.tp->vocab_count,
                                 .depth = step->width,
                                 .a = step->normed,
                                 .b = shard(step, step->layout.wte, step->layout.wpe),
                                 .c = step->args->logits});
}

/* Adds the layer's last sum to the stream, and makes the input of layer `next`, of the final norm,
 * or of the next stage. */
static void end_layer(gpt2_step *step, int next, size_t rows)
{
    const gpt2_layout *layout = &step->layout;
    const rank_shape *shape = &step->run->shape;
    const float *scale = NULL;
    const float *bias = NULL;
    if (next == shape->config->layers) {
        scale = shard(step, layout->final_weight, step->width);
        bias = shard(step, layout->final_bias, step->width);
    } else if (next < shape->end_layer) {
        scale = weight(step, next, LN1_WEIGHT);
        bias = weight(step, next, LN1_BIAS);
    }
    add_to_stream(step, rows, weight(step, next - 1, DOWN_BIAS), scale, bias);
}

void gpt2_decode(const rank_run *run, const rank_decode_args *args)
{
    const rank_shape *shape = &run->shape;
    const bool last_stage = shape->end_layer == shape->config->layers;
    gpt2_step step;
    begin(&step, run, args);
    size_t rows = step.rows->count;
    if (rows == 0) {
        return;
    }
    if (shape->first_layer == 0) {
        embed(&step);
    } else {
        step.backend->copy(step.queue, step.stream, args->in, rows * step.width * sizeof(float));
    }
    norm_stream(&step, rows, weight(&step, shape->first_layer, LN1_WEIGHT),
                weight(&step, shape->first_layer, LN1_BIAS));
    for (step.layer = shape->first_layer; step.layer < shape->end_layer && rows > 0; step.layer++) {
        rows = run_layer(&step);
        if (rows > 0) {
            end_layer(&step, step.layer + 1, rows);
        }
    }
    if (last_stage && rows > 0) {
        make_logits(&step);
    } else if (!last_stage) {
        step.backend->copy(step.queue, args->out, step.stream, rows * step.width * sizeof(float));
    }
}
