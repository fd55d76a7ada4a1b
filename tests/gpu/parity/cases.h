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
} parity_case;

extern const parity_case parity_rows_cases[];      /* norms, embeddings, moves; NULL ends each */
extern const parity_case parity_product_cases[];   /* products and packing */
extern const parity_case parity_attention_cases[]; /* attention of both kinds */
extern const parity_case parity_step_cases[];      /* loss, optimizer, digests */

extern const parity_case parity_bfloat16_cases[]; /* operations with bfloat16, where they are */
/* Of decoding over a cache in bfloat16: in attention.c. */
void parity_attention_bfloat16(twin *t);

extern const parity_case parity_model_cases[]; /* training and answers */

/* The file that `generating` reads. The sources' own; a program elsewhere sets another. */
extern const char *parity_tokenizer;

enum { PARITY_SHAPES = 12, PARITY_TEXT_BYTES = 160 };

/* For each side: its backend's operation on the arrays of that side. `side` is declared. */
#define ON_BOTH(t, operation, ...)                                                                 \
    for (int side = 0; side < TWIN_SIDES; side++) {                                                \
        const rank_device *on_device = &(t)->device[side];                                         \
        on_device->backend->operation(on_device->queue, __VA_ARGS__);                              \
    }

#endif
