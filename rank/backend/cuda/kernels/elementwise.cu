// Operations on elements: GELU, AdamW, addition, rounding to bfloat16; and plain sums of columns. Launched by
// operations.c.
#include "columns.h"
#include "kernels.h"

enum { THREADS = 256 };

#define TWO_ROOT_2_PI 1.5957691216057308f // 2·sqrt(2/pi)
#define CUBIC         0.044715f

// The logistic function of 2u: see the CPU's gelu.c.
__device__ static float gate(float x)
{
    const float two_u = x * (TWO_ROOT_2_PI + (TWO_ROOT_2_PI * CUBIC) * (x * x));
    return 1.0f / (1.0f + exponential(-two_u));
}

template <typename Element> __global__ static void gelu_kernel(rank_gelu args)
{
    Element *x = static_cast<Element *>(args.x);
    Element *out = static_cast<Element *>(args.out);
    const size_t count = args.rows * args.width;
    for (size_t i = first_thing(); i < count; i += all_threads()) {
        put(x + i, get(x[i]) + args.bias[i % args.width]);
        const float biased = get(x[i]); // as backward reads it
        put(out + i, biased * gate(biased));
    }
}

extern "C" void cuda_launch_gelu(const rank_gelu *args, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(args->rows * args->width, THREADS);
    WITH_ELEMENT(args->type, LAUNCH(gelu_kernel<Element>, blocks, THREADS, 0, stream, *args));
}

template <typename Element> __global__ static void gelu_grad_kernel(rank_gelu_grad args)
{
    Element *at = static_cast<Element *>(args.x);
    Element *d = static_cast<Element *>(args.d);
    const size_t count = args.rows * args.width;
    for (size_t i = first_thing(); i < count; i += all_threads()) {
        const float x = get(at[i]);
        const float s = gate(x);
        const float gelu = x * s;
        const float two_u_slope = TWO_ROOT_2_PI + (3.0f * TWO_ROOT_2_PI * CUBIC) * (x * x);
        const float slope = s + gelu * (1.0f - s) * two_u_slope;
        put(at + i, gelu);
        put(d + i, get(d[i]) * slope);
    }
}

extern "C" void cuda_launch_gelu_grad(const rank_gelu_grad *args, cudaStream_t stream)
{
    const unsigned blocks = blocks_for(args->rows * args->width, THREADS);
    WITH_ELEMENT(args->type, {
        const array_value<Element> value = {static_cast<const Element *>(args->d), args->width};
        LAUNCH(gelu_grad_kernel<Element>, blocks, THREADS, 0, stream, *args);
        launch_column_sums(args->rows, args->width, value, args->dbias, stream);
    });
}

extern "C" void cuda_launch_column_sums(const rank_column_sums *args, cudaStream_t stream)
{
    launch_column_sums(args->rows, args->columns,
                       array_value<float>{args->from, rank_sums_row(args)}, args->sums, stream);
}

__global__ static void add_kernel(rank_add args)
{
    for (size_t i = first_thing(); i < args.count; i += all_threads()) {
        args.to[i] = args.to[i] + args.from[i];
    }
}

extern "C" void cuda_launch_add(const rank_add *args, cudaStream_t stream)
{
    LAUNCH(add_kernel, blocks_for(args->count, THREADS), THREADS, 0, stream, *args);
}

// A row of blocks for each part. The parts stay where the arguments are.
__global__ static void zero_parts_kernel(const __grid_constant__ rank_zero_parts args)
{
    float *at = args.parts[blockIdx.y].at;
    const size_t count = args.parts[blockIdx.y].count;
    for (size_t i = first_thing(); i < count; i += all_threads()) {
        at[i] = 0.0f;
    }
}

extern "C" void cuda_launch_zero_parts(const rank_zero_parts *args, cudaStream_t stream)
{
    const size_t each = 4 * THREADS; // of a block before it goes on
    const size_t most = 64 * each;
    size_t longest = 1;
    for (size_t i = 0; i < args->count; i++) {
        longest = args->parts[i].count > longest ? args->parts[i].count : longest;
    }
    longest = longest < most ? longest : most;
    const dim3 blocks(blocks_for(longest, each), (unsigned)args->count);
    LAUNCH(zero_parts_kernel, blocks, THREADS, 0, stream, *args);
}

