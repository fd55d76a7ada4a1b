/* Softmax cross entropy of rows of logits, whose gradient replaces them. Compiled once per
 * instruction set; a model's head calls it through the backend. */
#include <math.h>
#include <string.h>

#include "kernels_isa.h"

static float row_largest(const float *logits, size_t count)
{
    vec largest = vec_set(logits[0]);
    for (size_t j = 0; j < count; j += VEC_LANES) {
        const size_t left = count - j;
        vec x = vec_load(logits + j, left);
        if (left < VEC_LANES) {
            x = vec_select(vec_first_lanes(left), x, largest);
        }
        largest = vec_max(x, largest);
    }
    return vec_largest(largest);
}

/* logits = exp(logits - largest); returns their sum. */
static float row_exponentials(float *logits, size_t count, float largest)
{
    vec sum[VEC_SUM_PARTS];
    vec_sum_begin(sum);
    for (size_t first = 0; first < count; first += VEC_SUM_LANES) {
        VEC_EACH_PART
        {
            const size_t j = first + (size_t)v * VEC_LANES;
            const size_t left = vec_left(count, first, v);
            vec e = vec_exp(vec_load(logits + j, left) - largest);
            if (left < VEC_LANES) {
                e = vec_select(vec_first_lanes(left), e, vec_set(0.0f));
            }
            sum[v] += e;
            vec_store(logits + j, e, left);
        }
    }
    return vec_sum_end(sum);
}

void KERNEL(cross_entropy)(const rank_cross_entropy *args)
{
    const size_t count = args->vocab_size;
    double loss_sum = 0.0;
    for (size_t row = 0; row < args->rows; row++) {
        float *logits = args->logits + row * rank_logit_row(args);
        if (args->targets[row] < 0) {
            if (args->want_gradient) {
                memset(logits, 0, count * sizeof *logits);
            }
            continue;
        }
        const float target_logit = logits[args->targets[row]];
        const float largest = row_largest(logits, count);
        const float sum = row_exponentials(logits, count, largest);
        loss_sum += log((double)sum) + ((double)largest - (double)target_logit);
        if (!args->want_gradient) {
            continue;
        }
        const float scale = 1.0f / sum;
        for (size_t j = 0; j < count; j += VEC_LANES) {
            const size_t left = count - j;
            vec_store(logits + j, vec_load(logits + j, left) * scale, left);
        }
        logits[args->targets[row]] -= 1.0f;
    }
    *args->loss += loss_sum;
}
