/* RMS norm with the residual added on the way, and its gradient: of rows, and of heads in rows. Compiled once per
 * instruction set; models call both through the backend. */
#include "kernels_isa.h"

/* What a norm multiplies by. */
VEC_INLINE vec factor_of(const float *weight, size_t left, bool one_more)
{
    const vec of = vec_load(weight, left);
    return one_more ? 1.0f + of : of;
}

void KERNEL(rmsnorm)(const rank_rmsnorm *args)
{
    const size_t width = args->width;
    const size_t count = rank_vector_count(&args->heads, args->rows);
    const bool one_more = args->one_more;
    for (size_t row = 0; row < count; row++) {
        const size_t at = rank_vector_at(&args->heads, row, width);
        float *x = args->x + at;
        const size_t from = args->residual_rows != NULL ? (size_t)args->residual_rows[row] : row;
        for (size_t j = 0; args->residual != NULL && j < width; j += VEC_LANES) {
            const size_t left = width - j;
            const vec residual = vec_load(args->residual + from * width + j, left);
            vec_store(x + j, vec_load(x + j, left) + residual, left);
        }
        if (args->out == NULL) {
            continue;
        }
        const float mean_square = vec_dot(x, x, width) / (float)width;
        const float scale = 1.0f / __builtin_sqrtf(mean_square + args->epsilon);
        float *out = args->out + at;
        if (args->before != NULL) {
            memcpy(args->before + row * width, x, width * sizeof *x);
        }
        for (size_t j = 0; j < width; j += VEC_LANES) {
            const size_t left = width - j;
            const vec normal = vec_load(x + j, left) * scale;
            vec_store(out + j, normal * factor_of(args->weight + j, left, one_more), left);
        }
        if (args->rstd != NULL) {
            args->rstd[row] = scale;
        }
    }
}

/* The mean of dnormal·normal, where dnormal = dout·weight, or dout·(1 + weight); and on the way the sums of this row into
 * dweight. */
static float row_mean(const rank_rmsnorm_grad *args, size_t row)
{
    const size_t width = args->width;
    const float *x = args->x + row * width;
    const float *dout = args->dout + rank_vector_at(&args->heads, row, width);
    const float rstd = args->rstd[row];
    const size_t part = args->heads.count > 0 ? row % args->heads.count * width : 0;
    float *dweight = args->dweight != NULL ? args->dweight + part : NULL;
    vec sum[VEC_SUM_PARTS];
    vec_sum_begin(sum);
    for (size_t first = 0; first < width; first += VEC_SUM_LANES) {
        VEC_EACH_PART
        {
            const size_t j = first + (size_t)v * VEC_LANES;
            const size_t left = vec_left(width, first, v);
            const vec d_normal = vec_load(dout + j, left) * (vec_load(x + j, left) * rstd);
            sum[v] += d_normal * factor_of(args->weight + j, left, args->one_more);
            if (dweight != NULL) {
                vec_store(dweight + j, vec_load(dweight + j, left) + d_normal, left);
            }
        }
    }
    return vec_sum_end(sum) / (float)width;
}

void KERNEL(rmsnorm_grad)(const rank_rmsnorm_grad *args)
{
    const size_t width = args->width;
    const size_t count = rank_vector_count(&args->heads, args->rows);
    for (size_t row = 0; row < count; row++) {
        const size_t begin = rank_vector_at(&args->heads, row, width);
        const float mean = row_mean(args, row);
        const float rstd = args->rstd[row];
        for (size_t j = 0; j < width; j += VEC_LANES) {
            const size_t left = width - j;
            const size_t at = begin + j;
            const vec normal = vec_load(args->x + row * width + j, left) * rstd;
            const vec dnormal =
                vec_load(args->dout + at, left) * factor_of(args->weight + j, left, args->one_more);
            const vec d = (dnormal - normal * mean) * rstd;
            const vec before = args->keep ? vec_load(args->dx + at, left) : vec_set(0.0f);
            vec_store(args->dx + at, before + d, left);
        }
    }
}
