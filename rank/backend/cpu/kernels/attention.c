/* Causal attention of one head of one segment at a time, in scratch that stays in the nearest
 * caches.
 *
 * A segment's q, k, v (n, D) are copied together, rows padded with zeros to `rows` (a multiple of
 * 16) and columns to `width` (the same). Query rows go in blocks of QUERY_BLOCK, so that the scores
 * need QUERY_BLOCK × n floats, not n × n. Every product works on tiles of TILE_ROWS × 1 or 2
 * vectors held in registers, and leaves out what the causal mask makes zero: row i of the scores is
 * computed up to the 16 columns that hold column i, the rest is never read. With a window a tile
 * begins at the 16 columns that hold the first one which any of its rows sees.
 *
 * What forward computes for a query row is the chain that attention_cached.c describes, so training
 * has the bits of decoding. Zeros around a head, right of the diagonal, and before a window, do not
 * change it.
 *
 * Backward computes the probabilities again from the row's maximum and the sum's inverse that
 * forward kept. Each element of a product is one chain of fused multiply-adds over its depth, in
 * order. */
#include "backend/cpu/softmax.h"
#include "backend/cpu/transpose.h"
#include "base/bytes.h"
#include "kernels_isa.h"

#if VEC_LANES == 16
#define TILE_ROWS 8
#else
#define TILE_ROWS 4
#endif

enum { PAD = VEC_SUM_LANES, QUERY_BLOCK = 64 };

static size_t pad_up(size_t n)
{
    return (n + PAD - 1) / PAD * PAD;
}

/* One head of one segment. Arrays are in args->scratch. */
typedef struct head {
    size_t count;      /* n: tokens of the segment */
    size_t rows;       /* n padded: also the stride of scores and of transposed arrays */
    size_t head_width; /* D */
    size_t width;      /* D padded: the stride of the arrays below */
    size_t window;     /* columns that a row sees at most; without one more than there are */
    float scale;       /* of scores, folded into q */
    float *q, *k, *v;  /* (rows, width) */
    float *kt, *vt;    /* (width, rows): transposed */
    float *dout;       /* (rows, width) */
    float *dq, *dk, *dv;
    float *p;  /* (QUERY_BLOCK, rows): scores, then probabilities */
    float *dp; /* the same for their gradients */
} head;

enum { HEAD_ARRAYS = 9 };

size_t KERNEL(attention_scratch)(size_t head_width, size_t segment_max)
{
    const size_t rows = pad_up(segment_max);
    return HEAD_ARRAYS * rows * pad_up(head_width) + 2 * QUERY_BLOCK * rows + PAD;
}

static head head_make(const rank_attention *args)
{
    const size_t head_width = args->width / args->heads;
    head h = {.head_width = head_width, .width = pad_up(head_width)};
    h.window = args->window > 0 ? args->window : SIZE_MAX / 2;
    h.scale = args->scale > 0.0f ? args->scale : 1.0f / __builtin_sqrtf((float)head_width);
    float **arrays[HEAD_ARRAYS] = {&h.q, &h.k, &h.v, &h.kt, &h.vt, &h.dout, &h.dq, &h.dk, &h.dv};
    const size_t rows = pad_up(args->segment_max);
    float *next = args->scratch;
    for (size_t i = 0; i < HEAD_ARRAYS; i++) {
        *arrays[i] = next;
        next += rows * h.width;
    }
    h.p = next;
    h.dp = next + QUERY_BLOCK * rows;
    return h;
}

/* The first column that a row sees, */
static size_t first_seen(const head *h, size_t row)
{
    return row + 1 > h->window ? row + 1 - h->window : 0;
}

/* and where the scores of its tile begin. */
static size_t tile_begin(const head *h, size_t row)
{
    return first_seen(h, row / TILE_ROWS * TILE_ROWS) / PAD * PAD;
}

/* c (TILE_ROWS, vectors) = or += the product of a and b over `depth`. Element (r, d) of a is
 * a[r·a_row + d·a_step]; row d of b is at b + d·b_step. */
typedef struct product {
    const float *a;
    size_t a_row;
    size_t a_step;
    const float *b;
    size_t b_step;
    float *c;
    size_t c_row;
} product;

