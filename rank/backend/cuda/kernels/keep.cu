// The best of a row of logits in falling order, and the mass of each leaf: what top-k and top-p need of
// a row, so that the host need not read it. Launched by draw.cu.
//
// A logit and its column make one number, the key: the better one of two columns has the larger key, and
// no two have the same. The k largest keys are all from a certain one on. That one is found digit by
// digit from the top (radix select): the keys that share the digits so far are counted by their next
// digit, which tells the next digit of the k-th largest. Counts are whole numbers, so the order in which
// threads add to them changes nothing.
#include "base/fixed_math.h"
#include "device.h"
#include "kernels.h"

enum {
    THREADS = 1024,
    MASS_THREADS = 512,
    WARP = 32,
    AHEAD = 8, // columns that a thread reads at once
    KEY_BITS = 64,
    DIGIT_BITS = 11,
    BINS = 1 << DIGIT_BITS,
    SECTIONS = 64, // of the bins, so that one thread need not walk them all
    SECTION_BINS = BINS / SECTIONS,
};

static_assert((int)RANK_KEPT_MAX <= (int)THREADS, "a thread for each that is kept");
static_assert((int)RANK_MASS_LANES == (int)WARP, "a thread for each lane");

// A block's shared memory.
struct selection {
    uint64_t keys[RANK_KEPT_MAX];
    unsigned bins[BINS];
    unsigned sections[SECTIONS];
    uint64_t digits; // those of the k-th largest key that are known
    unsigned wanted; // of the keys with these digits
    unsigned taken;
    bool done; // all keys with these digits are wanted
};

// Columns first, first + THREADS, …; beyond the row -infinity.
__device__ static void read_ahead(float *logits, const float *row, size_t first, size_t columns)
{
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        const size_t column = first + (size_t)i * THREADS;
        logits[i] = column < columns ? row[column] : -INFINITY;
    }
}

// 0 where the logit is not finite: that is no key. The two zeros are equal.
__device__ static uint64_t key_of(float logit, size_t column)
{
    const unsigned bits = __float_as_uint(logit + 0.0f);
    const unsigned rising = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    const bool finite = logit >= -0x1.fffffep127f && logit <= 0x1.fffffep127f;
    return finite ? (uint64_t)rising << 32 | (0xffffffffu - (unsigned)column) : 0;
}

__device__ static size_t column_of(uint64_t key)
{
    return 0xffffffffu - (unsigned)key;
}

// For all threads of the block. `top`: the lowest bit of the digits that are known.
__device__ static void count_digit(selection *s, const float *row, size_t columns, unsigned top,
                                   unsigned shift)
{
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) {
        s->bins[bin] = 0;
    }
    __syncthreads();
    for (size_t first = threadIdx.x; first < columns; first += (size_t)AHEAD * THREADS) {
        float logits[AHEAD];
        read_ahead(logits, row, first, columns);
        for (int i = 0; i < AHEAD; i++) {
            const uint64_t key = key_of(logits[i], first + (size_t)i * THREADS);
            if (key != 0 && (top == KEY_BITS || key >> top == s->digits)) {
                count_up(&s->bins[(key >> shift) & ((1u << (top - shift)) - 1)]);
            }
        }
    }
    __syncthreads();
    if (threadIdx.x < SECTIONS) {
        unsigned sum = 0;
        for (unsigned i = 0; i < SECTION_BINS; i++) {
            sum += s->bins[threadIdx.x * SECTION_BINS + i];
        }
        s->sections[threadIdx.x] = sum;
    }
    __syncthreads();
}

// For one thread: the digit of the wanted-th largest of the keys that were counted.
__device__ static void find_digit(selection *s, unsigned width)
{
    unsigned wanted = s->wanted;
    unsigned section = SECTIONS;
    while (section > 0 && s->sections[section - 1] < wanted) {
        wanted -= s->sections[--section];
    }
    if (section == 0) { // there are not so many: all are wanted
        s->digits = 0;
        s->done = true;
        return;
    }
    unsigned bin = section * SECTION_BINS - 1;
    while (s->bins[bin] < wanted) {
        wanted -= s->bins[bin--];
    }
    s->digits = s->digits << width | bin;
    s->wanted = wanted;
    s->done = s->bins[bin] == wanted;
}

// For all threads of the block: the least key that is kept. A key is never 0.
__device__ static uint64_t least_key(selection *s, const float *row, size_t columns, unsigned kept)
{
    unsigned top = KEY_BITS;
    if (threadIdx.x == 0) {
        s->digits = 0;
        s->wanted = kept;
        s->taken = 0;
        s->done = false;
    }
    __syncthreads();
    while (!s->done) { // at the last digit at the latest, since keys differ
        const unsigned width = top < DIGIT_BITS ? top : (unsigned)DIGIT_BITS;
        count_digit(s, row, columns, top, top - width);
        if (threadIdx.x == 0) {
            find_digit(s, width);
        }
        __syncthreads();
        top -= width;
    }
    return s->digits << top;
}

