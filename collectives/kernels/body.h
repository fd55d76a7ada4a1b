/* The kernels' source, compiled once for each instruction set with KERNELS_NAME as the table's
 * name. The loops are plain C for the compiler to vectorise; ivdep says that an output which is
 * exactly an input does no harm, so that no run-time overlap check sends the in-place case to a
 * scalar loop. */
#include <stdint.h>

#include "kernels/kernels.h"

#if defined(__clang__)
#define KERNELS_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define KERNELS_IVDEP _Pragma("GCC ivdep")
#endif

/* Element types that may lie at any address. */
typedef float any_float32 __attribute__((aligned(1), may_alias));
typedef double any_float64 __attribute__((aligned(1), may_alias));
typedef int32_t any_int32 __attribute__((aligned(1), may_alias));
typedef int64_t any_int64 __attribute__((aligned(1), may_alias));
typedef uint16_t any_uint16 __attribute__((aligned(1), may_alias));
typedef uint32_t any_uint32 __attribute__((aligned(1), may_alias));
typedef uint64_t any_uint64 __attribute__((aligned(1), may_alias));
typedef int8_t any_int8 __attribute__((may_alias));
typedef uint8_t any_uint8 __attribute__((may_alias));

#define SUM(a, b)     ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define MIN(a, b)     ((b) < (a) ? (b) : (a))
#define MAX(a, b)     ((b) > (a) ? (b) : (a))
#define AND(a, b)     ((a) & (b))
#define OR(a, b)      ((a) | (b))
#define XOR(a, b)     ((a) ^ (b))

#include "kernels/half.h"
#include "kernels/many.h"

#define KERNEL(name, element, operation)                                                           \
    static void name(void *out, const void *left, const void *right, size_t count)                 \
    {                                                                                              \
        element *o = out;                                                                          \
        const element *a = left;                                                                   \
        const element *b = right;                                                                  \
        KERNELS_IVDEP for (size_t i = 0; i < count; i++)                                           \
        {                                                                                          \
            o[i] = (element)operation(a[i], b[i]);                                                 \
        }                                                                                          \
    }                                                                                              \
    static void name##_twice(void *out, void *also, const void *left, const void *right,           \
                             size_t count)                                                         \
    {                                                                                              \
        element *o = out;                                                                          \
        element *o2 = also;                                                                        \
        const element *a = left;                                                                   \
        const element *b = right;                                                                  \
        KERNELS_IVDEP for (size_t i = 0; i < count; i++)                                           \
        {                                                                                          \
            const element value = (element)operation(a[i], b[i]);                                  \
            o[i] = value;                                                                          \
            o2[i] = value;                                                                         \
        }                                                                                          \
    }

