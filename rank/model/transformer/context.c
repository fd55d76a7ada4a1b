/* Attention of a micro-batch whose tokens ranks share. Called by forward.c and backward.c.
 *
 * Before attention a rank has all heads of its own rows, and in attention all rows of its own heads. An
 * exchange turns the one into the other: its block for a rank has that rank's heads of the rows here, and
 * blocks of all ranks, one behind the other, are the rows of the whole micro-batch in their order. The way
 * back is the same exchange, of blocks with the rows of a rank and the heads here. */
#include <string.h>

#include "model/transformer/pass.h"

static size_t ranks(const transformer_pass *pass)
{
    return (size_t)pass->run->shape.cp->ranks;
}

/* Floats of one of q, k and v, of one rank's heads. */
static size_t head_floats(const transformer_pass *pass)
{
    return pass->sizes.queries / ranks(pass);
}

/* What is sent becomes what is received. A row has so many parts (q, k and v, or attention's output). */
static void exchange(const transformer_pass *pass, size_t parts, float *to)
{
    const rank_cp *cp = pass->run->shape.cp;
    const size_t rows = rank_cp_block(pass->rows->whole_count, cp->ranks);
    cp->exchange(cp->group, pass->sent, to, rows * parts * head_floats(pass));
}

/* Sends rows (T, parts · Q) of all heads. `to` (all rows, parts · Q / ranks) gets those of this rank's heads. */
static void exchange_rows(const transformer_pass *pass, const float *from, size_t parts, float *to)
{
    const size_t part = head_floats(pass);
    const size_t block = rank_cp_block(pass->rows->whole_count, (int)ranks(pass)) * parts * part;
    for (size_t r = 0; r < ranks(pass); r++) {
        float *sent = pass->sent + r * block;
        for (size_t i = 0; i < pass->rows->count * parts; i++, sent += part) {
            memcpy(sent, from + i * pass->sizes.queries + r * part, part * sizeof *sent);
        }
        memset(sent, 0, block * sizeof *sent - pass->rows->count * parts * part * sizeof *sent);
    }
    exchange(pass, parts, to);
}

/* All blocks are sent whole, also behind the last row that attention writes: nothing of what was in memory
 * before leaves the rank. */
static void clear_behind_rows(const transformer_pass *pass, size_t parts)
{
    const size_t row = parts * head_floats(pass);
    const size_t whole = pass->rows->whole_count;
    const size_t rows = rank_cp_block(whole, (int)ranks(pass)) * ranks(pass);
    memset(pass->sent + whole * row, 0, (rows - whole) * row * sizeof *pass->sent);
}

void transformer_take_rows(const transformer_pass *pass, row_chunk chunk, size_t parts, float *to)
{
    const size_t part = head_floats(pass);
    const size_t block = rank_cp_block(pass->rows->whole_count, (int)ranks(pass)) * parts * part;
    for (size_t r = 0; r < ranks(pass); r++) {
        const float *from = pass->received + r * block + chunk.first * parts * part;
        for (size_t i = 0; i < chunk.rows * parts; i++, from += part) {
            memcpy(to + i * pass->sizes.queries + r * part, from, part * sizeof *from);
        }
    }
}

/* Where in a vector (3, Q) that part of this rank's heads begins: of q, k or v. */
static size_t own_heads(const transformer_pass *pass, size_t which)
{
    return which * pass->sizes.queries + (size_t)pass->run->shape.cp->rank * head_floats(pass);
}

/* Attention of this rank's heads, over all rows. */
static rank_attention own_attention(const transformer_pass *pass)
{
    const rank_segments all = {.count = pass->rows->segment_count,
                               .row_count = pass->rows->whole_count};
    const size_t part = head_floats(pass);
    rank_attention args = transformer_attention(pass, &all, pass->layer);
    args.width = part;
    args.heads = pass->sizes.heads / ranks(pass);
    if (pass->head_bias != NULL) {
        for (size_t i = 0; i < RANK_BIAS_PARTS; i++) {
            memcpy(pass->head_bias + i * part, pass->weights[QKV_BIAS] + own_heads(pass, i),
                   part * sizeof *pass->head_bias);
        }
        args.bias = pass->head_bias;
    }
    return args;
}

void transformer_attend_together(const transformer_pass *pass)
{
    float *qkv = pass->block.qkv;
    exchange_rows(pass, qkv, RANK_BIAS_PARTS, qkv);
    rank_attention args = own_attention(pass);
    args.out = pass->sent;
    clear_behind_rows(pass, 1);
    pass->backend->attention(pass->queue, &args);
    exchange(pass, 1, pass->received);
    transformer_take_rows(pass, (row_chunk){0, pass->rows->count}, 1, pass->block.attention);
}

/* The gradient of the bias of this rank's heads, over all rows; of the other heads it is zero here. */
static void put_bias_grad(const transformer_pass *pass)
{
    const size_t part = head_floats(pass);
    float *whole = transformer_block_grad(pass, pass->layer, QKV_BIAS);
    for (size_t i = 0; i < RANK_BIAS_PARTS; i++) {
        memcpy(whole + own_heads(pass, i), pass->head_bias_grad + i * part, part * sizeof *whole);
    }
}

void transformer_attend_together_grad(const transformer_pass *pass)
{
    exchange_rows(pass, pass->dattention, 1, pass->received);
    rank_attention args = own_attention(pass);
    args.dout = pass->received;
    args.dqkv = pass->sent;
    clear_behind_rows(pass, RANK_BIAS_PARTS);
    args.dbias = pass->no_bias_grad;
    if (args.dbias == NULL) {
        memset(pass->head_bias_grad, 0,
               RANK_BIAS_PARTS * head_floats(pass) * sizeof *pass->head_bias_grad);
        args.dbias = pass->head_bias_grad;
    }
    pass->backend->attention_grad(pass->queue, &args);
    exchange(pass, RANK_BIAS_PARTS, pass->received);
    if (args.dbias == pass->head_bias_grad) {
        put_bias_grad(pass);
    }
}
