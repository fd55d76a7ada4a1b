/* Where a step's time goes, for rank-bench: every stretch of a step is booked under one part. Costs
 * one reading of the clock per part while a profile is attached, and nothing else. */
#ifndef RANK_MODEL_PROFILE_H
#define RANK_MODEL_PROFILE_H

#include <stdint.h>

#include "rank/model.h"

typedef enum rank_part {
    RANK_PART_EMBED,
    RANK_PART_LAYERNORM,
    RANK_PART_ATTENTION,
    RANK_PART_GELU,
    RANK_PART_CROSS_ENTROPY,
    RANK_PART_MATMUL_FORWARD, /* y = x·W */
    RANK_PART_MATMUL_DX,      /* dx = dy·Wᵀ */
    RANK_PART_MATMUL_DW,      /* dW = xᵀ·dy */
    RANK_PART_TRANSPOSE,
    RANK_PART_LAYERNORM_GRAD,
    RANK_PART_ATTENTION_GRAD,
    RANK_PART_GELU_GRAD,
    RANK_PART_EMBED_GRAD,
    RANK_PART_COUNT,
} rank_part;

typedef struct rank_profile {
    int64_t ns[RANK_PART_COUNT];
    int64_t last_ns; /* the end of the last stretch */
} rank_profile;

const char *rank_part_name(rank_part part);

/* Attaches a zeroed profile, or NULL. */
void rank_model_set_profile(rank_model *model, rank_profile *profile);

/* The stretch that ends now was `part`. */
void rank_profile_book(rank_profile *profile, rank_part part);

#endif