/* The same for sums and products of floats: of two NaNs the left one stays (MANY_ORDERED). */
#define KERNEL_ORDERED(name, vector, operation)                                                    \
    static inline void name##_to(uint8_t *o, uint8_t *o2, const uint8_t *a, const uint8_t *b,      \
                                 size_t bytes)                                                     \
    {                                                                                              \
        size_t at = 0;                                                                             \
        for (; at + MANY_VECTOR <= bytes; at += MANY_VECTOR) {                                     \
            const vector value = operation(*(const vector *)(const void *)(a + at),                \
                                           *(const vector *)(const void *)(b + at));               \
            *(vector *)(void *)(o + at) = value;                                                   \
            if (o2 != NULL) {                                                                      \
                *(vector *)(void *)(o2 + at) = value;                                              \
            }                                                                                      \
        }                                                                                          \
        if (at < bytes) {                                                                          \
            vector rest[2] = {{0}, {0}};                                                           \
            memcpy(&rest[0], a + at, bytes - at);                                                  \
            memcpy(&rest[1], b + at, bytes - at);                                                  \
            rest[0] = operation(rest[0], rest[1]);                                                 \
            memcpy(o + at, &rest[0], bytes - at);                                                  \
            if (o2 != NULL) {                                                                      \
                memcpy(o2 + at, &rest[0], bytes - at);                                             \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void name(void *out, const void *left, const void *right, size_t count)                 \
    {                                                                                              \
        name##_to(out, NULL, left, right, count * sizeof((vector){0}[0]));                         \
    }                                                                                              \
    static void name##_twice(void *out, void *also, const void *left, const void *right,           \
                             size_t count)                                                         \
    {                                                                                              \
        name##_to(out, also, left, right, count * sizeof((vector){0}[0]));                         \
    }

#define DIVIDE(name, element, divisor_type)                                                        \
    static void name(void *data, size_t count, int divisor)                                        \
    {                                                                                              \
        element *at = data;                                                                        \
        for (size_t i = 0; i < count; i++) {                                                       \
            at[i] = (element)(at[i] / (divisor_type)divisor);                                      \
        }                                                                                          \
    }

/* `wraps` is the type that sums and products are computed in: unsigned, so that they wrap. */
#define KERNELS(type, wraps, divisor_type)                                                         \
    KERNEL(sum_##type, any_##wraps, SUM)                                                           \
    KERNEL(product_##type, any_##wraps, PRODUCT)                                                   \
    KERNEL(min_##type, any_##type, MIN)                                                            \
    KERNEL(max_##type, any_##type, MAX)                                                            \
    DIVIDE(divide_##type, any_##type, divisor_type)

#define KERNELS_FLOAT(type, element)                                                               \
    KERNEL_ORDERED(sum_##type, many_##type, many_##type##_sum)                                     \
    KERNEL_ORDERED(product_##type, many_##type, many_##type##_product)                             \
    KERNEL(min_##type, any_##type, MIN)                                                            \
    KERNEL(max_##type, any_##type, MAX)                                                            \
    DIVIDE(divide_##type, any_##type, element)

/* Bit by bit, of integers of `size` bytes, with a sign or without. */
#define KERNELS_BITS(size, element)                                                                \
    KERNEL(and_##size, element, AND)                                                               \
    KERNEL(or_##size, element, OR)                                                                 \
    KERNEL(xor_##size, element, XOR)

KERNELS_FLOAT(float32, float)
KERNELS_FLOAT(float64, double)
KERNELS(int32, uint32, int32_t)
KERNELS(int64, uint64, int64_t)
KERNELS(uint64, uint64, uint64_t)
KERNELS(uint32, uint32, uint32_t)
KERNELS(int8, uint8, int)
KERNELS(uint8, uint8, int)
KERNELS_HALF(float16)
KERNELS_HALF(bfloat16)
KERNELS_BITS(1, any_uint8)
KERNELS_BITS(4, any_uint32)
KERNELS_BITS(8, any_uint64)

#define PLAIN(operation, type, size)                                                               \
    {                                                                                              \
        .combine = operation##_##type, .combine_twice = operation##_##type##_twice,                \
        .combine_many = many_##operation##_##type, .element_bytes = (size)                         \
    }

/* Of 16-bit values, which are chosen as they are. */
#define PLAIN_HALF(operation, half)                                                                \
    {                                                                                              \
        .combine = operation##_##half, .combine_twice = operation##_##half##_twice,                \
        .element_bytes = 2                                                                         \
    }

#define COMBINES(type, size, average_many)                                                         \
    [COLL_SUM] = PLAIN(sum, type, size), [COLL_MIN] = PLAIN(min, type, size),                      \
    [COLL_MAX] = PLAIN(max, type, size), [COLL_PRODUCT] = PLAIN(product, type, size),              \
    [COLL_AVERAGE] = {.combine = sum_##type,                                                       \
                      .combine_twice = sum_##type##_twice,                                         \
                      .combine_many = (average_many),                                              \
                      .divide = divide_##type,                                                     \
                      .element_bytes = (size)}

#define BITS(operation, size)                                                                      \
    {                                                                                              \
        .combine = operation##_##size, .combine_twice = operation##_##size##_twice,                \
        .combine_many = many_##operation, .element_bytes = (size)                                  \
    }

#define ROW_FLOAT(type, size)                                                                      \
    {                                                                                              \
        COMBINES(type, size, many_average_##type)                                                  \
    }

#define ROW_INTEGER(type, size)                                                                    \
    {                                                                                              \
        COMBINES(type, size, NULL), [COLL_AND] = BITS(and, size), [COLL_OR] = BITS(or, size),      \
                                    [COLL_XOR] = BITS(xor, size)                                   \
    }

#define WIDE(operation, half, reduce, division)                                                    \
    {                                                                                              \
        .combine = operation##_##half, .combine_twice = operation##_##half##_twice,                \
        .divide = (division), .wide = &KERNELS_NAME[COLL_FLOAT32][reduce],                         \
        .widen = widen_##half##_all, .narrow = narrow_##half##_all, .element_bytes = 2             \
    }

#define ROW_HALF(half)                                                                             \
    {                                                                                              \
        [COLL_SUM] = WIDE(sum, half, COLL_SUM, NULL), [COLL_MIN] = PLAIN_HALF(min, half),          \
        [COLL_MAX] = PLAIN_HALF(max, half),                                                        \
        [COLL_PRODUCT] = WIDE(product, half, COLL_PRODUCT, NULL),                                  \
        [COLL_AVERAGE] = WIDE(sum, half, COLL_AVERAGE, divide_##half),                             \
    }

coll_kernel_table KERNELS_NAME = {
    [COLL_FLOAT32] = ROW_FLOAT(float32, 4), [COLL_FLOAT64] = ROW_FLOAT(float64, 8),
    [COLL_INT32] = ROW_INTEGER(int32, 4),   [COLL_INT64] = ROW_INTEGER(int64, 8),
    [COLL_UINT8] = ROW_INTEGER(uint8, 1),   [COLL_FLOAT16] = ROW_HALF(float16),
    [COLL_BFLOAT16] = ROW_HALF(bfloat16),   [COLL_INT8] = ROW_INTEGER(int8, 1),
    [COLL_UINT64] = ROW_INTEGER(uint64, 8), [COLL_UINT32] = ROW_INTEGER(uint32, 4),
};
