// For the backend `cuda`: GELU and its gradient, and sums of columns, in parts. Launched by fast.c.
#include "fast.h"
#include "gelu.h"

enum {
    GELU_EACH = 4, // rows of a thread at once: enough reads under way to keep the memory busy
    GELU_BLOCKS = 1 << 14 // along the rows at most
};

template <typename E, bool VEC> __global__ static void fast_gelu_kernel(rank_gelu args)
{
    E *x_rows = (E *)args.x;
    E *out_rows = (E *)args.out;
    const size_t column = ((size_t)blockIdx.x * WARP + threadIdx.x % WARP) * FOUR;
    const size_t each = (size_t)PART_ROWS * GELU_EACH;
    const float4 bias = load_four<VEC>(args.bias, column, args.width);
    for (size_t first = blockIdx.y * each + threadIdx.x / WARP; first < args.rows;
         first += gridDim.y * each) {
        float4 x[GELU_EACH];
#pragma unroll
        for (int i = 0; i < GELU_EACH; i++) {
            const size_t row = first + (size_t)i * PART_ROWS;
            if (row < args.rows) {
                x[i] = load_four<VEC>(x_rows + row * args.width, column, args.width);
            }
        }
#pragma unroll
        for (int i = 0; i < GELU_EACH; i++) {
            const size_t at = (first + (size_t)i * PART_ROWS) * args.width;
            if (at < args.rows * args.width) {
                const float4 y = as_stored<E>(plus(x[i], bias));
                store_four<VEC>(x_rows + at, column, args.width, y);
                store_four<VEC>(out_rows + at, column, args.width,
                                make_float4(y.x * gate(y.x), y.y * gate(y.y), y.z * gate(y.z),
                                            y.w * gate(y.w)));
            }
        }
    }
}

extern "C" void cuda_launch_fast_gelu(const rank_gelu *args, cudaStream_t stream)
{
    const bool vec =
        in_fours(args->width, address_of(args->bias) | address_of(args->x) | address_of(args->out));
    const size_t each = (size_t)PART_ROWS * GELU_EACH;
    const size_t rows = (args->rows + each - 1) / each;
    const dim3 grid(tiles_of(args->width),
                    (unsigned)(rows < GELU_BLOCKS ? rows : (size_t)GELU_BLOCKS));
    WITH_ELEMENT(args->type,
                 LAUNCH((vec ? fast_gelu_kernel<Element, true> : fast_gelu_kernel<Element, false>),
                        grid, PART_THREADS, 0, stream, *args));
}

// d *= gelu'(x), x = gelu(x).
__device__ static void gelu_grad(float *x, float *d)
{
    const float s = gate(*x);
    const float gelu = *x * s;
    const float two_u_slope = fmaf(3.0f * TWO_ROOT_2_PI * CUBIC, *x * *x, TWO_ROOT_2_PI);
    *d = *d * fmaf(gelu * (1.0f - s), two_u_slope, s);
    *x = gelu;
}

// The gradient of GELU, four elements at a time; what is summed is the new d, as it is stored.
template <typename E, bool VEC> struct gelu_grad_value {
    rank_gelu_grad args;
    __device__ size_t rows() const
    {
        return args.rows;
    }
    struct loaded {
        float4 x;
        float4 d;
    };
    __device__ loaded load(size_t row, size_t column) const
    {
        const size_t at = row * args.width;
        return {load_four<VEC>((const E *)args.x + at, column, args.width),
                load_four<VEC>((const E *)args.d + at, column, args.width)};
    }
    __device__ float4 take(size_t row, size_t column, loaded of) const
    {
        const size_t at = row * args.width;
        gelu_grad(&of.x.x, &of.d.x);
        gelu_grad(&of.x.y, &of.d.y);
        gelu_grad(&of.x.z, &of.d.z);
        gelu_grad(&of.x.w, &of.d.w);
        store_four<VEC>((E *)args.x + at, column, args.width, of.x);
        store_four<VEC>((E *)args.d + at, column, args.width, of.d);
        return as_stored<E>(of.d);
    }
};

extern "C" void cuda_launch_fast_gelu_grad(const rank_gelu_grad *args, double *partials,
                                           cudaStream_t stream)
{
    float *parts = (float *)partials;
    if (!has_parts(args->width)) {
        cuda_launch_gelu_grad(args, stream);
    } else if (in_fours(args->width, address_of(args->x) | address_of(args->d))) {
        WITH_ELEMENT(args->type, launch_fast_sums(args->rows, args->width,
                                                  gelu_grad_value<Element, true>{*args},
                                                  args->dbias, parts, stream));
    } else {
        WITH_ELEMENT(args->type, launch_fast_sums(args->rows, args->width,
                                                  gelu_grad_value<Element, false>{*args},
                                                  args->dbias, parts, stream));
    }
}

template <bool VEC> struct plain_value {
    rank_column_sums args;
    size_t row_floats;
    __device__ size_t rows() const
    {
        return args.rows;
    }
    typedef float4 loaded;
    __device__ loaded load(size_t row, size_t column) const
    {
        return load_four<VEC>(args.from + row * row_floats, column, args.columns);
    }
    __device__ float4 take(size_t, size_t, const loaded &of) const
    {
        return of;
    }
};

extern "C" void cuda_launch_fast_column_sums(const rank_column_sums *args, double *partials,
                                             cudaStream_t stream)
{
    float *parts = (float *)partials;
    const size_t row = rank_sums_row(args);
    if (!has_parts(args->columns)) {
        cuda_launch_column_sums(args, stream);
    } else if (in_fours(args->columns, address_of(args->from)) && row % 4 == 0) {
        launch_fast_sums(args->rows, args->columns, plain_value<true>{*args, row}, args->sums,
                         parts, stream);
    } else {
        launch_fast_sums(args->rows, args->columns, plain_value<false>{*args, row}, args->sums,
                         parts, stream);
    }
}
