/* The parity cases: each runs an operation on both sides of a twin, for random shapes. */
#ifndef GPU_PARITY_CASES_H
#define GPU_PARITY_CASES_H

#include "twin.h"

typedef struct parity_case {
    const char *name;
    void (*run)(twin *t);
    int shapes;     /* how many are tried; 0: PARITY_SHAPES */
    bool one_order; /* other cases try its kernels in several orders of threads */
    bool replays;   /* a graph, on a device that has them */
    bool
        tiles; /* so many heads that tiles are others; the exact backend has a block for each row instead */
} parity_case;

extern const parity_case parity_norm_cases[];      /* norms; NULL ends each */
extern const parity_case parity_rows_cases[];      /* embeddings, moves */
extern const parity_case parity_product_cases[];   /* products and packing */
extern const parity_case parity_attention_cases[]; /* attention of both kinds */
extern const parity_case parity_step_cases[];      /* loss, optimizer, digests */

extern const parity_case parity_mma_cases[];      /* fragments of tensor cores */
extern const parity_case parity_bfloat16_cases[]; /* operations with bfloat16, where they are */
extern const parity_case parity_bfloat16_model_cases[];
extern const parity_case parity_model_cases[]; /* training and answers */

/* Up to `most`, or as wide as models are: those that fit in the registers of a warp, and not. */
size_t parity_width(twin *t, size_t most);

/* The file that `generating` reads. The sources' own; a program elsewhere sets another. */
extern const char *parity_tokenizer;

/* Cases of bfloat16 that share code with those of float32. */
void parity_attention_bfloat16(twin *t);
void parity_attention_tiles_bfloat16(twin *t);
void parity_attention_long_bfloat16(twin *t);
void parity_attention_cached_bfloat16(twin *t);
void parity_layernorm_bfloat16(twin *t);
void parity_gelu_bfloat16(twin *t);
void parity_layernorm_grad_bfloat16(twin *t);
void parity_cross_entropy_bfloat16(twin *t);
void parity_optimizer_bfloat16(twin *t);

/* Tolerances of bfloat16, relative to 1 + |expected|. A value has eight bits: 2^-8 is what one
 * rounding may change, and twice that what it may change where a sum differs, too. */
#define PARITY_ROUNDED         0x1p-7
#define PARITY_ROUNDED_FACTORS 0x1p-6 /* sums of products of two such values */
#define PARITY_ROUNDED_SUM     0x1p-5 /* a sum of some hundred such values */

enum { PARITY_SHAPES = 12, PARITY_TEXT_BYTES = 160 };

/* For each side: its backend's operation on the arrays of that side. `side` is declared. */
#define ON_BOTH(t, operation, ...)                                                                 \
    for (int side = 0; side < TWIN_SIDES; side++) {                                                \
        const rank_device *on_device = &(t)->device[side];                                         \
        on_device->backend->operation(on_device->queue, __VA_ARGS__);                              \
    }

#endif
