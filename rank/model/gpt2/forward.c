/* Forward over the layers of a run, for training and evaluation. Decoding has decode.c. Called
 * through gpt2.c's table. */
#include "model/gpt2/pass.h"

/* Makes the first stage's stream: token and position embeddings. */
static void embed(const gpt2_pass *pass)
{
    const rank_model_config *config = pass->run->shape.config;
    const size_t wte_count = (size_t)config->vocab_size * pass->width;
    const size_t wpe_count = (size_t)config->context * pass->width;
    pass->backend->embed(pass->queue, &(rank_embed){
                                          .tokens = pass->rows->count,
                                          .width = pass->width,
                                          .ids = pass->rows->ids,
                                          .positions = pass->rows->positions,
                                          .wte = gpt2_need(pass, pass->layout.wte, wte_count),
                                          .wpe = gpt2_need(pass, pass->layout.wpe, wpe_count),
                                          .out = gpt2_block(pass, 0).norm1.x,
                                      });
    gpt2_done(pass, pass->layout.wte, wte_count + wpe_count);
}

static row_chunk chunk_at(const gpt2_pass *pass, size_t first, size_t end)
{
    const size_t left = end - first;
    const size_t most = pass->backend->rows_at_once;
    return (row_chunk){first, left < most ? left : most};
}

/* The layer's tensor of shape (depth, columns), for products with rows of activations. */
static gpt2_operand operand(const gpt2_pass *pass, int tensor, size_t depth, size_t columns,
                            float *to)
{
    return gpt2_operand_make(
        pass,
        &(gpt2_matrix){.at = gpt2_layer_factor(pass, tensor), .depth = depth, .columns = columns},
        to);
}

/* The chunk's rows of state->x become the residual stream, and those of state->out its layer norm.
 * args has the residual (of row 0) and the parameters. */
static void norm(const gpt2_pass *pass, row_chunk chunk, const norm_state *state,
                 rank_layernorm args)
{
    const size_t width = pass->width;
    args.rows = chunk.rows;
    args.width = width;
    args.x = state->x + chunk.first * width;
    args.out = state->out != NULL ? gpt2_at(pass, state->out, chunk.first * width) : NULL;
    args.type = pass->type;
    args.mean = state->mean + chunk.first;
    args.rstd = state->rstd + chunk.first;
    if (args.residual_rows != NULL) {
        args.residual_rows += chunk.first;
    } else if (args.residual != NULL) {
        args.residual += chunk.first * width;
    }
    pass->backend->layernorm(pass->queue, &args);
}

/* The bias of the layer below. That layer's output is still without it. */
static const float *bias_below(const gpt2_pass *pass, int layer)
{
    return gpt2_need(pass, gpt2_offset(pass, layer - 1, DOWN_BIAS), pass->width);
}

/* The first layer norm. Its input is the stream of the stage before, or the output of the block
 * below, which is still without its bias and residual. */
static void norm_first(const gpt2_pass *pass, row_chunk chunk)
{
    rank_layernorm args = {.weight = pass->weights[LN1_WEIGHT], .bias = pass->weights[LN1_BIAS]};
    if (pass->layer > pass->run->shape.first_layer) {
        args.residual = gpt2_block(pass, pass->layer - 1).norm2.x;
        args.residual_bias = bias_below(pass, pass->layer);
    }
    norm(pass, chunk, &pass->block.norm1, args);
}

static void norm_second(const gpt2_pass *pass, row_chunk chunk, const int32_t *rows)
{
    norm(pass, chunk, &pass->block.norm2,
         (rank_layernorm){.residual = pass->block.norm1.x,
                          .residual_rows = rows,
                          .residual_bias = pass->weights[PROJ_BIAS],
                          .weight = pass->weights[LN2_WEIGHT],
                          .bias = pass->weights[LN2_BIAS]});
}

static void gelu(const gpt2_pass *pass, row_chunk chunk)
{
    const size_t wider = WIDENING * pass->width;
    pass->backend->gelu(pass->queue, &(rank_gelu){
                                         .rows = chunk.rows,
                                         .width = wider,
                                         .bias = pass->weights[UP_BIAS],
                                         .x = gpt2_at(pass, pass->block.up, chunk.first * wider),
                                         .out = pass->wide,
                                         .type = pass->type,
                                     });
}

/* The weights behind a layer's attention. */
typedef struct upper_half {
    gpt2_operand projection;
    gpt2_operand up;
    gpt2_operand down;
} upper_half;

static upper_half upper_half_make(const gpt2_pass *pass)
{
    const size_t width = pass->width;
    const size_t wider = WIDENING * width;
    const size_t down = rank_pack_count(width, wider);
    const size_t projection = down + rank_pack_count(wider, width);
    return (upper_half){.projection =
                            operand(pass, PROJ_WEIGHT, width, width, gpt2_packed(pass, projection)),
                        .up = operand(pass, UP_WEIGHT, width, wider, gpt2_packed(pass, 0)),
                        .down = operand(pass, DOWN_WEIGHT, wider, width, gpt2_packed(pass, down))};
}

/* Computes what follows attention, for some rows. The block's output goes to `out` without bias and
 * residual. `rows` are the indices of all its rows in the stream before; NULL: the same. */
