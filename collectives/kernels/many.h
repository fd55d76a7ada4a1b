/* Kernels that combine any number of operands in one pass, and store the result to any number of
 * places: what the owner of a slice does: it reads every rank's buffer and writes every rank's.
 * Part of body.h. A few vectors at a time go through the whole canonical tree
 * (tree_order.h) before the next ones are read, so every byte crosses between the caches once each
 * way. */
#include <string.h>

#include "common/limits.h"

enum {
    MANY_UNITS = 4,  /* vectors side by side, so that one's latency hides another's */
    MANY_LEVELS = 8, /* pending subtrees: one per bit of the operand count */
#if defined(__AVX512F__)
    MANY_VECTOR = 64, /* bytes: a register of the instruction set */
#elif defined(__AVX2__)
    MANY_VECTOR = 32,
#else
    MANY_VECTOR = 16,
#endif
    MANY_BYTES = MANY_UNITS * MANY_VECTOR,
};

_Static_assert((1 << (MANY_LEVELS - 2)) >= COLL_RANKS_MAX, "one pending subtree per bit");

#define MANY_TYPE(name, element)                                                                   \
    typedef element name __attribute__((vector_size(MANY_VECTOR), aligned(1), may_alias))

MANY_TYPE(many_float32, float);
MANY_TYPE(many_float64, double);
MANY_TYPE(many_int32, int32_t);
MANY_TYPE(many_int64, int64_t);
MANY_TYPE(many_uint32, uint32_t);
MANY_TYPE(many_uint64, uint64_t);
MANY_TYPE(many_int8, int8_t);
MANY_TYPE(many_uint8, uint8_t);

/* x where the mask is set, else y: bits are chosen, none is computed. */
#define MANY_SELECT(vector, mask, x, y)                                                            \
    ((vector)(((many_int64)(mask) & (many_int64)(x)) | (~(many_int64)(mask) & (many_int64)(y))))

/* Of two NaN operands the left one is to stay, whatever the compiler makes of the loops around: it
 * may turn a sum round, and a processor keeps the first. */
#if defined(__AVX2__) || defined(__AVX512F__)
#define MANY_ORDERED(name, instruction, plain, vector)                                             \
    static inline vector name(vector a, vector b)                                                  \
    {                                                                                              \
        __asm__("v" instruction " %2, %1, %0" : "=v"(a) : "v"(a), "v"(b));                         \
        return a;                                                                                  \
    }
#elif defined(__SSE2__)
#define MANY_ORDERED(name, instruction, plain, vector)                                             \
    static inline vector name(vector a, vector b)                                                  \
    {                                                                                              \
        __asm__(instruction " %1, %0" : "+x"(a) : "x"(b));                                         \
        return a;                                                                                  \
    }
#else
#define MANY_ORDERED(name, instruction, plain, vector)                                             \
    static inline vector name(vector a, vector b)                                                  \
    {                                                                                              \
        return a plain b;                                                                          \
    }
#endif

MANY_ORDERED(many_float32_sum, "addps", +, many_float32)
MANY_ORDERED(many_float32_product, "mulps", *, many_float32)
MANY_ORDERED(many_float64_sum, "addpd", +, many_float64)
MANY_ORDERED(many_float64_product, "mulpd", *, many_float64)

#define MANY_FLOAT_SUM(vector, a, b)     vector##_sum(a, b)
#define MANY_FLOAT_PRODUCT(vector, a, b) vector##_product(a, b)

#define MANY_SUM(vector, a, b)     ((a) + (b))
#define MANY_PRODUCT(vector, a, b) ((a) * (b))
#define MANY_MIN(vector, a, b)     MANY_SELECT(vector, (b) < (a), b, a)
#define MANY_MAX(vector, a, b)     MANY_SELECT(vector, (b) > (a), b, a)
#define MANY_AND(vector, a, b)     ((a) & (b))
#define MANY_OR(vector, a, b)      ((a) | (b))
#define MANY_XOR(vector, a, b)     ((a) ^ (b))
#define MANY_KEEP(a, divisor)      (a)
#define MANY_DIVIDE(a, divisor)    ((a) / (divisor))

/* The last bytes, fewer than MANY_BYTES: padded copies, so that no one else's are touched. */
typedef struct many_rest {
    _Alignas(MANY_VECTOR) uint8_t operands[COLL_RANKS_MAX][MANY_BYTES];
    _Alignas(MANY_VECTOR) uint8_t out[MANY_BYTES];
} many_rest;

