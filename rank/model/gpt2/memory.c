/* Lays out a pass's memory: activations of one micro-batch, scratch of the run, addresses of
 * weights. Called by forward.c and backward.c, and for sizes through gpt2.c's table. */
#include "model/gpt2/pass.h"
#include "model/pieces.h"

enum {
    ROW_ALIGNMENT = 8, /* elements */
    LOGIT_ROWS = 4096,
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* An array of the shape's type. */
static void *cut_typed(rank_pieces *from, const rank_shape *shape, size_t count)
{
    const size_t size_bytes = count * rank_type_bytes(shape->type);
    return rank_pieces_cut(from, (size_bytes + sizeof(float) - 1) / sizeof(float));
}

static void cut_norm(rank_pieces *from, const rank_shape *shape, norm_state *norm)
{
    const size_t tokens = shape->token_count_max;
    const size_t width = (size_t)shape->config->width;
    norm->x = rank_pieces_cut(from, tokens * width);
    norm->out = cut_typed(from, shape, tokens * width);
    norm->mean = rank_pieces_cut(from, tokens);
    norm->rstd = rank_pieces_cut(from, tokens);
}

static block_state cut_block(rank_pieces *from, const rank_shape *shape)
{
    const size_t width = (size_t)shape->config->width;
    const size_t tokens = shape->token_count_max;
    block_state block;
    cut_norm(from, shape, &block.norm1);
    block.qkv = cut_typed(from, shape, tokens * 3 * width);
    block.row_max = rank_pieces_cut(from, tokens * (size_t)shape->config->heads);
    block.row_scale = rank_pieces_cut(from, tokens * (size_t)shape->config->heads);
    block.attention = cut_typed(from, shape, tokens * width);
    cut_norm(from, shape, &block.norm2);
    block.up = cut_typed(from, shape, tokens * WIDENING * width);
    return block;
}

static size_t block_floats(const rank_shape *shape)
{
    rank_pieces count = {.begin = NULL};
    (void)cut_block(&count, shape);
    return count.used;
}

static size_t blocks_kept(const rank_shape *shape)
{
    return shape->training ? (size_t)(shape->end_layer - shape->first_layer) : 1;
}

size_t gpt2_saved_floats(const rank_shape *shape)
{
    if (shape->tp != NULL) {
        return 0; /* decoding keeps nothing */
    }
    rank_pieces count = {.begin = NULL};
    norm_state final;
    cut_norm(&count, shape, &final);
    return blocks_kept(shape) * block_floats(shape) + count.used;
}

static size_t segment_max(const rank_shape *shape)
{
    return smaller((size_t)shape->config->context, shape->token_count_max);
}

/* The most rows of whole segments that go through attention together. */
static size_t segment_rows(const rank_shape *shape)
{
    const size_t chunk = smaller(shape->backend->rows_at_once, shape->token_count_max);
    return shape->padded ? shape->token_count_max : larger(chunk, segment_max(shape));
}

/* Products in bfloat16 are fast where rows begin at multiples of 16 bytes. */
static size_t logit_row(const rank_shape *shape)
{
    const size_t vocab_size = (size_t)shape->config->vocab_size;
    return shape->type == RANK_FLOAT32
               ? vocab_size
               : (vocab_size + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT;
}

/* Floats of wide for rows of logits: float32, and for products their gradient once more. */
static size_t logits_floats(const rank_shape *shape, size_t rows)
{
    const size_t count = rows * logit_row(shape);
    return shape->type == RANK_FLOAT32 ? count : rank_pieces_size(count) + (count + 1) / 2;
}

/* Rows of logits that always fit. Where many rows are computed at once, few chunks of logits are
 * worth more memory: each reads and writes the whole gradient of the output embedding. */
static size_t logit_rows_least(const rank_shape *shape)
{
    const bool many = shape->training && shape->backend->rows_at_once >= LOGIT_ROWS;
    return many ? smaller(LOGIT_ROWS, shape->token_count_max) : 1;
}

/* As many as fit into wide, which has so many floats. */
static size_t logit_rows_at_once(const rank_shape *shape, size_t wide)
{
    const size_t row = logit_row(shape);
    size_t rows = shape->type == RANK_FLOAT32 ? wide / row : 2 * wide / (3 * row);
    while (logits_floats(shape, rows) > wide) {
        rows--;
    }
    return smaller(shape->backend->rows_at_once, rows);
}

/* The buffer that several uses share, one at a time. */
static size_t wide_floats(const rank_shape *shape)
{
    const size_t width = (size_t)shape->config->width;
    const size_t chunk = smaller(shape->backend->rows_at_once, shape->token_count_max);
    const size_t gelu = chunk * WIDENING * width;
    const size_t dqkv = segment_rows(shape) * 3 * width;
    return larger(larger(gelu, dqkv), logits_floats(shape, logit_rows_least(shape)));
}

/* The two halves of a block are made ready one after the other, the upper one needs more. */
static size_t operands_floats(size_t width)
{
    const size_t wider = WIDENING * width;
    return rank_pack_count(width, wider) + rank_pack_count(wider, width) +
           rank_pack_count(width, width);
}

/* Where operands of products are packed; nothing for a backend that does not pack. */
static void cut_packed(rank_pieces *from, const rank_shape *shape, gpt2_pass *pass)
{
    const size_t width = (size_t)shape->config->width;
    const size_t chunk = smaller(shape->backend->rows_at_once, shape->token_count_max);
    pass->output = NULL;
    pass->packed_rows = NULL;
    pass->operands = NULL;
    if (!shape->backend->packs) {
        return;
    }
    if (shape->end_layer == shape->config->layers) {
        pass->output =
            rank_pieces_cut(from, rank_pack_count(width, (size_t)shape->config->vocab_size));
    }
    if (shape->training) {
        pass->packed_rows =
            rank_pieces_cut(from, larger(rank_pack_count(chunk, WIDENING * width),
                                         rank_pack_count(segment_rows(shape), 3 * width)));
    }
    pass->operands = rank_pieces_cut(from, operands_floats(width));
}

static size_t cut_work(gpt2_pass *pass, const rank_shape *shape, float *memory)
{
    rank_pieces from = {.begin = memory};
    const size_t width = (size_t)shape->config->width;
    const size_t tokens = shape->token_count_max;
    const size_t wide = wide_floats(shape);
    pass->wide = rank_pieces_cut(&from, wide);
    pass->logit_row = logit_row(shape);
    pass->logit_rows_at_once = logit_rows_at_once(shape, wide);
    if (shape->training) {
        pass->dx = rank_pieces_cut(&from, tokens * width);
        pass->dbranch = rank_pieces_cut(&from, tokens * width);
        if (shape->type != RANK_FLOAT32) {
            pass->narrow_dx = cut_typed(&from, shape, tokens * width);
        }
    }
    cut_packed(&from, shape, pass);
    const size_t head_width = width / (size_t)shape->config->heads;
    const rank_attention_shape attention = {.tokens = tokens,
                                            .heads = (size_t)shape->config->heads,
                                            .head_width = head_width,
                                            .segment_max = segment_max(shape)};
    pass->attention_scratch = rank_pieces_cut(&from, shape->backend->attention_scratch(&attention));
    return from.used;
}

size_t gpt2_work_floats(const rank_shape *shape)
{
    if (shape->tp != NULL) {
        return gpt2_step_floats(shape);
    }
    gpt2_pass pass;
    return cut_work(&pass, shape, NULL);
}

void gpt2_pass_begin(const rank_run *run, const rank_saved *saved, gpt2_pass *pass)
{
    const rank_shape *shape = &run->shape;
    *pass = (gpt2_pass){
        .run = run,
        .backend = run->device.backend,
        .queue = run->device.queue,
        .rows = &saved->rows,
        .width = (size_t)shape->config->width,
        .layers = (size_t)shape->config->layers,
        .type = shape->type,
        .blocks = saved->activations,
    };
    gpt2_layout_make(shape->config, &pass->layout);
    rank_pieces from = {.begin = saved->activations,
                        .used = blocks_kept(shape) * block_floats(shape)};
    cut_norm(&from, shape, &pass->norm_final);
    (void)cut_work(pass, shape, run->work);
}

block_state gpt2_block(const gpt2_pass *pass, int layer)
{
    const rank_shape *shape = &pass->run->shape;
    const size_t index = shape->training ? (size_t)(layer - shape->first_layer) : 0;
    rank_pieces from = {.begin = pass->blocks, .used = index * block_floats(shape)};
    return cut_block(&from, shape);
}

void gpt2_enter_layer(gpt2_pass *pass, int layer)
{
    pass->layer = layer;
    pass->block = gpt2_block(pass, layer);
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        pass->weights[i] = gpt2_need(pass, gpt2_offset(pass, layer, i),
                                     pass->layout.in_block[i + 1] - pass->layout.in_block[i]);
    }
}

void gpt2_leave_layer(const gpt2_pass *pass)
{
    gpt2_done(pass, gpt2_offset(pass, pass->layer, 0), pass->layout.in_block[BLOCK_TENSORS]);
}

rank_attention gpt2_attention(const gpt2_pass *pass, const rank_segments *segments)
{
    return (rank_attention){
        .width = pass->width,
        .heads = (size_t)pass->run->shape.config->heads,
        .segment_count = segments->count,
        .segment_start = pass->rows->segment_start + segments->first,
        .rows = segments->row_count,
        .segment_max = pass->rows->segment_max,
        .type = pass->type,
        .qkv = pass->block.qkv,
        .bias = pass->weights[QKV_BIAS],
        .row_max = pass->block.row_max,
        .row_scale = pass->block.row_scale,
        .scratch = pass->attention_scratch,
    };
}

/* Rows of bfloat16 move as rows of half as many floats: their bits do not change. */
rank_move_rows gpt2_active_rows(const gpt2_pass *pass, void *at, rank_type type)
{
    return (rank_move_rows){.count = pass->rows->active_count,
                            .total = pass->rows->count,
                            .width = pass->width * rank_type_bytes(type) / sizeof(float),
                            .rows = pass->rows->active,
                            .at = at};
}
