/* The results of collectives, computed element by element without the library. Used by grid_case.c
 * and the tests of kernels. */
#include "reference.h"

#include <math.h>
#include <string.h>

enum { RANKS_MAX = 64 };

typedef union element {
    float f32;
    double f64;
    uint16_t half;
    int8_t i8;
    uint8_t u8;
    int32_t i32;
    int64_t i64;
    uint64_t u64;
    uint32_t u32;
    uint32_t map[REFERENCE_BYTES_MAX / sizeof(uint32_t)];
} element;

size_t reference_size_bytes(coll_type type)
{
    return type == REFERENCE_MAPS ? sizeof(((element *)NULL)->map) : coll_type_size_bytes(type);
}

typedef struct half_format {
    int fraction_bits;
    int exponent_max; /* of finite values, as in x × 2^e with 1 <= x < 2 */
    int exponent_min; /* of normal values */
} half_format;

static half_format format_of(coll_type type)
{
    return type == COLL_FLOAT16 ? (half_format){10, 15, -14} : (half_format){7, 127, -126};
}

static bool is_half(coll_type type)
{
    return type == COLL_FLOAT16 || type == COLL_BFLOAT16;
}

/* 2^exponent, of a normal double. */
static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power = 0;
    memcpy(&power, &bits, sizeof power);
    return power;
}