static void finish_rows(const gpt2_pass *pass, const upper_half *half, row_chunk chunk,
                        const int32_t *rows, float *out)
{
    const rank_model_config *config = pass->run->shape.config;
    const block_state *block = &pass->block;
    const size_t at = chunk.first * pass->width;
    gpt2_multiply(pass, &half->projection,
                  (gpt2_factor){.rows = chunk.rows,
                                .a = gpt2_at(pass, block->attention, at),
                                .c = block->norm2.x + at,
                                .leaves = gpt2_attention_leaves(config, 1)});
    norm_second(pass, chunk, rows);
    gpt2_multiply(pass, &half->up,
                  (gpt2_factor){.rows = chunk.rows,
                                .a = gpt2_at(pass, block->norm2.out, at),
                                .c = gpt2_at(pass, block->up, WIDENING * at),
                                .c_type = pass->type});
    gelu(pass, chunk);
    gpt2_multiply(pass, &half->down,
                  (gpt2_factor){.rows = chunk.rows,
                                .a = pass->wide,
                                .c = out + at,
                                .leaves = gpt2_hidden_leaves(config, 1)});
}

/* The attention of some whole segments, whose rows of qkv are computed. */
static void attention(const gpt2_pass *pass, const rank_segments *segments)
{
    rank_attention args = gpt2_attention(pass, segments);
    args.out = pass->block.attention;
    pass->backend->attention(pass->queue, &args);
}

/* From the layer's input to its q, k and v. */
static void project_qkv(const gpt2_pass *pass, const gpt2_operand *qkv, row_chunk chunk)
{
    const size_t at = chunk.first * pass->width;
    norm_first(pass, chunk);
    gpt2_multiply(pass, qkv,
                  (gpt2_factor){.rows = chunk.rows,
                                .a = gpt2_at(pass, pass->block.norm1.out, at),
                                .c = gpt2_at(pass, pass->block.qkv, 3 * at),
                                .c_type = pass->type});
}

/* From the layer's input to its attention. */
static void attend(const gpt2_pass *pass)
{
    const gpt2_operand qkv =
        operand(pass, QKV_WEIGHT, pass->width, 3 * pass->width, pass->operands);
    rank_segments segments = {.count = 0};
    while (rank_next_segments(pass->rows, pass->backend->rows_at_once, &segments)) {
        project_qkv(pass, &qkv, (row_chunk){segments.first_row, segments.row_count});
        attention(pass, &segments);
    }
}

static void forward_layer(const gpt2_pass *pass, float *out)
{
    const size_t end = gpt2_rows_behind(pass, pass->layer);
    const bool some = end < pass->rows->count;
    attend(pass);
    if (some) {
        const rank_move_rows together = gpt2_active_rows(pass, pass->block.attention, pass->type);
        pass->backend->gather_rows(pass->queue, &together);
    }
    const upper_half half = upper_half_make(pass);
    for (size_t first = 0; first < end; first += pass->backend->rows_at_once) {
        finish_rows(pass, &half, chunk_at(pass, first, end), some ? pass->rows->active : NULL, out);
    }
}

/* Adds bias and residual to the last layer's output. In the last stage also computes its norm. */
static void finish_stream(const gpt2_pass *pass, const norm_state *state, rank_layernorm args)
{
    const int end = pass->run->shape.end_layer;
    args.residual = gpt2_block(pass, end - 1).norm2.x;
    args.residual_bias = bias_below(pass, end);
    norm(pass, (row_chunk){0, gpt2_rows_behind(pass, end - 1)}, state, args);
}

static void norm_final(const gpt2_pass *pass)
{
    const gpt2_layout *layout = &pass->layout;
    finish_stream(pass, &pass->norm_final,
                  (rank_layernorm){.weight = gpt2_need(pass, layout->final_weight, pass->width),
                                   .bias = gpt2_need(pass, layout->final_bias, pass->width)});
}

void gpt2_layers(gpt2_pass *pass, const float *in, float *out)
{
    const rank_shape *shape = &pass->run->shape;
    if (gpt2_is_first_stage(pass)) {
        embed(pass);
    } else {
        pass->backend->copy(pass->queue, gpt2_block(pass, shape->first_layer).norm1.x, in,
                            pass->rows->count * pass->width * sizeof *in);
    }
    float *last_out = gpt2_is_last_stage(pass) ? pass->norm_final.x : out;
    for (int layer = shape->first_layer; layer < shape->end_layer; layer++) {
        gpt2_enter_layer(pass, layer);
        forward_layer(pass, layer + 1 < shape->end_layer ? gpt2_block(pass, layer + 1).norm1.x
                                                         : last_out);
        gpt2_leave_layer(pass);
    }
    if (gpt2_is_last_stage(pass)) {
        norm_final(pass);
    } else {
        finish_stream(pass, &(norm_state){.x = out}, (rank_layernorm){.out = NULL});
    }
}

void gpt2_forward(const rank_run *run, const rank_forward_args *args)
{
    gpt2_pass pass;
    gpt2_pass_begin(run, args->saved, &pass);
    pass.backend->zero(pass.queue, args->saved->loss, sizeof *args->saved->loss);
    if (gpt2_is_last_stage(&pass) && pass.rows->active_count == 0) {
        return; /* no output is needed */
    }
    gpt2_layers(&pass, args->in, args->out);
    if (args->logits != NULL) {
        gpt2_logits(&pass, args->logits->rows, (size_t)args->logits->count, args->logits->at);
    }
    if (args->want_loss && gpt2_is_last_stage(&pass) && pass.rows->target_count > 0) {
        gpt2_loss(&pass, args->saved->loss);
    }
}