VEC_INLINE void tile(product t, size_t depth, int add, const int vectors)
{
    vec sum[TILE_ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = add ? vec_get(t.c + (size_t)r * t.c_row + v * VEC_LANES) : vec_set(0.0f);
        }
    }
    for (size_t d = 0; d < depth; d++) {
        const vec b0 = vec_get(t.b + d * t.b_step);
        const vec b1 = vectors > 1 ? vec_get(t.b + d * t.b_step + VEC_LANES) : b0;
#pragma GCC unroll 8
        for (int r = 0; r < TILE_ROWS; r++) {
            const vec a = vec_set(t.a[(size_t)r * t.a_row + d * t.a_step]);
            sum[r][0] = vec_fma(a, b0, sum[r][0]);
            if (vectors > 1) {
                sum[r][1] = vec_fma(a, b1, sum[r][1]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            vec_put(t.c + (size_t)r * t.c_row + v * VEC_LANES, sum[r][v]);
        }
    }
}

/* A row of tiles, `columns` wide (a multiple of 16). */
static void tile_row(product t, size_t depth, int add, size_t columns)
{
    size_t j = 0;
    for (; j + 2 * VEC_LANES <= columns; j += 2 * VEC_LANES) {
        product at = t;
        at.b += j;
        at.c += j;
        tile(at, depth, add, 2);
    }
    if (j < columns) {
        t.b += j;
        t.c += j;
        tile(t, depth, add, 1);
    }
}

/* scores (block, rows) = a·bt for the query rows first … first + block, left of the diagonal. */
static void causal_scores(const head *h, const float *a, const float *bt, size_t first,
                          float *scores)
{
    const size_t block = base_min_size(QUERY_BLOCK, h->rows - first);
    for (size_t i = 0; i < block; i += TILE_ROWS) {
        const size_t begin = tile_begin(h, first + i);
        const product t = {.a = a + (first + i) * h->width,
                           .a_row = h->width,
                           .a_step = 1,
                           .b = bt + begin,
                           .b_step = h->rows,
                           .c = scores + i * h->rows + begin,
                           .c_row = h->rows};
        tile_row(t, h->width, 0, pad_up(first + i + TILE_ROWS) - begin);
    }
}

/* out (rows first …, width) = scores · b, over the columns left of the diagonal. */
static void causal_rows(const head *h, const float *scores, const float *b, size_t first,
                        float *out)
{
    const size_t block = base_min_size(QUERY_BLOCK, h->rows - first);
    for (size_t i = 0; i < block; i += TILE_ROWS) {
        const size_t begin = tile_begin(h, first + i);
        const product t = {.a = scores + i * h->rows + begin,
                           .a_row = h->rows,
                           .a_step = 1,
                           .b = b + begin * h->width,
                           .b_step = h->width,
                           .c = out + (first + i) * h->width,
                           .c_row = h->width};
        tile_row(t, first + i + TILE_ROWS - begin, 0, h->width);
    }
}

/* out (the rows that this block sees, width) += scoresᵀ · b, over the rows below the diagonal that see one of a tile's
 * columns. */
static void causal_columns(const head *h, const float *scores, const float *b, size_t first,
                           float *out)
{
    const size_t block = base_min_size(QUERY_BLOCK, h->rows - first);
    const size_t begin = first_seen(h, first) / TILE_ROWS * TILE_ROWS;
    for (size_t j = begin; j < first + block; j += TILE_ROWS) {
        const size_t from = j > first ? j - first : 0;
        const size_t end = base_min_size(block, j + TILE_ROWS - 1 + h->window - first);
        const product t = {.a = scores + from * h->rows + j,
                           .a_row = 1,
                           .a_step = h->rows,
                           .b = b + (first + from) * h->width,
                           .b_step = h->width,
                           .c = out + j * h->width,
                           .c_row = h->width};
        tile_row(t, end - from, 1, h->width);
    }
}

/* to (rows, width) = (from (n, D) + bias) · factor, zeros around it. No bias: NULL. */
static void gather(const head *h, const float *from, size_t from_row, const float *bias,
                   float factor, float *to)
{
    const size_t width = h->width;
    const size_t head_width = h->head_width;
    const size_t count = h->count;
    for (size_t j = 0; j < width; j += VEC_LANES) {
        const size_t left = j < head_width ? head_width - j : 0;
        const vec add = bias != NULL ? vec_load(bias + j, left) : vec_set(0.0f);
        for (size_t i = 0; i < count; i++) {
            const vec x = vec_load(from + i * from_row + j, left);
            vec_put(to + i * width + j, (x + add) * factor);
        }
    }
    memset(to + h->count * h->width, 0, (h->rows - h->count) * h->width * sizeof *to);
}

static void transpose(const head *h, const float *from, float *to)
{
    for (size_t j = 0; j < h->width; j += VEC_LANES) {
        for (size_t i = 0; i < h->rows; i += VEC_LANES) {
            vec_transpose(from + i * h->width + j, h->width, to + j * h->rows + i, h->rows);
        }
    }
}

/* to (n, D) = from · factor, and its column sums are added to sums. */
static void scatter(const head *h, const float *from, float factor, float *to, size_t to_row,
                    float *sums)
{
    for (size_t j = 0; j < h->head_width; j += VEC_LANES) {
        const size_t left = h->head_width - j;
        vec sum = vec_set(0.0f);
        for (size_t i = 0; i < h->count; i++) {
            const vec x = vec_get(from + i * h->width + j) * factor;
            vec_store(to + i * to_row + j, x, left);
            sum += x;
        }
        vec_store(sums + j, vec_load(sums + j, left) + sum, left);
    }
}

/* Scores of row i become their probabilities, zero right of the diagonal up to the padding, and before the first
 * column that is seen. */
static void row_probabilities(const head *h, float *row, size_t i, float largest, float factor)
{
    const size_t seen = first_seen(h, i);
    for (size_t j = tile_begin(h, i); j < pad_up(i + 1); j += VEC_LANES) {
        vec e = vec_exp(vec_get(row + j) - largest) * factor;
        if (j + VEC_LANES > i + 1) {
            e = vec_select(vec_first_lanes(j > i ? 0 : i + 1 - j), e, vec_set(0.0f));
        }
        if (j < seen) {
            e = vec_select(vec_first_lanes(base_min_size(seen - j, VEC_LANES)), vec_set(0.0f), e);
        }
        vec_put(row + j, e);
    }
}

static void clear_rows(const head *h, float *scores, size_t first)
{
    const size_t block = base_min_size(QUERY_BLOCK, h->rows - first);
    for (size_t i = 0; i < block; i++) {
        if (first + i >= h->count) {
            memset(scores + i * h->rows, 0, pad_up(first + i + 1) * sizeof *scores);
        }
    }
}

/* Scores of row i become exponentials, zero in the rest of its tile. Returns their sum. */
static float row_exponentials(const head *h, float *row, size_t i, float *largest)
{
    const size_t seen = first_seen(h, i);
    const size_t end = i + 1;
    const size_t begin = tile_begin(h, i);
    if (seen == 0) {
        *largest = softmax_largest(row, end, true);
        return softmax_exponentials(row, end, *largest, true);
    }
    *largest = softmax_largest(row + seen, end - seen, false);
    memset(row + begin, 0, (seen - begin) * sizeof *row);
    memset(row + end, 0, (pad_up(end) - end) * sizeof *row);
    return softmax_exponentials(row + seen, end - seen, *largest, false);
}

static void softmax_rows(const rank_attention *args, const head *h, size_t token, size_t which,
                         size_t first)
{
    const size_t block = base_min_size(QUERY_BLOCK, h->count - first);
    for (size_t i = 0; i < block; i++) {
        const size_t at = (token + first + i) * args->heads + which;
        args->row_scale[at] =
            1.0f / row_exponentials(h, h->p + i * h->rows, first + i, &args->row_max[at]);
    }
    clear_rows(h, h->p, first);
}

/* p becomes the probabilities again, dp the gradient of the scores: p·(dp - sum(p·dp)). */
static void softmax_rows_grad(const rank_attention *args, const head *h, size_t token, size_t which,
                              size_t first)
{
    const size_t block = base_min_size(QUERY_BLOCK, h->count - first);
    for (size_t i = 0; i < block; i++) {
        float *p = h->p + i * h->rows;
        float *dp = h->dp + i * h->rows;
        const size_t begin = tile_begin(h, first + i);
        const size_t end = pad_up(first + i + 1);
        const size_t at = (token + first + i) * args->heads + which;
        row_probabilities(h, p, first + i, args->row_max[at], args->row_scale[at]);
        const float mean = vec_dot(p + begin, dp + begin, end - begin);
        for (size_t j = begin; j < end; j += VEC_LANES) {
            vec_put(dp + j, vec_get(p + j) * (vec_get(dp + j) - mean));
        }
    }
    clear_rows(h, h->p, first);
    clear_rows(h, h->dp, first);
}

static void gather_qkv(const rank_attention *args, const head *h, size_t token, size_t which)
{
    const size_t width = args->width;
    const size_t column = which * h->head_width;
    const float *q = (const float *)args->qkv + token * 3 * width + column;
    const float *bias = args->bias + column;
    gather(h, q, 3 * width, bias, h->scale, h->q);
    gather(h, q + width, 3 * width, bias + width, 1.0f, h->k);
    gather(h, q + 2 * width, 3 * width, bias + 2 * width, 1.0f, h->v);
}

/* The sums of all rows, each divided by the sum of its exponentials, become the output. */
static void scale_rows(const rank_attention *args, const head *h, size_t token, size_t which)
{
    float *out = (float *)args->out + token * args->width + which * h->head_width;
    for (size_t i = 0; i < h->count; i++, out += args->width) {
        const float scale = args->row_scale[(token + i) * args->heads + which];
        for (size_t j = 0; j < h->head_width; j += VEC_LANES) {
            vec_store(out + j, vec_get(h->dq + i * h->width + j) * scale, h->head_width - j);
        }
    }
}

static void forward_head(const rank_attention *args, head *h, size_t token, size_t which)
{
    gather_qkv(args, h, token, which);
    transpose(h, h->k, h->kt);
    for (size_t first = 0; first < h->rows; first += QUERY_BLOCK) {
        causal_scores(h, h->q, h->kt, first, h->p);
        softmax_rows(args, h, token, which, first);
        causal_rows(h, h->p, h->v, first, h->dq);
    }
    scale_rows(args, h, token, which);
}

static void backward_head(const rank_attention *args, head *h, size_t token, size_t which)
{
    const size_t stride = 3 * args->width;
    const size_t column = which * h->head_width;
    gather_qkv(args, h, token, which);
    gather(h, args->dout + token * args->width + column, args->width, NULL, 1.0f, h->dout);
    transpose(h, h->k, h->kt);
    transpose(h, h->v, h->vt);
    memset(h->dk, 0, h->rows * h->width * sizeof *h->dk);
    memset(h->dv, 0, h->rows * h->width * sizeof *h->dv);
    for (size_t first = 0; first < h->rows; first += QUERY_BLOCK) {
        causal_scores(h, h->q, h->kt, first, h->p);
        causal_scores(h, h->dout, h->vt, first, h->dp);
        softmax_rows_grad(args, h, token, which, first);
        causal_rows(h, h->dp, h->k, first, h->dq);
        causal_columns(h, h->dp, h->q, first, h->dk);
        causal_columns(h, h->p, h->dout, first, h->dv);
    }
    float *dq = (float *)args->dqkv + (token - args->dqkv_first) * stride + column;
    float *dbias = args->dbias + column;
    scatter(h, h->dq, h->scale, dq, stride, dbias);
    scatter(h, h->dk, 1.0f, dq + args->width, stride, dbias + args->width);
    scatter(h, h->dv, 1.0f, dq + 2 * args->width, stride, dbias + 2 * args->width);
}

/* Just the products of forward and backward. */
static void head_products(const rank_attention *args, head *h, size_t token, size_t which)
{
    (void)args;
    (void)token;
    (void)which;
    for (size_t first = 0; first < h->rows; first += QUERY_BLOCK) {
        causal_scores(h, h->q, h->kt, first, h->p);
        causal_rows(h, h->p, h->v, first, h->dq);
        causal_scores(h, h->q, h->kt, first, h->p);
        causal_scores(h, h->dout, h->vt, first, h->dp);
        causal_rows(h, h->dp, h->k, first, h->dq);
        causal_columns(h, h->dp, h->q, first, h->dk);
        causal_columns(h, h->p, h->dout, first, h->dv);
    }
}

typedef void (*head_step)(const rank_attention *args, head *h, size_t token, size_t which);

static void each_head(const rank_attention *args, head_step step)
{
    head h = head_make(args);
    for (size_t s = 0; s < args->segment_count; s++) {
        const size_t token = (size_t)args->segment_start[s];
        h.count = (size_t)args->segment_start[s + 1] - token;
        h.rows = pad_up(h.count);
        for (size_t which = 0; which < args->heads; which++) {
            step(args, &h, token, which);
        }
    }
}

void KERNEL(attention)(const rank_attention *args)
{
    each_head(args, forward_head);
}

void KERNEL(attention_grad)(const rank_attention *args)
{
    each_head(args, backward_head);
}

void KERNEL(attention_products)(const rank_attention *args)
{
    each_head(args, head_products);
}
