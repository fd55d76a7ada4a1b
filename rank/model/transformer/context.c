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

/* Floats of the queries of one rank's heads. */
static size_t head_floats(const transformer_pass *pass)
{
    return pass->sizes.queries / ranks(pass);
}

/* What is exchanged of a row of all heads: parts side by side, of each of which a rank's heads have an equal part. */
typedef struct heads_row {
    size_t parts;
    size_t columns[RANK_BIAS_PARTS];
    size_t row; /* from one row to the next */
} heads_row;

/* q, k and v. A head of k and v goes once for all heads of q that share it, if a rank has all of these. */
static heads_row qkv_row(const transformer_pass *pass)
{
    const size_t queries = pass->sizes.queries;
    const size_t keys = transformer_exchanges_groups(pass)
                            ? pass->sizes.kv_heads * pass->sizes.head_width
                            : queries;
    return (heads_row){RANK_BIAS_PARTS, {queries, keys, keys}, pass->sizes.qkv_row};
}

/* Attention's output. */
static heads_row output_row(const transformer_pass *pass)
{
    return (heads_row){1, {pass->sizes.queries}, pass->sizes.queries};
}

/* Floats of a row of one rank's heads. */
static size_t row_floats(const transformer_pass *pass, const heads_row *of)
{
    size_t columns = 0;
    for (size_t part = 0; part < of->parts; part++) {
        columns += of->columns[part];
    }
    return columns / ranks(pass);
}

/* Floats of what one rank gets from another. */
static size_t block_floats(const transformer_pass *pass, const heads_row *of)
{
    return rank_cp_block(pass->rows->whole_count, (int)ranks(pass)) * row_floats(pass, of);
}

/* What is sent becomes what is received. */
static void exchange(const transformer_pass *pass, const heads_row *of, float *to)
{
    const rank_cp *cp = pass->run->shape.cp;
    cp->exchange(cp->group, pass->sent, to, block_floats(pass, of));
}

/* Sends rows of all heads. `to` gets all rows of this rank's heads. */
static void exchange_rows(const transformer_pass *pass, const float *from, const heads_row *of,
                          float *to)
{
    const size_t block = block_floats(pass, of);
    for (size_t r = 0; r < ranks(pass); r++) {
        float *sent = pass->sent + r * block;
        for (size_t i = 0; i < pass->rows->count; i++) {
            const float *part = from + i * of->row;
            for (size_t p = 0; p < of->parts; part += of->columns[p++]) {
                const size_t count = of->columns[p] / ranks(pass);
                memcpy(sent, part + r * count, count * sizeof *sent);
                sent += count;
            }
        }
        memset(sent, 0, (size_t)(pass->sent + (r + 1) * block - sent) * sizeof *sent);
    }
    exchange(pass, of, to);
}

/* All blocks are sent whole, also behind the last row that attention writes: nothing of what was in memory
 * before leaves the rank. */
static void clear_behind_rows(const transformer_pass *pass, const heads_row *of)
{
    const size_t used = pass->rows->whole_count * row_floats(pass, of);
    memset(pass->sent + used, 0,
           (block_floats(pass, of) * ranks(pass) - used) * sizeof *pass->sent);
}

/* Rows of all heads, of those that have come. */
static void take_rows(const transformer_pass *pass, row_chunk chunk, const heads_row *of, float *to)
{
    const size_t block = block_floats(pass, of);
    for (size_t r = 0; r < ranks(pass); r++) {
        const float *from = pass->received + r * block + chunk.first * row_floats(pass, of);
        for (size_t i = 0; i < chunk.rows; i++) {
            float *part = to + i * of->row;
            for (size_t p = 0; p < of->parts; part += of->columns[p++]) {
                const size_t count = of->columns[p] / ranks(pass);
                memcpy(part + r * count, from, count * sizeof *from);
                from += count;
            }
        }
    }
}

void transformer_take_dqkv(const transformer_pass *pass, row_chunk chunk, float *to)
{
    const heads_row row = qkv_row(pass);
    take_rows(pass, chunk, &row, to);
}

/* Heads of k and v that are shared, in rows of this rank's heads as attention has them. */
static rank_shared_heads own_groups(const transformer_pass *pass, float *rows)
{
    return (rank_shared_heads){.rows = pass->rows->whole_count,
                               .heads = pass->sizes.heads / ranks(pass),
                               .kv_heads = pass->sizes.kv_heads / ranks(pass),
                               .head_width = pass->sizes.head_width,
                               .at = rows};
}

/* q, k and v of this rank's heads, with heads of k and v beside all of q. */
static void exchange_qkv(const transformer_pass *pass)
{
    const heads_row row = qkv_row(pass);
    float *qkv = pass->block.qkv;
    if (!transformer_exchanges_groups(pass)) {
        exchange_rows(pass, qkv, &row, qkv);
        return;
    }
    const size_t count = row_floats(pass, &row);
    const rank_shared_heads groups = own_groups(pass, qkv);
    exchange_rows(pass, qkv, &row, pass->received);
    for (size_t i = 0; i < groups.rows; i++) {
        memcpy(qkv + i * RANK_BIAS_PARTS * head_floats(pass), pass->received + i * count,
               count * sizeof *qkv);
    }
    pass->backend->copy_heads(pass->queue, &groups);
}

/* The gradient of q, k and v, which attention has left in what is sent, becomes that of this rank's rows. */
static void exchange_dqkv(const transformer_pass *pass)
{
    const heads_row row = qkv_row(pass);
    if (transformer_exchanges_groups(pass)) {
        const size_t count = row_floats(pass, &row);
        const rank_shared_heads groups = own_groups(pass, pass->sent);
        pass->backend->sum_heads(pass->queue, &groups);
        for (size_t i = 1; i < groups.rows; i++) {
            memmove(pass->sent + i * count, pass->sent + i * RANK_BIAS_PARTS * head_floats(pass),
                    count * sizeof *pass->sent);
        }
    }
    clear_behind_rows(pass, &row);
    exchange(pass, &row, pass->received);
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
    const heads_row output = output_row(pass);
    exchange_qkv(pass);
    rank_attention args = own_attention(pass);
    args.out = pass->sent;
    pass->backend->attention(pass->queue, &args);
    clear_behind_rows(pass, &output);
    exchange(pass, &output, pass->received);
    take_rows(pass, (row_chunk){0, pass->rows->count}, &output, pass->block.attention);
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
    const heads_row output = output_row(pass);
    exchange_rows(pass, pass->dattention, &output, pass->received);
    rank_attention args = own_attention(pass);
    args.dout = pass->received;
    args.dqkv = pass->sent;
    args.dbias = pass->no_bias_grad;
    if (args.dbias == NULL) {
        memset(pass->head_bias_grad, 0,
               RANK_BIAS_PARTS * head_floats(pass) * sizeof *pass->head_bias_grad);
        args.dbias = pass->head_bias_grad;
    }
    pass->backend->attention_grad(pass->queue, &args);
    exchange_dqkv(pass);
    if (args.dbias == pass->head_bias_grad) {
        put_bias_grad(pass);
    }
}