// For all threads of the block: the keys in falling order (Batcher's bitonic sort), count of them, of
// which those behind the last one are 0.
__device__ static void sort_keys(uint64_t *keys, unsigned count)
{
    for (unsigned run = 2; run / 2 < count; run *= 2) {
        for (unsigned apart = run / 2; apart > 0; apart /= 2) {
            const unsigned other = threadIdx.x ^ apart;
            if (other > threadIdx.x && other < RANK_KEPT_MAX) {
                const uint64_t a = keys[threadIdx.x];
                const uint64_t b = keys[other];
                const bool falling = (threadIdx.x & run) == 0;
                if ((a < b) == falling) {
                    keys[threadIdx.x] = b;
                    keys[other] = a;
                }
            }
            __syncthreads();
        }
    }
}

// blockIdx.x: the row.
__global__ static void __launch_bounds__(THREADS) keep_kernel(rank_draw args)
{
    SHARED(selection, s);
    wait_for_previous();
    const float *row = args.values + blockIdx.x * args.row_floats;
    const unsigned kept = (unsigned)args.of[blockIdx.x].kept;
    if (kept == 0) {
        return;
    }
    const uint64_t least = least_key(s, row, args.columns, kept);
    if (threadIdx.x < RANK_KEPT_MAX) {
        s->keys[threadIdx.x] = 0;
    }
    __syncthreads();
    for (size_t first = threadIdx.x; first < args.columns; first += (size_t)AHEAD * THREADS) {
        float logits[AHEAD];
        read_ahead(logits, row, first, args.columns);
        for (int i = 0; i < AHEAD; i++) {
            const uint64_t key = key_of(logits[i], first + (size_t)i * THREADS);
            if (key != 0 && key >= least) {
                s->keys[count_up(&s->taken)] = key;
            }
        }
    }
    __syncthreads();
    sort_keys(s->keys, kept);
    if (threadIdx.x < kept) {
        const uint64_t key = s->keys[threadIdx.x];
        rank_kept *to = args.kept + (size_t)blockIdx.x * RANK_KEPT_MAX + threadIdx.x;
        to->logit = key != 0 ? row[column_of(key)] : 0.0f;
        to->index = key != 0 ? (int32_t)column_of(key) : -1;
    }
}

// blockIdx: the leaf, the row. As rank_sample_leaf_mass of generate/sample.c: all threads compute
// exponentials, and those of the first warp add them up, a lane each.
__global__ static void __launch_bounds__(MASS_THREADS) mass_kernel(rank_draw args)
{
    SHARED(double, parts);
    wait_for_previous();
    const float *row = args.values + blockIdx.y * args.row_floats;
    const rank_draw_row of = args.of[blockIdx.y];
    const size_t begin = blockIdx.x * args.leaf_columns;
    const size_t full = begin + args.leaf_columns;
    const size_t end = full < args.columns ? full : args.columns;
    float most = -INFINITY;
    double sum = 0.0;
    if (of.weighed == 0) {
        return;
    }
    for (size_t column = begin + threadIdx.x; column < end; column += MASS_THREADS) {
        most = larger_of(row[column], most);
    }
    parts[threadIdx.x] = (double)largest_of_warp(most);
    __syncthreads();
    double largest = parts[0];
    for (unsigned warp = 1; warp < MASS_THREADS / WARP; warp++) {
        const double other = parts[warp * WARP];
        largest = other > largest ? other : largest;
    }
    for (size_t first = begin; first < end; first += MASS_THREADS) {
        const size_t column = first + threadIdx.x;
        __syncthreads();
        parts[threadIdx.x] =
            column < end ? base_fixed_exp(((double)row[column] - largest) * of.inverse) : 0.0;
        __syncthreads();
        for (unsigned i = threadIdx.x; i < MASS_THREADS && threadIdx.x < WARP; i += WARP) {
            sum += parts[i];
        }
    }
    if (threadIdx.x < WARP) {
        sum = sum_warp(sum);
    }
    if (threadIdx.x == 0) {
        rank_mass *to = args.masses + (size_t)blockIdx.y * args.leaves + blockIdx.x;
        to->largest = largest;
        to->sum = largest == -INFINITY ? 0.0 : sum;
    }
}

extern "C" void cuda_launch_keep(const rank_draw *args, cudaStream_t stream)
{
    LAUNCH_OVERLAPPED(keep_kernel, (unsigned)args->rows, THREADS, sizeof(selection), stream, *args);
    if (args->masses != NULL) {
        const dim3 grid((unsigned)args->leaves, (unsigned)args->rows);
        LAUNCH_OVERLAPPED(mass_kernel, grid, MASS_THREADS, MASS_THREADS * sizeof(double), stream,
                          *args);
    }
}
