/* Dropout (Srivastava et al. 2014): the argument of the backend's `dropout`, and how its masks are drawn.
 * Included by backend.h and by the CPU's kernels.
 *
 * An element is kept and multiplied with `scale`, or becomes 0. Which of both is a function of where it stands,
 * and of nothing that was computed before: so forward, the same computed again, and backward draw the same mask,
 * and nobody stores one. The function is Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as
 * 1, 2, 3"), which makes four words of 32 bits of a counter of four words and a key of two:
 *
 *     counter = (token · 4096 + call, site, step, step >> 32)
 *     key     = (seed, seed >> 32)
 *
 * A call of it serves four columns: call c of a row has those that are c / 16 · 64 + c % 16, and 16, 32 and 48
 * behind it. So neighbouring calls have neighbouring columns, and registers of any width take them as they come.
 * Element j of a row is dropped if its word is less than `below`, which is P · 2^32. */
#ifndef RANK_BACKEND_DROPOUT_H
#define RANK_BACKEND_DROPOUT_H

#include <stddef.h>
#include <stdint.h>

enum {
    RANK_DROPOUT_WIDTH_MAX = 1 << 14,
    RANK_DROPOUT_TOKENS_MAX = 1 << 20,
    RANK_DROPOUT_ROW_CALLS = RANK_DROPOUT_WIDTH_MAX / 4, /* counters of a token */
};

/* to = from + bias where it is kept, times scale; 0 elsewhere. */
typedef struct rank_dropout {
    size_t rows;
    size_t width;
    const float *from;     /* (rows, C) */
    const float *bias;     /* (C); NULL: none */
    float *to;             /* (rows, C); may be from */
    const int32_t *tokens; /* (rows): each row's token; NULL: 0, 1, 2 … */
    size_t first_token;    /* is added to these */
    uint32_t site;         /* what else tells masks of a step apart */
    uint64_t step;
    uint64_t seed;
    uint32_t below;
    float scale;
} rank_dropout;

#endif
