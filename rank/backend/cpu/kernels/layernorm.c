/* Layer norm with the residual added on the way, and its gradient. Compiled once per instruction
 * set; models call both through the backend. */
#include "kernels_isa.h"

#define EPSILON 1e-5f

/* bias: NULL, or added first. */
static void add_residual(float *x, const float *residual, const float *bias, size_t width)
{
    for (size_t j = 0; j < width; j += VEC_LANES) {
        const size_t left = width - j;
        vec sum = vec_load(x + j, left);
        if (bias != NULL) {
            sum += vec_load(bias + j, left);
        }
        vec_store(x + j, sum + vec_load(residual + j, left), left);
    }
}

static float row_mean(const float *x, size_t width)
{
    vec sum[VEC_SUM_PARTS];
    vec_sum_begin(sum);
    for (size_t j = 0; j < width; j += VEC_SUM_LANES) {
        VEC_EACH_PART
        {
            sum[v] += vec_load(x + j + v * VEC_LANES, vec_left(width, j, v));
        }
    }
    return vec_sum_end(sum) / (float)width;
}

static float row_variance(const float *x, size_t width, float mean)
{
    vec sum[VEC_SUM_PARTS];
    vec_sum_begin(sum);
    for (size_t j = 0; j < width; j += VEC_SUM_LANES) {
        VEC_EACH_PART
        {
            const size_t left = vec_left(width, j, v);
            vec d = vec_load(x + j + v * VEC_LANES, left) - mean;
            if (left < VEC_LANES) {
                d = vec_select(vec_first_lanes(left), d, vec_set(0.0f));
            }
            sum[v] += d * d;
        }
    }
    return vec_sum_end(sum) / (float)width;
}

void KERNEL(layernorm)(const rank_layernorm *args)
{
    const size_t width = args->width;
    for (size_t row = 0; row < args->rows; row++) {
        float *x = args->x + row * width;
        if (args->residual != NULL) {
            const size_t from = args->residual_rows ? (size_t)args->residual_rows[row] : row;
            add_residual(x, args->residual + from * width, args->residual_bias, width);
        }
        if (args->out == NULL) {
            continue;
        }
        const float mean = row_mean(x, width);
        const float rstd = 1.0f / __builtin_sqrtf(row_variance(x, width, mean) + EPSILON);
        float *out = (float *)args->out + row * width;
        for (size_t j = 0; j < width; j += VEC_LANES) {
            const size_t left = width - j;
            const vec normal = (vec_load(x + j, left) - mean) * rstd;
            const vec y = normal * vec_load(args->weight + j, left);
            vec_store(out + j, y + vec_load(args->bias + j, left), left);
        }
        args->mean[row] = mean;
        args->rstd[row] = rstd;
    }
}

/* dnormal = dout·weight; its mean, and the mean of dnormal·normal; and on the way the sums of this
 * row into dweight and dbias. */
static void row_means(const rank_layernorm_grad *args, size_t row, float *mean_d, float *mean_dn)
{
    const size_t width = args->width;
    const float *x = args->x + row * width;
    const float *dout = args->dout + row * width;
    const float mean = args->mean[row];
    const float rstd = args->rstd[row];
    vec sum_d[VEC_SUM_PARTS];
    vec sum_dn[VEC_SUM_PARTS];
    vec_sum_begin(sum_d);
    vec_sum_begin(sum_dn);
    for (size_t first = 0; first < width; first += VEC_SUM_LANES) {
        VEC_EACH_PART
        {
            const size_t j = first + (size_t)v * VEC_LANES;
            const size_t left = vec_left(width, first, v);
            const vec d = vec_load(dout + j, left);
            const vec d_normal = d * ((vec_load(x + j, left) - mean) * rstd);
            const vec weight = vec_load(args->weight + j, left);
            sum_d[v] += d * weight;
            sum_dn[v] += d_normal * weight;
            if (args->dbias != NULL) {
                vec_store(args->dbias + j, vec_load(args->dbias + j, left) + d, left);
            }
            if (args->dweight != NULL) {
                vec_store(args->dweight + j, vec_load(args->dweight + j, left) + d_normal, left);
            }
        }
    }
    *mean_d = vec_sum_end(sum_d) / (float)width;
    *mean_dn = vec_sum_end(sum_dn) / (float)width;
}

static void row_dx(const rank_layernorm_grad *args, size_t row, float mean_d, float mean_dn)
{
    const size_t width = args->width;
    const float *x = args->x + row * width;
    const float *dout = args->dout + row * width;
    float *dx = args->dx + row * width;
    const float mean = args->mean[row];
    const float rstd = args->rstd[row];
    for (size_t j = 0; j < width; j += VEC_LANES) {
        const size_t left = width - j;
        const vec normal = (vec_load(x + j, left) - mean) * rstd;
        const vec dnormal = vec_load(dout + j, left) * vec_load(args->weight + j, left);
        vec d = (dnormal - mean_d - normal * mean_dn) * rstd;
        if (args->keep) {
            d += vec_load(dx + j, left);
        }
        vec_store(dx + j, d, left);
        if (args->dx_sum != NULL) {
            vec_store(args->dx_sum + j, vec_load(args->dx_sum + j, left) + d, left);
        }
    }
}

void KERNEL(layernorm_grad)(const rank_layernorm_grad *args)
{
    for (size_t row = 0; row < args->rows; row++) {
        float mean_d;
        float mean_dn;
        row_means(args, row, &mean_d, &mean_dn);
        row_dx(args, row, mean_d, mean_dn);
    }
}