float reference_widen(coll_type type, uint16_t half)
{
    const half_format f = format_of(type);
    const unsigned fraction = half & ((1U << f.fraction_bits) - 1);
    const int biased = half >> f.fraction_bits & ((1 << (15 - f.fraction_bits)) - 1);
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    float value = 0;
    if (biased == (1 << (15 - f.fraction_bits)) - 1) { /* infinity, or a NaN whose bits stay */
        const uint32_t quiet = fraction != 0 && type == COLL_FLOAT16 ? 0x400000 : 0;
        const uint32_t bits = sign | 0x7f800000 | fraction << (23 - f.fraction_bits) | quiet;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    const double mantissa = biased == 0 ? fraction : fraction + (1U << f.fraction_bits);
    const int exponent = (biased == 0 ? 1 : biased) - 1 + f.exponent_min - f.fraction_bits;
    value = (float)(mantissa * power_of_two(exponent));
    return sign != 0 ? -value : value;
}

uint16_t reference_narrow(coll_type type, float value)
{
    const half_format f = format_of(type);
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    const unsigned sign = bits >> 16 & 0x8000;
    const unsigned infinity = (0x7fffU >> f.fraction_bits) << f.fraction_bits;
    if (isnan(value)) {
        return (uint16_t)(sign | infinity | 1U << (f.fraction_bits - 1) |
                          (bits & 0x7fffff) >> (23 - f.fraction_bits));
    }
    const double size = fabs((double)value);
    const double most = 2 - power_of_two(-f.fraction_bits - 1);
    if (size >= most * power_of_two(f.exponent_max)) {
        return (uint16_t)(sign | infinity);
    }
    int exponent = 0;
    (void)frexp(size, &exponent);
    exponent = size > 0 && exponent - 1 > f.exponent_min ? exponent - 1 : f.exponent_min;
    const double units = size * power_of_two(f.fraction_bits - exponent); /* exact */
    unsigned whole = (unsigned)units;
    const double rest = units - whole;
    whole += rest > 0.5 || (rest == 0.5 && whole % 2 == 1) ? 1 : 0;
    const unsigned steps = (unsigned)(exponent - f.exponent_min) << f.fraction_bits;
    return (uint16_t)(sign | (steps + whole));
}

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static element from_whole(coll_type type, int value)
{
    element e = {.i64 = value};
    if (type == COLL_FLOAT32) {
        e.f32 = (float)value;
    } else if (type == COLL_FLOAT64) {
        e.f64 = (double)value;
    } else if (is_half(type)) {
        e.half = reference_narrow(type, (float)value);
    }
    return e;
}

static element input(coll_type type, int rank, size_t index, unsigned salt)
{
    static const double scales[] = {1.0, 1e-6, 3e4, 1e7, 0.125, 1e-3, 40.0};
    const uint64_t bits = scramble((uint64_t)rank << 48 ^ (uint64_t)salt << 40 ^ index);
    if (type == REFERENCE_MAPS) {
        return (element){
            .map = {(uint32_t)bits | 1, (uint32_t)(bits >> 32), (uint32_t)(bits >> 16)}};
    }
    if ((salt & REFERENCE_EXACT_SUMS) != 0) {
        return from_whole(type, (int)(bits % 5) - 2);
    }
    if ((salt & REFERENCE_EXACT_PRODUCTS) != 0) {
        return from_whole(type, (bits & 1 ? -1 : 1) * (bits & 2 && rank % 8 == 0 ? 2 : 1));
    }
    const double unit = (double)(bits >> 11) / 9007199254740992.0 - 0.5;
    const double value = index % 97 == 5 ? -0.0 : unit * scales[(index + (size_t)rank * 3) % 7];
    element e = {.u64 = bits};
    if (type == COLL_FLOAT32) {
        e.f32 = (float)value;
    } else if (type == COLL_FLOAT64) {
        e.f64 = value;
    } else if (is_half(type)) { /* no larger than a thousand, so that sums stay finite */
        e.half = reference_narrow(type, (float)(fabs(value) > 500 ? value / 2e4 : value));
    }
    return e;
}

#define CHOOSE(a, b, reduce)                                                                       \
    ((reduce) == COLL_MIN ? ((b) < (a) ? (b) : (a)) : ((b) > (a) ? (b) : (a)))

/* Sum, average and product, or min and max. */
#define FLOAT_OF(a, b, reduce)                                                                     \
    ((reduce) == COLL_SUM || (reduce) == COLL_AVERAGE ? (a) + (b)                                  \
     : (reduce) == COLL_PRODUCT                       ? (a) * (b)                                  \
                                                      : CHOOSE(a, b, reduce))
#define WHOLE_OF(type, a, b, reduce)                                                               \
    ((reduce) == COLL_SUM || (reduce) == COLL_AVERAGE ? (type)((uint64_t)(a) + (uint64_t)(b))      \
     : (reduce) == COLL_PRODUCT                       ? (type)((uint64_t)(a) * (uint64_t)(b))      \
     : (reduce) == COLL_AND                           ? (type)((uint64_t)(a) & (uint64_t)(b))      \
     : (reduce) == COLL_OR                            ? (type)((uint64_t)(a) | (uint64_t)(b))      \
     : (reduce) == COLL_XOR                           ? (type)((uint64_t)(a) ^ (uint64_t)(b))      \
                                                      : (type)CHOOSE(a, b, reduce))

static element combine_half(coll_type type, coll_reduce_op reduce, element a, element b)
{
    const float x = reference_widen(type, a.half);
    const float y = reference_widen(type, b.half);
    if (reduce == COLL_MIN || reduce == COLL_MAX) {
        return (reduce == COLL_MIN ? y < x : y > x) ? b : a;
    }
    return (element){.half = reference_narrow(type, reduce == COLL_PRODUCT ? x * y : x + y)};
}

static element combine(coll_type type, coll_reduce_op reduce, element a, element b)
{
    element e = {.u64 = 0};
    if (type == REFERENCE_MAPS) {
        return (element){.map = {a.map[0] * b.map[0], a.map[0] * b.map[1] + a.map[1],
                                 a.map[0] * b.map[2] + a.map[2]}};
    }
    switch (type) {
    case COLL_FLOAT32:
        e.f32 = FLOAT_OF(a.f32, b.f32, reduce);
        break;
    case COLL_FLOAT64:
        e.f64 = FLOAT_OF(a.f64, b.f64, reduce);
        break;
    case COLL_INT8:
        e.i8 = WHOLE_OF(int8_t, a.i8, b.i8, reduce);
        break;
    case COLL_UINT8:
        e.u8 = WHOLE_OF(uint8_t, a.u8, b.u8, reduce);
        break;
    case COLL_INT32:
        e.i32 = WHOLE_OF(int32_t, a.i32, b.i32, reduce);
        break;
    case COLL_UINT32:
        e.u32 = WHOLE_OF(uint32_t, a.u32, b.u32, reduce);
        break;
    case COLL_INT64:
        e.i64 = WHOLE_OF(int64_t, a.i64, b.i64, reduce);
        break;
    case COLL_UINT64:
        e.u64 = WHOLE_OF(uint64_t, a.u64, b.u64, reduce);
        break;
    case COLL_FLOAT16:
    case COLL_BFLOAT16:
        e = combine_half(type, reduce, a, b);
        break;
    }
    return e;
}

static element divide(coll_type type, element e, int divisor)
{
    switch (type) {
    case COLL_FLOAT32:
        e.f32 /= (float)divisor;
        break;
    case COLL_FLOAT64:
        e.f64 /= (double)divisor;
        break;
    case COLL_INT8:
        e.i8 = (int8_t)(e.i8 / divisor);
        break;
    case COLL_UINT8:
        e.u8 = (uint8_t)(e.u8 / divisor);
        break;
    case COLL_INT32:
        e.i32 /= divisor;
        break;
    case COLL_UINT32:
        e.u32 /= (uint32_t)divisor;
        break;
    case COLL_INT64:
        e.i64 /= divisor;
        break;
    case COLL_UINT64:
        e.u64 /= (uint64_t)divisor;
        break;
    case COLL_FLOAT16:
    case COLL_BFLOAT16:
        e.half = reference_narrow(type, reference_widen(type, e.half) / (float)divisor);
        break;
    }
    return e;
}

/* Neighbours in pairs, level by level; the one left over goes up as it is. */
static element in_tree_order(coll_type type, coll_reduce_op reduce, element *values, int count)
{
    while (count > 1) {
        for (int i = 0; i < count / 2; i++) {
            values[i] = combine(type, reduce, values[2 * i], values[2 * i + 1]);
        }
        if (count % 2 == 1) {
            values[count / 2] = values[count - 1];
        }
        count = (count + 1) / 2;
    }
    return values[0];
}

/* Combines a subtree of the double tree: left, own, right. The subtree of a position reaches
 * `reach` positions to each side. Position 0 is the top, and has all others in its right
 * subtree. */
static element in_order(coll_type type, coll_reduce_op reduce, const element *values, int count,
                        int position, int reach)
{
    element sum = values[position];
    if (position > 0 && reach > 0) {
        sum = combine(type, reduce,
                      in_order(type, reduce, values, count, position - reach, reach / 2), sum);
    }
    while (reach > 0 && position + reach >= count) {
        reach /= 2;
    }
    if (reach > 0) {
        sum = combine(type, reduce, sum,
                      in_order(type, reduce, values, count, position + reach, reach / 2));
    }
    return sum;
}

/* The first half of the vector (the longer one) has the ranks in order; the second in reverse, or
 * moved on by one where their number is odd. */
static element in_double_tree_order(coll_type type, coll_reduce_op reduce, const element *values,
                                    int ranks, size_t index, size_t count)
{
    element positions[RANKS_MAX];
    int reach = 1;
    for (int position = 0; position < ranks; position++) {
        const int rank = index < count - count / 2 ? position
                         : ranks % 2 == 0          ? ranks - 1 - position
                                                   : (position + 1) % ranks;
        positions[position] = values[rank];
    }
    while (2 * reach < ranks) {
        reach *= 2;
    }
    return in_order(type, reduce, positions, ranks, 0, reach);
}

/* The tree in float32, divided there, and rounded once. */
static element in_wide_tree_order(coll_type type, coll_reduce_op reduce, element *values, int count)
{
    for (int i = 0; i < count; i++) {
        values[i].f32 = reference_widen(type, values[i].half);
    }
    element e = in_tree_order(COLL_FLOAT32, reduce, values, count);
    if (reduce == COLL_AVERAGE) {
        e = divide(COLL_FLOAT32, e, count);
    }
    return (element){.half = reference_narrow(type, e.f32)};
}

/* Blocks as equal as can be, the longer ones first; block b starts at rank b + 1 and ends at b. */
static element in_ring_order(coll_type type, coll_reduce_op reduce, const element *values,
                             int ranks, size_t index, size_t count)
{
    size_t begin = 0;
    int block = 0;
    for (; block < ranks; block++) {
        const size_t length = count / (size_t)ranks + ((size_t)block < count % (size_t)ranks);
        if (index < begin + length) {
            break;
        }
        begin += length;
    }
    element sum = values[(block + 1) % ranks];
    for (int k = 2; k <= ranks; k++) {
        sum = combine(type, reduce, sum, values[(block + k) % ranks]);
    }
    return sum;
}

/* Of a constant size each: a sanitizer would look at every call of memcpy. */
static void store(void *out, coll_type type, element e)
{
    switch (reference_size_bytes(type)) {
    case sizeof e.map:
        memcpy(out, &e, sizeof e.map);
        break;
    case sizeof e.u8:
        memcpy(out, &e, sizeof e.u8);
        break;
    case sizeof e.half:
        memcpy(out, &e, sizeof e.half);
        break;
    case sizeof e.u32:
        memcpy(out, &e, sizeof e.u32);
        break;
    default:
        memcpy(out, &e, sizeof e.u64);
        break;
    }
}

void reference_input(void *out, coll_type type, int rank, size_t index, unsigned salt)
{
    store(out, type, input(type, rank, index, salt));
}

void reference_combine(void *out, coll_type type, coll_reduce_op reduce, const void *left,
                       const void *right)
{
    element a = {.map = {0}};
    element b = {.map = {0}};
    memcpy(&a, left, reference_size_bytes(type));
    memcpy(&b, right, reference_size_bytes(type));
    store(out, type, combine(type, reduce, a, b));
}

/* The largest value of a type, or the smallest. */
static element extreme(coll_type type, bool largest)
{
    switch (type) {
    case COLL_FLOAT32:
        return (element){.f32 = largest ? INFINITY : -INFINITY};
    case COLL_FLOAT64:
        return (element){.f64 = largest ? (double)INFINITY : -(double)INFINITY};
    case COLL_FLOAT16:
    case COLL_BFLOAT16:
        return (element){.half = reference_narrow(type, largest ? INFINITY : -INFINITY)};
    case COLL_INT8:
        return (element){.i8 = largest ? INT8_MAX : INT8_MIN};
    case COLL_INT32:
        return (element){.i32 = largest ? INT32_MAX : INT32_MIN};
    case COLL_INT64:
        return (element){.i64 = largest ? INT64_MAX : INT64_MIN};
    default: /* without a sign */
        return (element){.u64 = largest ? UINT64_MAX : 0};
    }
}

void reference_neutral(void *out, coll_type type, coll_reduce_op reduce)
{
    const bool chooses = reduce == COLL_MIN || reduce == COLL_MAX;
    const element e = type == REFERENCE_MAPS ? (element){.map = {1}}
                      : chooses              ? extreme(type, reduce == COLL_MIN)
                      : reduce == COLL_AND   ? (element){.u64 = UINT64_MAX}
                                             : from_whole(type, reduce == COLL_PRODUCT ? 1 : 0);
    memcpy(out, &e, reference_size_bytes(type));
}

void reference_all_reduce(const reference_reduction *r, size_t index, void *out)
{
    const coll_type type = r->type;
    const coll_reduce_op reduce = r->reduce;
    const coll_algorithm algorithm = r->algorithm;
    const int ranks = r->ranks;
    const bool rounds = is_half(type) && reduce != COLL_MIN && reduce != COLL_MAX;
    element values[RANKS_MAX];
    element e;
    for (int rank = 0; rank < ranks; rank++) {
        values[rank] = input(type, rank, index, r->salt);
    }
    if (rounds && (algorithm == COLL_ALGORITHM_DIRECT || algorithm == COLL_ALGORITHM_TWO_LEVEL)) {
        e = in_wide_tree_order(type, reduce, values, ranks); /* two levels of one host: one */
    } else {
        e = algorithm == COLL_ALGORITHM_RING && ranks > 1
                ? in_ring_order(type, reduce, values, ranks, index, r->count)
            : algorithm == COLL_ALGORITHM_TREE && ranks > 1
                ? in_double_tree_order(type, reduce, values, ranks, index, r->count)
                : in_tree_order(type, reduce, values, ranks);
        e = reduce == COLL_AVERAGE ? divide(type, e, ranks) : e;
    }
    store(out, type, e);
}
