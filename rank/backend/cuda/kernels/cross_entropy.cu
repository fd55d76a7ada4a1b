// Softmax cross entropy of rows of logits, whose gradient replaces them. ROW_LANES threads work on a
// row. Launched by operations.c.
#include "ordered_sum.h"

enum {
    THREADS = 128,
    ROWS = THREADS / ROW_LANES,
    LEVELS = 4, // of the tree over RANK_LEAVES_MAX leaves
};

// Columns of the row become exponentials. Returns their sum, on each of the row's threads.
__device__ static float leaf_exponentials(float *logits, size_t begin, size_t end, float largest)
{
    float sum = 0.0f;
    for (size_t j = begin + threadIdx.x % ROW_LANES; j < end; j += ROW_LANES) {
        const float e = exponential(logits[j] - largest);
        sum = sum + e;
        logits[j] = e;
    }
    return sum_lanes(sum);
}

// The same of all columns: a tree over leaves, as the CPU's cross_entropy.c has it. All threads of a
// warp take part, also those whose row has no target.
__device__ static float row_exponentials(const rank_cross_entropy &args, float *logits, bool works,
                                         float largest)
{
    const size_t count = works ? args.vocab_size : 0;
    float waiting[LEVELS + 1];
    int waits = 0;
    if (args.leaves <= 1) {
        return leaf_exponentials(logits, 0, count, largest);
    }
    for (int leaf = 0; leaf < args.leaves; leaf++) {
        const size_t begin = (size_t)leaf * args.leaf_columns;
        const size_t end = begin + args.leaf_columns;
        waiting[waits++] = leaf_exponentials(logits, begin, end < count ? end : count, largest);
        for (int carry = leaf; carry % 2 == 1; carry /= 2, waits--) {
            waiting[waits - 2] = waiting[waits - 2] + waiting[waits - 1];
        }
    }
    return waiting[0];
}

// The rows from args.logits on; the loss of each goes to losses, 0 where there is no target.
__global__ static void cross_entropy_kernel(rank_cross_entropy args, double *losses)
{
    const size_t mine = (size_t)blockIdx.x * ROWS + threadIdx.x / ROW_LANES;
    const size_t lane = threadIdx.x % ROW_LANES;
    const size_t row = mine < args.rows ? mine : 0;
    const size_t count = args.vocab_size;
    const int32_t target = args.targets[row];
    const bool works = mine < args.rows && target >= 0;
    float *logits = args.logits + row * args.row_floats;
    const float target_logit = works ? logits[target] : 0.0f;
    float largest = works ? logits[0] : 0.0f;
    for (size_t j = lane; works && j < count; j += ROW_LANES) {
        largest = larger_of(logits[j], largest);
    }
    largest = largest_of_lanes(largest);
    __syncwarp(); // every lane has read target_logit before another writes there
    const float sum = row_exponentials(args, logits, works, largest);
    if (mine < args.rows && lane == 0) {
        losses[mine] = works ? log((double)sum) + ((double)largest - (double)target_logit) : 0.0;
    }
    if (mine >= args.rows || !args.want_gradient) {
        return;
    }
    const float scale = 1.0f / sum;
    for (size_t j = lane; j < count; j += ROW_LANES) {
        const float p = works ? logits[j] * scale : 0.0f;
        logits[j] = works && j == (size_t)target ? p - 1.0f : p;
    }
}

extern "C" void cuda_launch_cross_entropy(const rank_cross_entropy *args, double *partials,
                                          cudaStream_t stream)
{
    for (size_t first = 0; first < args->rows; first += SLAB) {
        rank_cross_entropy slab = *args;
        slab.row_floats = rank_logit_row(args);
        slab.rows = args->rows - first < SLAB ? args->rows - first : (size_t)SLAB;
        slab.targets += first;
        slab.logits += first * slab.row_floats;
        LAUNCH(cross_entropy_kernel, (unsigned)((slab.rows + ROWS - 1) / ROWS), THREADS, 0, stream,
               slab, partials + 1);
        const slab_place place = {first == 0, first + slab.rows == args->rows, args->loss};
        launch_ordered_sum(partials, slab.rows, place, stream);
    }
}
