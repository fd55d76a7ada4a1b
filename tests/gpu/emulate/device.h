/* CUDA C++ for the emulator: what kernels/device.h needs where nvcc does not provide it. */
#ifndef EMULATE_DEVICE_H
#define EMULATE_DEVICE_H

#include <cmath>
#include <cstring>
#include <functional>
#include <math.h>
#include <tuple>
#include <type_traits>

#include <cuda_runtime_api.h>

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __grid_constant__

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};

/* Where the running thread is. The scheduler sets it whenever it goes to another thread. */
struct emulate_position {
    dim3 thread_idx, block_idx, block_dim, grid_dim;
    void *shared;
};
extern emulate_position emulate_here;

#define threadIdx emulate_here.thread_idx
#define blockIdx  emulate_here.block_idx
#define blockDim  emulate_here.block_dim
#define gridDim   emulate_here.grid_dim

#define SHARED(type, name) type *name = static_cast<type *>(emulate_here.shared)

/* threads.cc */
void emulate_sync_threads();
/* What all lanes of the warp bring, in their order; it stays until the lane's next but one call. */
const void *emulate_collect(const void *mine, size_t size_bytes);
void emulate_exchange(const void *mine, void *other, size_t size_bytes, unsigned lane_mask);
/* mma.cc */
void emulate_mma(float *c, const uint32_t *a, const uint32_t *b);
void emulate_load_matrices(uint32_t *to, const void *row, bool transposed);

/* threads.cc: 8 or 16 bytes into shared memory, zeros if `from` is NULL; some time until the wait. */
void emulate_copy_async(void *to, const void *from, size_t size_bytes);
void emulate_wait_for_copies();

#define __syncthreads() emulate_sync_threads()

template <typename T> T __shfl_xor_sync(unsigned mask, T value, int lane_mask)
{
    T other;
    if (mask != 0xffffffffu) {
        abort(); /* this emulator's warps act as a whole */
    }
    emulate_exchange(&value, &other, sizeof value, (unsigned)lane_mask);
    return other;
}

static inline void __syncwarp()
{
    (void)__shfl_xor_sync(0xffffffffu, 0, 0);
}

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

/* As kernels/device.h has it for CUDA. */
template <typename T> static inline T load_once(const T *from)
{
    return *from;
}

static inline unsigned __float_as_uint(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

static inline float __uint_as_float(unsigned bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* streams.cc: what the next launch may have. */
void emulate_allow_shared(size_t shared_bytes);
#define ALLOW_SHARED(kernel, shared_bytes) ((void)(kernel), emulate_allow_shared(shared_bytes))

static inline long long __double_as_longlong(double x)
{
    long long bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double __longlong_as_double(long long bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* streams.cc: enqueues a kernel. body runs once for each thread. */
void emulate_enqueue(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                     std::function<void()> body);
/* threads.cc: runs it. */
void emulate_run_kernel(dim3 grid, dim3 block, size_t shared_bytes,
                        const std::function<void()> &body);

/* memory.cc: ends the program if one of these words is an address of memory that the device does not
 * reach: neither its own, nor pinned. */
void emulate_check_addresses(const void *argument, size_t size_bytes, const char *what);

/* `argument` is a copy: what lies between its members becomes zero. */
template <typename T> void emulate_check_argument(T argument)
{
#if defined(__has_builtin) && __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&argument);
    emulate_check_addresses(&argument, sizeof argument, "a kernel");
#endif
}

/* Arguments are copied when the kernel is launched, as CUDA does. */
template <typename... Parameters, typename... Arguments>
void emulate_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                    cudaStream_t stream, Arguments &&...arguments)
{
    std::tuple<std::decay_t<Parameters>...> copies(std::forward<Arguments>(arguments)...);
    std::apply([](const auto &...each) { (emulate_check_argument(each), ...); }, copies);
    emulate_enqueue(grid, block, shared_bytes, stream,
                    [kernel, copies] { std::apply(kernel, copies); });
}

#define LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                                     \
    emulate_launch(kernel, grid, block, shared_bytes, stream, __VA_ARGS__)

/* threads.cc: of kernels that may overlap the one before. Device memory is closed until the first
 * thread waits, and each thread has to wait once. */
void emulate_begin_overlapped();
void emulate_wait_for_previous();

template <typename... Parameters, typename... Arguments>
void emulate_launch_overlapped(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                               size_t shared_bytes, cudaStream_t stream, Arguments &&...arguments)
{
    std::tuple<std::decay_t<Parameters>...> copies(std::forward<Arguments>(arguments)...);
    std::apply([](const auto &...each) { (emulate_check_argument(each), ...); }, copies);
    emulate_enqueue(grid, block, shared_bytes, stream, [kernel, copies] {
        emulate_begin_overlapped();
        std::apply(kernel, copies);
    });
}

#define LAUNCH_OVERLAPPED(kernel, grid, block, shared_bytes, stream, ...)                          \
    emulate_launch_overlapped(kernel, grid, block, shared_bytes, stream, __VA_ARGS__)

static inline void wait_for_previous()
{
    emulate_wait_for_previous();
}

static inline void prefetch(const void *at)
{
    (void)at;
}

/* threads.cc: opens and closes device memory where it is closed. */
void emulate_read_ahead(bool reads);

static inline void begin_reading_ahead()
{
    emulate_read_ahead(true);
}

static inline void end_reading_ahead()
{
    emulate_read_ahead(false);
}

/* Blocks run one after the other. */
static inline bool is_last_block(unsigned *count, unsigned blocks)
{
    *count = *count + 1 < blocks ? *count + 1 : 0;
    return *count == 0;
}

static inline unsigned count_up(unsigned *count)
{
    return (*count)++;
}

static inline float load_of_other(const float *from)
{
    return *from;
}

static inline void prefetch_span(const void *at, size_t bytes)
{
    (void)at;
    (void)bytes;
}

#endif
