/* A small model with parameters of some size, and batches for it. */
#ifndef TEST_TINY_H
#define TEST_TINY_H

#include "rank/model.h"

enum { TINY_TOKENS_MAX = 96, TINY_SEGMENTS_MAX = 16 };

typedef struct tiny {
    rank_model_config config;
    rank_device device;
    rank_model *model;
    rank_hooks hooks; /* params, and nobody to tell */
    float *params;
    float *grads; /* NAN before each tiny_train */
    size_t param_count;
    int32_t ids[TINY_TOKENS_MAX];
    int32_t targets[TINY_TOKENS_MAX];
    int32_t segments[TINY_SEGMENTS_MAX + 1];
    rank_batch batch;
} tiny;

void tiny_open(tiny *t);
void tiny_close(tiny *t);

/* Tokens and targets, every one with a target, in segments of the given lengths (0 ends). */
void tiny_fill(tiny *t, const int *lengths, uint64_t seed);

/* Forward and backward, no callback; the sum of the losses. */
double tiny_train(tiny *t);

/* The largest |a - b| / the largest |b|. */
double tiny_difference(const float *a, const float *b, size_t count);

#endif
