/* One step of decoding over all layers, on this rank's shard of each. Called by families.
 *
 *     embedding of this rank's ids, all-reduce
 *     each layer:  norm · q, k and v of this rank's heads · biases, norms of heads, rope · attention
 *                  over their cache
 *                  · projection (row-parallel), all-reduce, perhaps a norm
 *                  · norm · this rank's hidden columns · GELU or SwiGLU · down (row-parallel),
 *                  all-reduce, perhaps a norm
 *     norm · logits of this rank's ids
 *
 * Every rank has the whole residual stream. The exchanged memory has two halves. One holds the
 * stream, and an all-reduce writes its sum into the other. The next norm adds the stream to the
 * sum, so the stream is then in the other half. */
#include "model/decoder_step.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "model/beside.h"
#include "model/pieces.h"

/* What the largest of a step's products needs, whose matrices are not float32. */
static size_t product_scratch(const decoder_step *step, const rank_shape *shape)
{
    const rank_decoder *of = &step->of;
    const size_t tokens = shape->token_count_max;
    const rank_type type = shape->decode_type;
    if (shape->backend->plain_weights) {
        return (tokens * base_max_size(base_max_size(of->hidden, step->across), step->width) + 1) /
               2;
    }
    return base_max_size(base_max_size(rank_narrow_scratch(type, tokens, of->hidden, of->leaves),
                                       rank_narrow_scratch(type, tokens, step->across, of->leaves)),
                         rank_narrow_scratch(type, tokens, step->width, 1));
}

static size_t cut_work(decoder_step *step, const rank_shape *shape, float *memory)
{
    rank_pieces from = {.begin = memory};
    const size_t tokens = shape->token_count_max;
    const rank_decoder *of = &step->of;
    step->of = rank_decoder_describe(shape->config, shape->tp->ranks);
    step->width = (size_t)shape->config->width;
    step->across = of->heads * of->head_width;
    step->kv_across = of->kv_heads * of->head_width;
    step->normed = rank_pieces_cut(&from, tokens * step->width);
    step->mean = rank_pieces_cut(&from, tokens);
    step->rstd = rank_pieces_cut(&from, tokens);
    if (of->rotated > 0) {
        step->turns[0] = rank_pieces_cut(&from, tokens * of->head_width);
    }
    if (of->rotated > 0 && of->window > 0) {
        step->turns[1] = rank_pieces_cut(&from, tokens * of->head_width);
    }
    step->qkv = rank_pieces_cut(&from, tokens * rank_decoder_qkv_columns(step));
    step->attention = rank_pieces_cut(&from, tokens * step->across);
    if (of->gated || !shape->backend->product_gelu || rank_beside_rank(shape) > 0) {
        step->up = rank_pieces_cut(&from, tokens * of->hidden);
    }
    step->active = rank_pieces_cut(&from, tokens * of->hidden);
    if (shape->decode_type != RANK_FLOAT32) {
        step->product_scratch = rank_pieces_cut(&from, product_scratch(step, shape));
    }
    if (rank_beside_rank(shape) > 0) {
        step->low = rank_pieces_cut(&from, tokens * rank_beside_rank(shape));
    }
    if (of->experts > 0) {
        step->routing = rank_routing_cut(&from, of, tokens);
        step->taken = rank_pieces_cut(&from, tokens * step->width);
    }
    step->scratch = rank_pieces_cut(&from, shape->backend->attention_cached_scratch(
                                               of->head_width, (size_t)shape->config->context));
    return from.used;
}

size_t rank_decoder_work_floats(const rank_shape *shape)
{
    decoder_step step = {.run = NULL};
    return cut_work(&step, shape, NULL);
}

size_t rank_decoder_head_width(const rank_model_config *config)
{
    return rank_decoder_describe(config, 1).head_width;
}

/* Of one half: the stream, or a sum, and what adapters add up with it. */
static size_t half_floats(const rank_shape *shape)
{
    return shape->token_count_max * ((size_t)shape->config->width + rank_beside_rank(shape));
}

