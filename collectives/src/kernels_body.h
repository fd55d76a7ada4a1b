/* The kernels' source, compiled once for each instruction set with KERNELS_NAME as the table's
 * name. The loops are plain C for the compiler to vectorise; ivdep says that an output which is
 * exactly an input does no harm, so that no run-time overlap check sends the in-place case to a
 * scalar loop. */
#include <stdint.h>

#include "kernels.h"

/* Element types that may lie at any address. */
typedef float any_float32 __attribute__((aligned(1), may_alias));
typedef double any_float64 __attribute__((aligned(1), may_alias));
typedef int32_t any_int32 __attribute__((aligned(1), may_alias));
typedef int64_t any_int64 __attribute__((aligned(1), may_alias));
typedef uint32_t any_uint32 __attribute__((aligned(1), may_alias));
typedef uint64_t any_uint64 __attribute__((aligned(1), may_alias));
typedef uint8_t any_uint8 __attribute__((may_alias));

#define SUM(a, b) ((a) + (b))
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))

#define KERNEL(name, element, operation)                                                           \
    static void name(void *out, const void *left, const void *right, size_t count)                 \
    {                                                                                              \
        element *o = out;                                                                          \
        const element *a = left;                                                                   \
        const element *b = right;                                                                  \
        _Pragma("GCC ivdep") for (size_t i = 0; i < count; i++)                                    \
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
        _Pragma("GCC ivdep") for (size_t i = 0; i < count; i++)                                    \
        {                                                                                          \
            const element value = (element)operation(a[i], b[i]);                                  \
            o[i] = value;                                                                          \
            o2[i] = value;                                                                         \
        }                                                                                          \
    }

KERNEL(sum_float32, any_float32, SUM)
KERNEL(min_float32, any_float32, MIN)
KERNEL(max_float32, any_float32, MAX)
KERNEL(sum_float64, any_float64, SUM)
KERNEL(min_float64, any_float64, MIN)
KERNEL(max_float64, any_float64, MAX)
KERNEL(sum_int32, any_uint32, SUM) /* unsigned: wraps by definition */
KERNEL(min_int32, any_int32, MIN)
KERNEL(max_int32, any_int32, MAX)
KERNEL(sum_int64, any_uint64, SUM)
KERNEL(min_int64, any_int64, MIN)
KERNEL(max_int64, any_int64, MAX)
KERNEL(sum_uint8, any_uint8, SUM)
KERNEL(min_uint8, any_uint8, MIN)
KERNEL(max_uint8, any_uint8, MAX)

#define ROW(type)                                                                                  \
    {                                                                                              \
        {0}, {sum_##type, sum_##type##_twice}, {min_##type, min_##type##_twice},                   \
            {max_##type, max_##type##_twice},                                                      \
    }

const coll_kernel KERNELS_NAME[COLL_UINT8 + 1][COLL_MAX + 1] = {
    [COLL_FLOAT32] = ROW(float32), [COLL_FLOAT64] = ROW(float64), [COLL_INT32] = ROW(int32),
    [COLL_INT64] = ROW(int64),     [COLL_UINT8] = ROW(uint8),
};
