/* The AdamW step. Compiled once per instruction set; optim/optimizer.c calls it through the
 * backend. */
#include <math.h>

#include "kernels_isa.h"

/* The step's constants in double, as PyTorch has them, each rounded once. */
typedef struct step_constants {
    float decay_factor;
    float one_minus_beta1;
    float beta2;
    float one_minus_beta2;
    float second_divisor; /* sqrt(1 - beta2^step) */
    float minus_step_size;
    float epsilon;
    float grad_scale;
} step_constants;

VEC_INLINE vec square_root(vec x)
{
    for (int i = 0; i < VEC_LANES; i++) {
        x[i] = __builtin_sqrtf(x[i]);
    }
    return x;
}

static step_constants make_constants(const rank_adamw *args, bool decay)
{
    const rank_adamw_config *config = args->config;
    const double rate = args->step->learning_rate;
    const double correction1 = 1.0 - pow(config->beta1, (double)args->step->step);
    const double correction2 = 1.0 - pow(config->beta2, (double)args->step->step);
    return (step_constants){
        .decay_factor = decay ? (float)(1.0 - rate * config->weight_decay) : 1.0f,
        .one_minus_beta1 = (float)(1.0 - config->beta1),
        .beta2 = (float)config->beta2,
        .one_minus_beta2 = (float)(1.0 - config->beta2),
        .second_divisor = (float)sqrt(correction2),
        .minus_step_size = (float)-(rate / correction1),
        .epsilon = (float)config->epsilon,
        .grad_scale = args->step->grad_scale,
    };
}

static void step_range(const rank_adamw *args, const step_constants *k, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i += VEC_LANES) {
        const size_t left = end - i;
        const vec grad = vec_load(args->grads + i, left) * k->grad_scale;
        vec first = vec_load(args->first + i, left);
        vec second = vec_load(args->second + i, left);
        first = first + (grad - first) * k->one_minus_beta1;
        second = second * k->beta2 + (grad * k->one_minus_beta2) * grad;
        const vec divisor = square_root(second) / k->second_divisor + k->epsilon;
        const vec param = vec_load(args->params + i, left) * k->decay_factor;
        vec_store(args->params + i, param + (first * k->minus_step_size) / divisor, left);
        vec_store(args->first + i, first, left);
        vec_store(args->second + i, second, left);
    }
}

void KERNEL(adamw)(const rank_adamw *args)
{
    const step_constants constants[2] = {make_constants(args, false), make_constants(args, true)};
    const size_t parts = args->ends != NULL ? args->parts : 1;
    size_t begin = 0;
    for (size_t part = 0; part < parts; part++) {
        const size_t end = args->ends != NULL ? args->ends[part] : args->count;
        step_range(args, &constants[args->decay != (part % 2 > 0)], begin, end);
        begin = end;
    }
}