size_t rank_decoder_exchanged_floats(const rank_shape *shape)
{
    const rank_decoder of = rank_decoder_describe(shape->config, 1);
    return 2 * half_floats(shape) +
           of.chosen * shape->token_count_max * (size_t)shape->config->width;
}

size_t rank_decoder_cache_floats(const rank_shape *shape)
{
    const rank_decoder of = rank_decoder_describe(shape->config, shape->tp->ranks);
    return 2 * of.kv_heads * of.head_width;
}

static void begin(decoder_step *step, const rank_run *run, const rank_decode_args *args)
{
    const rank_shape *shape = &run->shape;
    const rank_decoder_table *table = shape->config->family->decoder;
    *step = (decoder_step){
        .run = run,
        .args = args,
        .backend = run->device.backend,
        .queue = run->device.queue,
        .rows = &args->saved->rows,
        .stream = args->exchanged,
    };
    (void)cut_work(step, shape, run->work);
    step->sum = step->stream + half_floats(shape);
    step->results = step->sum + half_floats(shape);
    table->ends(run, &step->ends);
    table->layer(run, 0, &step->weights);
}

void rank_decoder_all_reduce(const decoder_step *step, float *at, size_t count)
{
    const rank_tp *tp = step->run->shape.tp;
    tp->all_reduce(tp->group, at, count);
}

static void embed(const decoder_step *step)
{
    const rank_tp *tp = step->run->shape.tp;
    step->backend->embed_packed(step->queue,
                                &(rank_embed_packed){
                                    .tokens = step->rows->count,
                                    .width = step->width,
                                    .ids = step->rows->ids,
                                    .positions = step->rows->positions,
                                    .first_id = tp->vocab_first,
                                    .columns = tp->vocab_count,
                                    .wte = step->ends.tokens,
                                    .wte_row = step->backend->plain_weights ? step->width : 0,
                                    .wte_type = rank_words_type(step->run->shape.decode_type),
                                    .wpe = step->ends.positions,
                                    .out = step->stream,
                                });
    const size_t count = step->rows->count * step->width;
    rank_decoder_all_reduce(step, step->stream, count);
    if (step->of.embed_scale > 0.0f) {
        step->backend->scale(
            step->queue,
            &(rank_scale){.count = count, .factor = step->of.embed_scale, .at = step->stream});
    }
}

/* By a matrix of some type. */
static void multiply(const decoder_step *step, rank_type type, rank_product args)
{
    const bool plain = step->backend->plain_weights;
    args.a_row = args.depth;
    args.a_depth = 1;
    args.c_row = args.c_row > 0 ? args.c_row : args.columns;
    args.leaves = args.leaves > 0 ? args.leaves : 1;
    args.b_row = plain ? args.depth : 0;
    args.b_transposed = plain;
    args.b_type = type;
    args.scratch = step->product_scratch;
    step->backend->product(step->queue, &args);
}

void rank_decoder_multiply(const decoder_step *step, rank_product args)
{
    multiply(step, step->run->shape.decode_type, args);
}

void rank_decoder_product(const decoder_step *step, rank_product args)
{
    args.rows = args.rows > 0 ? args.rows : step->rows->count;
    rank_decoder_multiply(step, args);
    (void)rank_beside_make_low(step->run, step->layer, args, step->low);
    rank_beside_add(step->run, step->layer, args, step->low);
}

/* A row-parallel product: this rank's part of the sum, then the all-reduce. */
static void row_parallel(const decoder_step *step, rank_product args)
{
    size_t count = args.rows * step->width;
    float *low = step->sum + count;
    args.columns = step->width;
    args.c = step->sum;
    rank_decoder_multiply(step, args);
    count += rank_beside_make_low(step->run, step->layer, args, low);
    rank_decoder_all_reduce(step, step->sum, count);
    rank_beside_add(step->run, step->layer, args, low);
}