__global__ static void cast_kernel(rank_cast args)
{
    __nv_bfloat16 *to = static_cast<__nv_bfloat16 *>(args.to);
    for (size_t i = first_thing(); i < args.count; i += all_threads()) {
        put(to + i, args.from[i]);
    }
}

extern "C" void cuda_launch_cast(const rank_cast *args, cudaStream_t stream)
{
    LAUNCH(cast_kernel, blocks_for(args->count, THREADS), THREADS, 0, stream, *args);
}

// The step's constants in double, as PyTorch has them, each rounded once.
struct step_constants {
    float decay_factor;
    float one_minus_beta1;
    float beta2;
    float one_minus_beta2;
    float second_divisor; // sqrt(1 - beta2^step)
    float minus_step_size;
    float epsilon;
    float grad_scale;
};

__device__ static step_constants make_constants(const rank_adamw_config &config,
                                                const rank_adamw_step &step)
{
    const double rate = step.learning_rate;
    const double correction1 = 1.0 - pow(config.beta1, (double)step.step);
    const double correction2 = 1.0 - pow(config.beta2, (double)step.step);
    step_constants k;
    k.decay_factor = (float)(1.0 - rate * config.weight_decay);
    k.one_minus_beta1 = (float)(1.0 - config.beta1);
    k.beta2 = (float)config.beta2;
    k.one_minus_beta2 = (float)(1.0 - config.beta2);
    k.second_divisor = (float)sqrt(correction2);
    k.minus_step_size = (float)-(rate / correction1);
    k.epsilon = (float)config.epsilon;
    k.grad_scale = step.grad_scale;
    return k;
}

enum {
    ADAMW_PARTS =
        440, // of a launch: a kernel's arguments are 4 KB at most. Even, so that decay goes on
    ADAMW_EACH = 4 * THREADS, // elements of a block at once: the constants are made for some
};

struct adamw_parts {
    size_t count;
    size_t ends[ADAMW_PARTS];
};

static_assert(sizeof(rank_adamw) + sizeof(rank_adamw_config) + sizeof(size_t) +
                      sizeof(adamw_parts) <=
                  4096,
              "the arguments of adamw_kernel");

