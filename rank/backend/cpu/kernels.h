/* The CPU kernels: everything of the model and the optimizer that is not a matrix product.
 *
 * The same source is compiled once per instruction set; rank_kernels_get gives the best table for
 * this CPU, or the one that RINGFENCE_ISA=baseline|avx2|avx512 asks for. Arithmetic is in a fixed
 * order, without contraction except in the attention products (which are matrix kernels). The
 * element-wise kernels and the optimizer give the same bits on every instruction set; reductions
 * differ in the last places with the number of lanes.
 *
 * Arrays are row-major float32 without padding, in the caller's storage, at any alignment. Kernels
 * keep no state and may run in several threads on different arrays. T, C, V, L, H as in
 * rank/model.h; F = 4C. */
#ifndef RANK_BACKEND_CPU_KERNELS_H
#define RANK_BACKEND_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "rank/optim.h"

/* out (T, C) = wte[ids] + wpe[positions] */
typedef struct rank_embed {
    size_t tokens;
    size_t width;
    const int32_t *ids;       /* (T) */
    const int32_t *positions; /* (T) */
    const float *wte;         /* (V, C) */
    const float *wpe;         /* (context, C) */
    float *out;               /* (T, C) */
} rank_embed;

/* dwte[ids] += dx, dwpe[positions] += dx, in token order. */
typedef struct rank_embed_grad {
    size_t tokens;
    size_t width;
    const int32_t *ids;
    const int32_t *positions;
    const float *dx; /* (T, C) */
    float *dwte;     /* (V, C), added to */
    float *dwpe;     /* (context, C), added to */
} rank_embed_grad;

/* Residual and layer norm in one pass: x += residual + residual_bias, then
 * out = (x - mean(x)) · rstd(x) · weight + bias, row by row, epsilon 1e-5. */
typedef struct rank_layernorm {
    size_t rows;
    size_t width;
    float *x;                     /* (rows, C); changed only with a residual */
    const float *residual;        /* (…, C) or NULL */
    const float *residual_bias;   /* (C), with residual */
    const int32_t *residual_rows; /* (rows): the row of residual for each row; NULL: the same */
    const float *weight;          /* (C) */
    const float *bias;            /* (C) */
    float *out;                   /* (rows, C); NULL: only x is made */
    float *mean;                  /* (rows) */
    float *rstd;                  /* (rows) */
} rank_layernorm;

/* dx = (keep ? dx : 0) + the layer norm's backward of dout. */
typedef struct rank_layernorm_grad {
    size_t rows;
    size_t width;
    int keep;
    const float *x;    /* (rows, C) */
    const float *mean; /* (rows) */
    const float *rstd; /* (rows) */
    const float *weight;
    const float *dout; /* (rows, C) */
    float *dx;         /* (rows, C) */
    float *dweight;    /* (C), added to */
    float *dbias;      /* (C), added to */
    float *dx_sum;     /* (C), the column sums of dx are added; or NULL */
} rank_layernorm_grad;

/* x += bias; out = gelu(x), the tanh form. */
typedef struct rank_gelu {
    size_t rows;
    size_t width;
    const float *bias; /* (F) */
    float *x;          /* (rows, F) */
    float *out;        /* (rows, F) */
} rank_gelu;

/* d *= gelu'(x), x = gelu(x), dbias += the column sums of d. */
typedef struct rank_gelu_grad {
    size_t rows;
    size_t width;
    float *x;     /* (rows, F) */
    float *d;     /* (rows, F) */
    float *dbias; /* (F), added to */
} rank_gelu_grad;

/* Softmax and cross entropy of rows that all have a target. */
typedef struct rank_cross_entropy {
    size_t rows;
    size_t vocab_size;
    const int32_t *targets; /* (rows) */
    float *logits;          /* (rows, V); becomes the gradient of the loss sum with want_gradient */
    int want_gradient;
} rank_cross_entropy;

/* Causal attention of flat tokens that are cut into segments. */
typedef struct rank_attention {
    size_t width;
    size_t heads;
    size_t segment_count;
    const int32_t *segment_start; /* (segment_count + 1) */
    size_t segment_max;           /* no segment is longer; the scratch is made for it */
    const float *qkv;             /* (T, 3C): q, k and v, without bias */
    const float *bias;            /* (3C) */
    float *out;                   /* (T, C), written by forward */
    float *row_max;               /* (T, H), written by forward, read by backward */
    float *row_scale;             /* (T, H), the same: 1 / the sum of the exponentials */
    const float *dout;            /* (T, C), for backward */
    float *dqkv;                  /* (…, 3C), written by backward */
    size_t dqkv_first;            /* the token of dqkv's first row */
    float *dbias;                 /* (3C), added to by backward */
    float *scratch;               /* rank_kernels.attention_scratch floats */
} rank_attention;

/* to (columns, rows) = the transpose of from (rows, columns). */
typedef struct rank_transpose {
    size_t rows;
    size_t columns;
    const float *from;
    float *to;
} rank_transpose;

typedef struct rank_adamw_range {
    int64_t step; /* from 1 */
    int decay;
    float grad_scale;
    size_t count;
    float *params;
    const float *grads;
    float *first;
    float *second;
} rank_adamw_range;

typedef struct rank_kernels {
    const char *name; /* "avx512", "avx2", "baseline" */
    void (*embed)(const rank_embed *args);
    void (*embed_grad)(const rank_embed_grad *args);
    void (*layernorm)(const rank_layernorm *args);
    void (*layernorm_grad)(const rank_layernorm_grad *args);
    void (*gelu)(const rank_gelu *args);
    void (*gelu_grad)(const rank_gelu_grad *args);
    /* Returns the sum of the rows' losses, natural logarithm. */
    double (*cross_entropy)(const rank_cross_entropy *args);
    /* Floats of scratch that segments of at most segment_max tokens need. */
    size_t (*attention_scratch)(size_t head_width, size_t segment_max);
    void (*attention)(const rank_attention *args);
    void (*attention_grad)(const rank_attention *args);
    /* For benchmarks: the matrix products of both, and nothing else. The results mean nothing. */
    void (*attention_products)(const rank_attention *args);
    void (*transpose)(const rank_transpose *args);
    void (*adamw)(const rank_adamw_config *config, const rank_adamw_range *range);
    double (*sum_of_squares)(const float *values, size_t count);
    void (*exp)(float *values, size_t count); /* in place; for tests of the approximation */
} rank_kernels;

/* The table by name, or NULL if there is no such name or this CPU cannot run it. */
const rank_kernels *rank_kernels_named(const char *name);

/* The table of this process: RINGFENCE_ISA if it is set, else the best. Chosen once. Never NULL;
 * what is wrong with RINGFENCE_ISA is told by rank_kernels_check (the best table is used then). */
const rank_kernels *rank_kernels_get(void);

/* BASE_ERR_INVALID if RINGFENCE_ISA names no table, BASE_ERR_UNSUPPORTED if this CPU cannot run it.
 */
BASE_MUST_CHECK base_status rank_kernels_check(base_error *reterr);

#endif
