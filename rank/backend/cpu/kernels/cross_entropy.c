/* Softmax cross entropy of rows of logits, whose gradient replaces them. Compiled once per
 * instruction set; a model's head calls it through the backend. */
#include <math.h>
#include <string.h>

#include "backend/cpu/softmax.h"
#include "kernels_isa.h"

/* logits = exp(logits - largest); returns their sum, of which each leaf has its own, added up as a balanced binary
 * tree: as in product.c. */
static float leaf_exponentials(const rank_cross_entropy *args, float *logits, float largest)
{
    const size_t count = args->vocab_size;
    float waiting[RANK_LEAVES_MAX];
    size_t waits = 0;
    if (args->leaves <= 1) {
        return softmax_exponentials(logits, count, largest, false);
    }
    for (size_t leaf = 0; leaf < (size_t)args->leaves; leaf++) {
        const size_t begin = leaf * args->leaf_columns;
        const size_t first = begin < count ? begin : count;
        const size_t left = count - first;
        waiting[waits++] = softmax_exponentials(
            logits + first, left < args->leaf_columns ? left : args->leaf_columns, largest, false);
        for (size_t carry = leaf; carry % 2 == 1; carry /= 2, waits--) {
            waiting[waits - 2] += waiting[waits - 1];
        }
    }
    return waiting[0];
}

/* Whether a row's target is one of these columns. */
static bool has_target(const rank_cross_entropy *args, size_t row, size_t *column)
{
    *column = (size_t)(args->targets[row] - args->shared.first_id);
    return args->targets[row] >= args->shared.first_id && *column < args->vocab_size;
}

static void begin_sum(const rank_cross_entropy *args, size_t row, float *logits, float largest)
{
    size_t target = 0;
    const bool here = has_target(args, row, &target);
    args->shared.target[row] = here ? logits[target] : 0.0f; /* before it is an exponential */
    args->shared.sum[row] = leaf_exponentials(args, logits, largest);
}

/* Returns the row's loss. */
static double finish_row(const rank_cross_entropy *args, size_t row, float *logits, float largest)
{
    const float sum = args->shared.sum[row];
    const float scale = 1.0f / sum;
    size_t target = 0;
    for (size_t j = 0; args->want_gradient && j < args->vocab_size; j += VEC_LANES) {
        const size_t left = args->vocab_size - j;
        vec_store(logits + j, vec_load(logits + j, left) * scale, left);
    }
    if (args->want_gradient && has_target(args, row, &target)) {
        logits[target] -= 1.0f;
    }
    return log((double)sum) + ((double)largest - (double)args->shared.target[row]);
}

/* All of a row that has a target. Returns its loss. */
static double do_row(const rank_cross_entropy *args, size_t row, float *logits)
{
    float sum = 0.0f;
    float target = 0.0f;
    rank_cross_entropy one = *args;
    const float largest = softmax_largest(logits, args->vocab_size, false);
    one.targets += row;
    one.shared = (rank_loss_shared){.sum = &sum, .target = &target};
    begin_sum(&one, 0, logits, largest);
    return finish_row(&one, 0, logits, largest);
}

/* A row without a target. What ranks exchange of it is zero. */
static void skip_row(const rank_cross_entropy *args, size_t row, float *logits)
{
    if (args->shared.step == RANK_LOSS_LARGEST) {
        args->shared.largest[row] = 0.0f;
    } else if (args->shared.step == RANK_LOSS_SUM) {
        args->shared.sum[row] = 0.0f;
        args->shared.target[row] = 0.0f;
    } else if (args->want_gradient) {
        memset(logits, 0, args->vocab_size * sizeof *logits);
    }
}

void KERNEL(cross_entropy)(const rank_cross_entropy *args)
{
    const rank_loss_shared *shared = &args->shared;
    double loss_sum = *args->loss; /* row by row, however many rows come at once */
    for (size_t row = 0; row < args->rows; row++) {
        float *logits = args->logits + row * rank_logit_row(args);
        if (args->targets[row] < 0) {
            skip_row(args, row, logits);
        } else if (shared->step == RANK_LOSS_WHOLE) {
            loss_sum += do_row(args, row, logits);
        } else if (shared->step == RANK_LOSS_LARGEST) {
            shared->largest[row] = softmax_largest(logits, args->vocab_size, false);
        } else if (shared->step == RANK_LOSS_SUM) {
            begin_sum(args, row, logits, shared->largest[row]);
        } else {
            loss_sum += finish_row(args, row, logits, shared->largest[row]);
        }
    }
    *args->loss = loss_sum;
}