// The part that has element i.
__device__ static size_t part_of(const adamw_parts &parts, size_t i)
{
    size_t low = 0;
    size_t high = parts.count - 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (i < parts.ends[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

// Four neighbouring elements: 16 bytes, or 8 in bfloat16.
enum { FOUR = 4 };

static_assert(ADAMW_EACH == FOUR * THREADS, "a thread has four elements of a block");

struct four {
    float at[FOUR];
};

// `whole`: all four are there, and begin at a multiple of their bytes.
__device__ static four load_four(const float *from, size_t count, bool whole)
{
    if (whole) {
        const float4 all = *reinterpret_cast<const float4 *>(from);
        return four{{all.x, all.y, all.z, all.w}};
    }
    four some = {};
    for (size_t e = 0; e < FOUR && e < count; e++) {
        some.at[e] = from[e];
    }
    return some;
}

__device__ static void store_four(float *to, const four &values, size_t count, bool whole)
{
    if (whole) {
        *reinterpret_cast<float4 *>(to) =
            make_float4(values.at[0], values.at[1], values.at[2], values.at[3]);
        return;
    }
    for (size_t e = 0; e < FOUR && e < count; e++) {
        to[e] = values.at[e];
    }
}

__device__ static void store_rounded(rank_bfloat16 *to, const four &values, size_t count,
                                     bool whole)
{
    if (whole) {
        unsigned long long bits = 0;
        for (int e = 0; e < FOUR; e++) {
            __nv_bfloat16 rounded;
            put(&rounded, values.at[e]);
            bits |= (unsigned long long)*reinterpret_cast<const unsigned short *>(&rounded)
                    << (16 * e);
        }
        *reinterpret_cast<unsigned long long *>(to) = bits;
        return;
    }
    for (size_t e = 0; e < FOUR && e < count; e++) {
        put(reinterpret_cast<__nv_bfloat16 *>(to) + e, values.at[e]);
    }
}

// One element's moments, and its new value.
__device__ static float update(const step_constants &k, float old, float slope, bool decay,
                               float *first, float *second)
{
    const float grad = slope * k.grad_scale;
    *first = *first + (grad - *first) * k.one_minus_beta1;
    *second = *second * k.beta2 + (grad * k.one_minus_beta2) * grad;
    const float divisor = sqrtf(*second) / k.second_divisor + k.epsilon;
    const float param = old * (decay ? k.decay_factor : 1.0f);
    return param + (*first * k.minus_step_size) / divisor;
}

// config and the parts come by value: they are the host's. The parts stay where the arguments are:
// no thread copies them to index them. step is read when the kernel runs. `aligned`: all arrays
// begin at multiples of a four's bytes. A four may belong to several parts.
__global__ static void adamw_kernel(rank_adamw args, rank_adamw_config config, bool aligned,
                                    const __grid_constant__ adamw_parts parts)
{
    SHARED(step_constants, constants);
    if (threadIdx.x == 0) {
        constants[0] = make_constants(config, *args.step);
    }
    __syncthreads();
    const step_constants k = constants[0];
    for (size_t begin = (size_t)blockIdx.x * ADAMW_EACH; begin < args.count;
         begin += (size_t)gridDim.x * ADAMW_EACH) {
        const size_t i = begin + FOUR * threadIdx.x;
        if (i >= args.count) {
            return; // so are all later ones
        }
        const size_t left = args.count - i;
        const bool whole = aligned && left >= FOUR;
        const four grads = load_four(args.grads + i, left, whole);
        four params = load_four(args.params + i, left, whole);
        four first = load_four(args.first + i, left, whole);
        four second = load_four(args.second + i, left, whole);
        size_t part = part_of(parts, i);
#pragma unroll
        for (size_t e = 0; e < FOUR; e++) {
            while (part + 1 < parts.count && i + e >= parts.ends[part]) {
                part++;
            }
            params.at[e] = update(k, params.at[e], grads.at[e], args.decay != (part % 2 > 0),
                                  &first.at[e], &second.at[e]);
        }
        store_four(args.params + i, params, left, whole);
        store_four(args.first + i, first, left, whole);
        store_four(args.second + i, second, left, whole);
        if (args.rounded != NULL) {
            store_rounded(args.rounded + i, params, left, whole);
        }
    }
}

static bool begins_with_fours(const rank_adamw *args)
{
    const uintptr_t floats = (uintptr_t)args->params | (uintptr_t)args->grads |
                             (uintptr_t)args->first | (uintptr_t)args->second;
    return floats % (FOUR * sizeof(float)) == 0 &&
           (uintptr_t)args->rounded % (FOUR * sizeof(rank_bfloat16)) == 0;
}

// Parts begin … end - 1 of args.
static void launch_parts(const rank_adamw *args, const size_t *ends, size_t begin, size_t end,
                         cudaStream_t stream)
{
    const size_t from = begin > 0 ? ends[begin - 1] : 0;
    adamw_parts parts = {};
    rank_adamw some = *args;
    some.config = NULL; // both are the host's
    some.ends = NULL;
    parts.count = end - begin;
    for (size_t i = 0; i < parts.count; i++) {
        parts.ends[i] = ends[begin + i] - from;
    }
    some.count = ends[end - 1] - from;
    some.params += from;
    some.grads += from;
    some.first += from;
    some.second += from;
    some.rounded = args->rounded != NULL ? args->rounded + from : NULL;
    if (some.count > 0) {
        LAUNCH(adamw_kernel, blocks_for(some.count, ADAMW_EACH), THREADS, sizeof(step_constants),
               stream, some, *args->config, begins_with_fours(&some), parts);
    }
}

extern "C" void cuda_launch_adamw(const rank_adamw *args, cudaStream_t stream)
{
    const size_t *ends = args->ends != NULL ? args->ends : &args->count;
    const size_t count = args->ends != NULL ? args->parts : 1;
    for (size_t begin = 0; begin < count; begin += ADAMW_PARTS) {
        const size_t end = begin + ADAMW_PARTS < count ? begin + ADAMW_PARTS : count;
        launch_parts(args, ends, begin, end, stream);
    }
}