#define MANY(name, vector, divisor_type, COMBINE, FINISH)                                          \
    static inline void name##_at(uint8_t *const *outs, int out_count,                              \
                                 const uint8_t *const *operands, int operand_count, size_t at,     \
                                 int divisor)                                                      \
    {                                                                                              \
        vector stack[MANY_LEVELS][MANY_UNITS];                                                     \
        int depth = 0;                                                                             \
        for (int r = 0; r < operand_count; r++) {                                                  \
            const vector *from = (const vector *)(const void *)(operands[r] + at);                 \
            vector x0 = from[0];                                                                   \
            vector x1 = from[1];                                                                   \
            vector x2 = from[2];                                                                   \
            vector x3 = from[3];                                                                   \
            for (int bits = r; (bits & 1) != 0; bits >>= 1) {                                      \
                depth--;                                                                           \
                x0 = COMBINE(vector, stack[depth][0], x0);                                         \
                x1 = COMBINE(vector, stack[depth][1], x1);                                         \
                x2 = COMBINE(vector, stack[depth][2], x2);                                         \
                x3 = COMBINE(vector, stack[depth][3], x3);                                         \
            }                                                                                      \
            stack[depth][0] = x0;                                                                  \
            stack[depth][1] = x1;                                                                  \
            stack[depth][2] = x2;                                                                  \
            stack[depth][3] = x3;                                                                  \
            depth++;                                                                               \
        }                                                                                          \
        for (depth--; depth > 0; depth--) {                                                        \
            for (int u = 0; u < MANY_UNITS; u++) {                                                 \
                stack[depth - 1][u] = COMBINE(vector, stack[depth - 1][u], stack[depth][u]);       \
            }                                                                                      \
        }                                                                                          \
        for (int u = 0; divisor > 1 && u < MANY_UNITS; u++) {                                      \
            stack[0][u] = FINISH(stack[0][u], (divisor_type)divisor);                              \
        }                                                                                          \
        for (int o = 0; o < out_count; o++) {                                                      \
            vector *to = (vector *)(void *)(outs[o] + at);                                         \
            to[0] = stack[0][0];                                                                   \
            to[1] = stack[0][1];                                                                   \
            to[2] = stack[0][2];                                                                   \
            to[3] = stack[0][3];                                                                   \
        }                                                                                          \
    }                                                                                              \
    static void name(uint8_t *const *outs, int out_count, const uint8_t *const *operands,          \
                     int operand_count, size_t size_bytes, int divisor)                            \
    {                                                                                              \
        size_t at = 0;                                                                             \
        if (operand_count == 4 && out_count == 4) { /* known numbers: no loops inside */           \
            for (; at + MANY_BYTES <= size_bytes; at += MANY_BYTES) {                              \
                name##_at(outs, 4, operands, 4, at, divisor);                                      \
            }                                                                                      \
        } else if (operand_count == 8 && out_count == 8) {                                         \
            for (; at + MANY_BYTES <= size_bytes; at += MANY_BYTES) {                              \
                name##_at(outs, 8, operands, 8, at, divisor);                                      \
            }                                                                                      \
        }                                                                                          \
        for (; at + MANY_BYTES <= size_bytes; at += MANY_BYTES) {                                  \
            name##_at(outs, out_count, operands, operand_count, at, divisor);                      \
        }                                                                                          \
        if (at == size_bytes) {                                                                    \
            return;                                                                                \
        }                                                                                          \
        many_rest rest;                                                                            \
        const uint8_t *padded[COLL_RANKS_MAX];                                                     \
        uint8_t *const out = rest.out;                                                             \
        const size_t left = size_bytes - at;                                                       \
        for (int r = 0; r < operand_count; r++) {                                                  \
            memcpy(rest.operands[r], operands[r] + at, left);                                      \
            memset(rest.operands[r] + left, 0, MANY_BYTES - left);                                 \
            padded[r] = rest.operands[r];                                                          \
        }                                                                                          \
        name##_at(&out, 1, padded, operand_count, 0, divisor);                                     \
        for (int o = 0; o < out_count; o++) {                                                      \
            memcpy(outs[o] + at, out, left);                                                       \
        }                                                                                          \
    }

/* An average of integers has no vector division: it goes the long way (tree_order.c). */
#define MANY_KERNELS(type, wraps, SUM_OF, PRODUCT_OF)                                              \
    MANY(many_sum_##type, many_##wraps, int, SUM_OF, MANY_KEEP)                                    \
    MANY(many_product_##type, many_##wraps, int, PRODUCT_OF, MANY_KEEP)                            \
    MANY(many_min_##type, many_##type, int, MANY_MIN, MANY_KEEP)                                   \
    MANY(many_max_##type, many_##type, int, MANY_MAX, MANY_KEEP)

MANY_KERNELS(float32, float32, MANY_FLOAT_SUM, MANY_FLOAT_PRODUCT)
MANY_KERNELS(float64, float64, MANY_FLOAT_SUM, MANY_FLOAT_PRODUCT)
MANY_KERNELS(int32, uint32, MANY_SUM, MANY_PRODUCT)
MANY_KERNELS(int64, uint64, MANY_SUM, MANY_PRODUCT)
MANY_KERNELS(uint64, uint64, MANY_SUM, MANY_PRODUCT)
MANY_KERNELS(uint32, uint32, MANY_SUM, MANY_PRODUCT)
MANY_KERNELS(int8, uint8, MANY_SUM, MANY_PRODUCT)
MANY_KERNELS(uint8, uint8, MANY_SUM, MANY_PRODUCT)
MANY(many_average_float32, many_float32, float, MANY_FLOAT_SUM, MANY_DIVIDE)
MANY(many_average_float64, many_float64, double, MANY_FLOAT_SUM, MANY_DIVIDE)
/* For integers of every width. */
MANY(many_and, many_uint64, uint64_t, MANY_AND, MANY_KEEP)
MANY(many_or, many_uint64, uint64_t, MANY_OR, MANY_KEEP)
MANY(many_xor, many_uint64, uint64_t, MANY_XOR, MANY_KEEP)
