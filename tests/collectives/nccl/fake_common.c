/* What both fakes of NCCL have: see the header. */
#include "fake_common.h"

#include <string.h>

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22800;
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **memory, size_t size_bytes)
{
    return cudaMalloc(memory, size_bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *memory)
{
    (void)cudaFree(memory);
    return ncclSuccess;
}

size_t fake_element_bytes(ncclDataType_t type)
{
    static const size_t bytes[] = {
        [ncclInt8] = 1,    [ncclUint8] = 1,   [ncclInt32] = 4,   [ncclUint32] = 4,
        [ncclInt64] = 8,   [ncclUint64] = 8,  [ncclFloat16] = 2, [ncclFloat32] = 4,
        [ncclFloat64] = 8, [ncclBfloat16] = 2};
    return bytes[type];
}

void fake_add_up(void *to, const void *from, size_t count, ncclDataType_t type)
{
    enum { BYTES = 4 };
    for (size_t i = 0; i < count; i++) {
        char *at = (char *)to + i * BYTES;
        const char *other = (const char *)from + i * BYTES;
        if (type == ncclFloat32) {
            float a;
            float b;
            memcpy(&a, at, BYTES);
            memcpy(&b, other, BYTES);
            a += b;
            memcpy(at, &a, BYTES);
        } else {
            uint32_t a;
            uint32_t b;
            memcpy(&a, at, BYTES);
            memcpy(&b, other, BYTES);
            a += b;
            memcpy(at, &a, BYTES);
        }
    }
}

bool fake_tree_can(const coll_nccl_tree *tree)
{
    return tree->type == COLL_FLOAT32 && tree->ranks <= FAKE_NCCL_RANKS_MAX;
}

static float combine(float a, float b, coll_reduce_op reduce)
{
    return reduce == COLL_PRODUCT ? a * b : a + b;
}

void fake_tree(const coll_nccl_tree *tree)
{
    const float *parts = tree->parts;
    float *out = tree->out;
    for (size_t i = 0; i < tree->count; i++) {
        float v[FAKE_NCCL_RANKS_MAX];
        for (int rank = 0; rank < tree->ranks; rank++) {
            v[rank] = parts[(size_t)rank * tree->count + i];
        }
        for (int step = 1; step < tree->ranks; step *= 2) {
            for (int rank = 0; rank + step < tree->ranks; rank += 2 * step) {
                v[rank] = combine(v[rank], v[rank + step], tree->reduce);
            }
        }
        out[i] = tree->divisor > 1 ? v[0] / (float)tree->divisor : v[0];
    }
}

static void pass_time(const coll_nccl_notes *notes, uint64_t now_ns)
{
    coll_nccl_numbers *numbers = notes->numbers;
    numbers->busy_ns += numbers->started != numbers->finished ? now_ns - numbers->since_ns : 0;
    numbers->since_ns = now_ns;
    __atomic_store_n(&notes->progress->busy_ns, numbers->busy_ns, __ATOMIC_RELEASE);
}

void fake_begin(const coll_nccl_notes *notes, uint64_t now_ns)
{
    pass_time(notes, now_ns);
    __atomic_store_n(&notes->progress->started, ++notes->numbers->started, __ATOMIC_RELEASE);
}

void fake_end(const coll_nccl_notes *notes, uint64_t now_ns)
{
    pass_time(notes, now_ns);
    __atomic_store_n(&notes->progress->finished, ++notes->numbers->finished, __ATOMIC_RELEASE);
}
