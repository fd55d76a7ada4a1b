/* Fills memory with the neutral element of a reduction. Called by whatever ends an exclusive scan. */
#include "common/neutral.h"

#include <stdint.h>
#include <string.h>

#include "base/assert.h"

/* As bits. */
typedef struct constants {
    uint64_t one;
    uint64_t largest;
    uint64_t smallest;
} constants;

static const constants of_type[COLL_TYPE_LAST + 1] = {
    [COLL_FLOAT32] = {0x3f800000, 0x7f800000, 0xff800000},
    [COLL_FLOAT64] = {0x3ff0000000000000, 0x7ff0000000000000, 0xfff0000000000000},
    [COLL_INT32] = {1, INT32_MAX, (uint32_t)INT32_MIN},
    [COLL_INT64] = {1, INT64_MAX, (uint64_t)INT64_MIN},
    [COLL_UINT8] = {1, UINT8_MAX, 0},
    [COLL_FLOAT16] = {0x3c00, 0x7c00, 0xfc00},
    [COLL_BFLOAT16] = {0x3f80, 0x7f80, 0xff80},
    [COLL_INT8] = {1, INT8_MAX, (uint8_t)INT8_MIN},
    [COLL_UINT64] = {1, UINT64_MAX, 0},
    [COLL_UINT32] = {1, UINT32_MAX, 0},
};

static uint64_t bits_of(coll_type type, coll_reduce_op reduce)
{
    switch (reduce) {
    case COLL_PRODUCT:
        return of_type[type].one;
    case COLL_MIN:
        return of_type[type].largest;
    case COLL_MAX:
        return of_type[type].smallest;
    case COLL_AND:
        return UINT64_MAX;
    default:
        return 0;
    }
}

void coll_neutral_fill(void *out, coll_type type, coll_reduce_op reduce, size_t count)
{
    const size_t element_bytes = coll_type_size_bytes(type);
    const uint64_t bits = bits_of(type, reduce);
    const uint8_t byte = (uint8_t)bits;
    const uint16_t half = (uint16_t)bits;
    const uint32_t word = (uint32_t)bits;
    const void *element = element_bytes == 1   ? (const void *)&byte
                          : element_bytes == 2 ? (const void *)&half
                          : element_bytes == 4 ? (const void *)&word
                                               : (const void *)&bits;
    BASE_ASSERT(element_bytes > 0);
    if (bits == 0 || bits == UINT64_MAX) {
        memset(out, byte, count * element_bytes);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy((uint8_t *)out + i * element_bytes, element, element_bytes);
    }
}
