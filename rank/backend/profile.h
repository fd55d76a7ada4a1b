/* Where a step's time goes, for rank-bench and for traces. A queue books every stretch of a step under the
 * operation that ends it. While a profile is attached, that costs one reading of the clock per
 * operation. */
#ifndef RANK_BACKEND_PROFILE_H
#define RANK_BACKEND_PROFILE_H

#include <stdint.h>

#include "backend/backend.h"
#include "trace/trace.h"

typedef enum rank_part {
    RANK_PART_EMBED,
    RANK_PART_LAYERNORM,
    RANK_PART_ATTENTION,
    RANK_PART_GELU,
    RANK_PART_CROSS_ENTROPY,
    RANK_PART_PRODUCT,
    RANK_PART_PRODUCT_DW,
    RANK_PART_PACK,
    RANK_PART_LAYERNORM_GRAD,
    RANK_PART_ATTENTION_GRAD,
    RANK_PART_GELU_GRAD,
    RANK_PART_EMBED_GRAD,
    RANK_PART_DROPOUT,
    RANK_PART_OPTIMIZER,
    RANK_PART_OTHER, /* copies, zeros, moved rows, sums */
    RANK_PART_COUNT,
} rank_part;

struct rank_profile {
    int64_t ns[RANK_PART_COUNT];
    int64_t last_ns;   /* the end of the last stretch */
    rank_trace *trace; /* gets every operation as a span of its own; NULL: none does */
};

const char *rank_part_name(rank_part part);

/* Books the stretch that ends now under `part`. The first call only begins. */
void rank_profile_book(rank_profile *profile, rank_part part);

#endif