/* x becomes x + residual + bias, and its norm goes into `normed` if there is one. */
static void norm_rows(const decoder_step *step, size_t rows, float *x, const float *residual,
                      const float *bias, const rank_decoder_norm *norm)
{
    float *out = norm != NULL ? step->normed : NULL;
    if (step->of.rms) {
        step->backend->rmsnorm(step->queue,
                               &(rank_rmsnorm){.rows = rows,
                                               .width = step->width,
                                               .epsilon = step->of.epsilon,
                                               .one_more = step->of.one_more,
                                               .x = x,
                                               .residual = residual,
                                               .weight = norm != NULL ? norm->weight : NULL,
                                               .out = out});
        return;
    }
    step->backend->layernorm(step->queue,
                             &(rank_layernorm){.rows = rows,
                                               .width = step->width,
                                               .x = x,
                                               .residual = residual,
                                               .residual_bias = bias,
                                               .weight = norm != NULL ? norm->weight : NULL,
                                               .bias = norm != NULL ? norm->bias : NULL,
                                               .out = out,
                                               .mean = step->mean,
                                               .rstd = step->rstd});
}

/* The stream becomes stream + sum + sum_bias. Also computes its norm if that is not NULL. */
static void add_to_stream(decoder_step *step, size_t rows, const float *sum_bias,
                          const rank_decoder_norm *norm)
{
    norm_rows(step, rows, step->sum, step->stream, sum_bias, norm);
    float *before = step->stream;
    step->stream = step->sum;
    step->sum = before;
}

/* A sum becomes its norm, if the model has some for sums. */
static void norm_sum(const decoder_step *step, size_t rows, const rank_decoder_norm *norm)
{
    if (step->of.after_norms) {
        step->backend->rmsnorm(step->queue, &(rank_rmsnorm){.rows = rows,
                                                            .width = step->width,
                                                            .epsilon = step->of.epsilon,
                                                            .one_more = step->of.one_more,
                                                            .x = step->sum,
                                                            .weight = norm->weight,
                                                            .out = step->sum});
    }
}

/* After the attention of the model's last layer, drops the rows whose output is not needed. */
static void keep_active_rows(const decoder_step *step)
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

/* Some rows before an MLP. */
typedef struct mlp_rows {
    size_t count;
    const float *at; /* (rows, C) */
} mlp_rows;

/* c (rows, hidden) = in · b, with GELU if there is a bias for it. */
static void widen(const decoder_step *step, mlp_rows in, const float *b, float *c,
                  const float *gelu_bias)
{
    rank_decoder_product(step, (rank_product){.rows = in.count,
                                              .columns = step->of.hidden,
                                              .depth = step->width,
                                              .a = in.at,
                                              .b = b,
                                              .c = c,
                                              .gelu_bias = gelu_bias});
}

void rank_decoder_activate(const decoder_step *step, size_t rows, const float *in)
{
    const rank_decoder_layer *weights = &step->weights;
    const mlp_rows from = {rows, in};
    if (step->of.gated) {
        widen(step, from, weights->gate, step->active, NULL);
        widen(step, from, weights->up, step->up, NULL);
        step->backend->swiglu(step->queue, &(rank_swiglu){.rows = rows,
                                                          .width = step->of.hidden,
                                                          .gate = step->active,
                                                          .up = step->up,
                                                          .row = step->of.hidden,
                                                          .out = step->active,
                                                          .gelu = step->of.gelu});
    } else if (step->up == NULL) {
        widen(step, from, weights->up, step->active, weights->up_bias);
    } else {
        widen(step, from, weights->up, step->up, NULL);
        step->backend->gelu(step->queue, &(rank_gelu){.rows = rows,
                                                      .width = step->of.hidden,
                                                      .bias = weights->up_bias,
                                                      .x = step->up,
                                                      .out = step->active});
    }
}

/* The layer's MLP, or its experts, into step->sum. */
static void run_mlp(decoder_step *step, size_t rows)
{
    if (step->of.experts > 0) {
        rank_decoder_experts(step, rows);
        return;
    }
    rank_decoder_activate(step, rows, step->normed);
    row_parallel(step, (rank_product){.rows = rows,
                                      .depth = step->of.hidden,
                                      .a = step->active,
                                      .b = step->weights.down,
                                      .leaves = step->of.leaves});
}

