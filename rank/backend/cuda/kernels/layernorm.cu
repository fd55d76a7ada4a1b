// Layer norm with the residual added on the way, and its gradient. ROW_LANES threads work on a row.
// Launched by operations.c.
#include "columns.h"
#include "kernels.h"
#include "row_place.h"

#define EPSILON 1e-5f

enum { THREADS = 128, ROWS = THREADS / ROW_LANES };

__device__ static void add_residual(const rank_layernorm &args, const row_place &at, float *x)
{
    const size_t from = args.residual_rows != NULL ? (size_t)args.residual_rows[at.row] : at.row;
    const float *residual = args.residual + from * args.width;
    for (size_t j = at.lane; j < args.width; j += ROW_LANES) {
        const float sum = x[j] + args.residual_bias[j];
        x[j] = sum + residual[j];
    }
}

template <typename Element> __global__ static void layernorm_kernel(rank_layernorm args)
{
    Element *out = static_cast<Element *>(args.out);
    const row_place at = my_row(args.rows, ROWS);
    const size_t width = args.width;
    float *x = args.x + at.row * width;
    if (args.residual != NULL && at.exists) {
        add_residual(args, at, x); // a thread reads again only what it has written itself
    }
    if (args.out == NULL) {
        return;
    }
    float sum = 0.0f;
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        sum = sum + x[j];
    }
    const float mean = sum_lanes(sum) / (float)width;
    float squares = 0.0f;
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        const float d = x[j] - mean;
        squares = squares + d * d;
    }
    const float rstd = 1.0f / sqrtf(sum_lanes(squares) / (float)width + EPSILON);
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        const float y = ((x[j] - mean) * rstd) * args.weight[j];
        put(out + at.row * width + j, y + args.bias[j]);
    }
    if (at.exists && at.lane == 0) {
        args.mean[at.row] = mean;
        args.rstd[at.row] = rstd;
    }
}

extern "C" void cuda_launch_layernorm(const rank_layernorm *args, cudaStream_t stream)
{
    const unsigned blocks = (unsigned)((args->rows + ROWS - 1) / ROWS);
    WITH_ELEMENT(args->type, LAUNCH(layernorm_kernel<Element>, blocks, THREADS, 0, stream, *args));
}

// dout · normal, whose column sums are dweight.
struct weight_value {
    rank_layernorm_grad args;
    __device__ float operator()(size_t row, size_t column) const
    {
        const size_t i = row * args.width + column;
        return args.dout[i] * ((args.x[i] - args.mean[row]) * args.rstd[row]);
    }
};

__global__ static void layernorm_grad_kernel(rank_layernorm_grad args)
{
    const row_place at = my_row(args.rows, ROWS);
    const size_t width = args.width;
    const float *x = args.x + at.row * width;
    const float *dout = args.dout + at.row * width;
    float *dx = args.dx + at.row * width;
    const float mean = args.mean[at.row];
    const float rstd = args.rstd[at.row];
    float sum_d = 0.0f;
    float sum_dn = 0.0f;
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        const float d = dout[j];
        const float d_normal = d * ((x[j] - mean) * rstd);
        sum_d = sum_d + d * args.weight[j];
        sum_dn = sum_dn + d_normal * args.weight[j];
    }
    const float mean_d = sum_lanes(sum_d) / (float)width;
    const float mean_dn = sum_lanes(sum_dn) / (float)width;
    for (size_t j = at.lane; at.exists && j < width; j += ROW_LANES) {
        const float normal = (x[j] - mean) * rstd;
        const float dnormal = dout[j] * args.weight[j];
        const float d = (dnormal - mean_d - normal * mean_dn) * rstd;
        dx[j] = args.keep ? d + dx[j] : d;
    }
}

extern "C" void cuda_launch_layernorm_grad(const rank_layernorm_grad *args, cudaStream_t stream)
{
    // dx may be dout's memory, so what reads dout goes first.
    launch_column_sums(args->rows, args->width, weight_value{*args}, args->dweight, stream);
    launch_column_sums(args->rows, args->width, array_value<float>{args->dout, args->width},
                       args->dbias, stream);
    LAUNCH(layernorm_grad_kernel, (unsigned)((args->rows + ROWS - 1) / ROWS), THREADS, 0, stream,
           *args);
    if (args->dx_sum != NULL) {
        launch_column_sums(args->rows, args->width, array_value<float>{args->dx, args->width},
                           args->dx_sum, stream);
    }
}
