#include "reference.h"

#include <stdint.h>
#include <string.h>

enum { RANKS_MAX = 64 };

typedef union element {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
} element;

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static element input(coll_type type, int rank, size_t index, unsigned salt)
{
    static const double scales[] = {1.0, 1e-6, 3e4, 1e7, 0.125, 1e-3, 40.0};
    const uint64_t bits = scramble((uint64_t)rank << 48 ^ (uint64_t)salt << 40 ^ index);
    const double unit = (double)(bits >> 11) / 9007199254740992.0 - 0.5;
    const double value = unit * scales[(index + (size_t)rank * 3) % 7];
    element e = {.i64 = 0};
    switch (type) {
    case COLL_FLOAT32:
        e.f32 = index % 97 == 5 ? -0.0f : (float)value;
        break;
    case COLL_FLOAT64:
        e.f64 = index % 97 == 5 ? -0.0 : value;
        break;
    case COLL_INT32:
        e.i32 = (int32_t)(uint32_t)bits;
        break;
    case COLL_INT64:
        e.i64 = (int64_t)bits;
        break;
    case COLL_UINT8:
        e.u8 = (uint8_t)bits;
        break;
    default:
        break;
    }
    return e;
}

#define PICK(field, a, b, reduce)                                                                  \
    ((reduce) == COLL_MIN ? ((b).field < (a).field ? (b).field : (a).field)                        \
                          : ((b).field > (a).field ? (b).field : (a).field))

static element combine(coll_type type, coll_reduce reduce, element a, element b)
{
    const int sum = reduce == COLL_SUM;
    element e = {.i64 = 0};
    switch (type) {
    case COLL_FLOAT32:
        e.f32 = sum ? a.f32 + b.f32 : PICK(f32, a, b, reduce);
        break;
    case COLL_FLOAT64:
        e.f64 = sum ? a.f64 + b.f64 : PICK(f64, a, b, reduce);
        break;
    case COLL_INT32:
        e.i32 = sum ? (int32_t)((uint32_t)a.i32 + (uint32_t)b.i32) : PICK(i32, a, b, reduce);
        break;
    case COLL_INT64:
        e.i64 = sum ? (int64_t)((uint64_t)a.i64 + (uint64_t)b.i64) : PICK(i64, a, b, reduce);
        break;
    case COLL_UINT8:
        e.u8 = sum ? (uint8_t)(a.u8 + b.u8) : PICK(u8, a, b, reduce);
        break;
    default:
        break;
    }
    return e;
}

/* Neighbours in pairs, level by level; the one left over goes up as it is. */
static element in_tree_order(coll_type type, coll_reduce reduce, element *values, int count)
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

/* Blocks as equal as can be, the longer ones first; block b starts at rank b + 1 and ends at b. */
static element in_ring_order(coll_type type, coll_reduce reduce, const element *values, int ranks,
                             size_t index, size_t count)
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

void reference_input(void *out, coll_type type, int rank, size_t index, unsigned salt)
{
    const element e = input(type, rank, index, salt);
    memcpy(out, &e, coll_type_size_bytes(type));
}

void reference_all_reduce(void *out, coll_type type, coll_reduce reduce, coll_algorithm algorithm,
                          int ranks, size_t index, size_t count, unsigned salt)
{
    element values[RANKS_MAX];
    for (int r = 0; r < ranks; r++) {
        values[r] = input(type, r, index, salt);
    }
    const element e = algorithm == COLL_ALGORITHM_RING && ranks > 1
                          ? in_ring_order(type, reduce, values, ranks, index, count)
                          : in_tree_order(type, reduce, values, ranks);
    memcpy(out, &e, coll_type_size_bytes(type));
}