/* Adds the layer's last sum to the stream, and makes the input of layer `next`, or of the final norm. */
static void end_layer(decoder_step *step, int next, size_t rows)
{
    const rank_model_config *config = step->run->shape.config;
    const float *bias = step->weights.down_bias;
    const bool last = next == config->layers;
    if (!last) {
        config->family->decoder->layer(step->run, next, &step->weights);
    }
    add_to_stream(step, rows, bias, last ? &step->ends.norm : &step->weights.norm1);
}

/* What began at begun_ns ends. Returns when. */
static int64_t traced(const decoder_step *step, rank_trace_kind kind, int index, int64_t begun_ns)
{
    return rank_trace_add(step->run->hooks->trace,
                          (rank_trace_span){.kind = kind, .begin_ns = begun_ns, .index = index});
}

/* Runs a layer behind the norm of its input, which is made, to that of the next. Returns how many rows are left. */
static size_t run_layer(decoder_step *step, int64_t begun_ns)
{
    const bool last = step->layer + 1 == step->run->shape.config->layers;
    const size_t rows = last ? step->rows->active_count : step->rows->count;
    rank_decoder_make_qkv(step);
    rank_decoder_attend(step);
    if (last) {
        keep_active_rows(step);
    }
    if (rows > 0) {
        row_parallel(step, (rank_product){.rows = rows,
                                          .depth = step->across,
                                          .a = step->attention,
                                          .b = step->weights.projection,
                                          .leaves = step->of.leaves});
    }
    begun_ns = traced(step, RANK_TRACE_ATTENTION, -1, begun_ns);
    if (rows > 0) {
        norm_sum(step, rows, &step->weights.after1);
        add_to_stream(step, rows, step->weights.projection_bias, &step->weights.norm2);
        run_mlp(step, rows);
        norm_sum(step, rows, &step->weights.after2);
        end_layer(step, step->layer + 1, rows);
        (void)traced(step, RANK_TRACE_MLP, -1, begun_ns);
    }
    return rows;
}

/* This rank's logits, from the final norm. */
static void make_logits(const decoder_step *step)
{
    multiply(step, rank_words_type(step->run->shape.decode_type),
             (rank_product){.rows = step->rows->active_count,
                            .columns = (size_t)step->run->shape.tp->vocab_count,
                            .depth = step->width,
                            .a = step->normed,
                            .b = step->ends.output,
                            .c = step->args->logits});
}

/* One of rope's tables: (T, rotated). */
static void make_turns(const decoder_step *step, const float *frequency, float *turns)
{
    rank_rope_table table = {.rows = step->rows->count,
                             .positions = step->rows->positions,
                             .pairs = step->of.rotated / 2,
                             .scale = step->of.turn_scale,
                             .table = turns};
    for (size_t i = 0; i < table.pairs; i++) {
        table.frequency[i] = frequency[i];
    }
    step->backend->rope_table(step->queue, &table);
}

static void begin_stream(const decoder_step *step)
{
    const size_t rows = step->rows->count;
    if (step->of.rotated > 0) {
        make_turns(step, step->of.frequency, step->turns[0]);
    }
    if (step->turns[1] != NULL) {
        make_turns(step, step->of.local_frequency, step->turns[1]);
    }
    embed(step);
    norm_rows(step, rows, step->stream, NULL, NULL, &step->weights.norm1);
}

void rank_decoder_decode(const rank_run *run, const rank_decode_args *args)
{
    const int layers = run->shape.config->layers;
    decoder_step step;
    size_t rows = args->saved->rows.count;
    BASE_ASSERT(run->shape.first_layer == 0);
    BASE_ASSERT(run->shape.end_layer == layers);
    if (rows == 0) {
        return;
    }
    int64_t begun_ns = rank_trace_begin(run->hooks->trace);
    begin(&step, run, args);
    begin_stream(&step);
    begun_ns = traced(&step, RANK_TRACE_EMBEDDING, -1, begun_ns);
    for (step.layer = 0; step.layer < layers && rows > 0; step.layer++) {
        rows = run_layer(&step, begun_ns);
        begun_ns = traced(&step, RANK_TRACE_LAYER, step.layer, begun_ns);
    }
    if (rows > 0) {
        make_logits(&step);
        (void)traced(&step, RANK_TRACE_OUTPUT, -1, begun_ns);
    }
}
