/* The numbers that coll-bench sends, the results that must come out, and the layout of buffers.
 * Called by cell.c, and by measure.c for the bus bandwidth. */
#include "data.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "common/neutral.h"

/* With the most ranks, the narrowest type has four values for each of them. */
static_assert(4 * FORKED_RANKS_MAX <= 256, "sums of bfloat16 are exact up to 256");

struct bench_data {
    int ranks;
    coll_type type;
    coll_reduce_op reduce;
    size_t element_bytes;
    uint8_t *periods; /* one of each rank, and the result's */
};

enum { VALUES_MAX = 89 };

/* Whole numbers up to this are exact in the type. */
static int64_t exact_max(coll_type type)
{
    switch (type) {
    case COLL_BFLOAT16:
        return 256;
    case COLL_FLOAT16:
        return 2048;
    default:
        return 1 << 24;
    }
}

static bool is_unsigned(coll_type type)
{
    return type == COLL_UINT8 || type == COLL_UINT32 || type == COLL_UINT64;
}

static int64_t value(const bench_data *data, int rank, int index)
{
    const int64_t share = exact_max(data->type) / FORKED_RANKS_MAX;
    const int64_t values = share < VALUES_MAX ? share : VALUES_MAX;
    switch (data->reduce) {
    case COLL_PRODUCT: /* two for one rank in eight: at most 2^8 of 64 ranks */
        return (index + rank) % 8 == 0 ? 2 : 1;
    case COLL_AVERAGE: /* all of it from one rank, so that nothing is left over */
        return index % data->ranks == rank ? (int64_t)data->ranks << index % 4 : 0;
    default: {
        const int64_t raw = (index + 7 * rank) % values;
        return is_unsigned(data->type) ? raw : raw - values / 2;
    }
    }
}

/* What a type of so many bits makes of a number. */
static int64_t wrap(const bench_data *data, int64_t number)
{
    switch (data->type) {
    case COLL_INT8:
        return (int8_t)number;
    case COLL_UINT8:
        return (uint8_t)number;
    case COLL_INT32:
        return (int32_t)number;
    case COLL_UINT32:
        return (uint32_t)number;
    default:
        return number;
    }
}

static int64_t combine(coll_reduce_op reduce, int64_t a, int64_t b)
{
    switch (reduce) {
    case COLL_MIN:
        return b < a ? b : a;
    case COLL_MAX:
        return b > a ? b : a;
    case COLL_PRODUCT:
        return a * b;
    case COLL_AND:
        return a & b;
    case COLL_OR:
        return a | b;
    case COLL_XOR:
        return a ^ b;
    default:
        return a + b;
    }
}

static int64_t reduced(const bench_data *data, int index, int operands)
{
    int64_t total = wrap(data, value(data, 0, index));
    for (int r = 1; r < operands; r++) {
        total = wrap(data, combine(data->reduce, total, wrap(data, value(data, r, index))));
    }
    return data->reduce == COLL_AVERAGE ? total / data->ranks : total;
}

/* IEEE binary16 of a whole number that it holds exactly. */
static uint16_t half_of(float number)
{
    uint32_t bits = 0;
    memcpy(&bits, &number, sizeof bits);
    if (number == 0.0F) {
        return 0;
    }
    const uint32_t sign = bits >> 16 & 0x8000U;
    const uint32_t exponent = (bits >> 23 & 0xffU) - 127 + 15;
    return (uint16_t)(sign | exponent << 10 | (bits >> 13 & 0x3ffU));
}

static void store(coll_type type, int64_t number, void *out)
{
    const float single = (float)number;
    const double wide = (double)number;
    const uint32_t word = (uint32_t)number;
    const uint8_t byte = (uint8_t)number;
    uint32_t bits = 0;
    uint16_t half = 0;
    memcpy(&bits, &single, sizeof bits);
    switch (type) {
    case COLL_FLOAT32:
        memcpy(out, &single, sizeof single);
        break;
    case COLL_FLOAT64:
        memcpy(out, &wide, sizeof wide);
        break;
    case COLL_FLOAT16:
        half = half_of(single);
        memcpy(out, &half, sizeof half);
        break;
    case COLL_BFLOAT16:
        half = (uint16_t)(bits >> 16);
        memcpy(out, &half, sizeof half);
        break;
    case COLL_INT32:
    case COLL_UINT32:
        memcpy(out, &word, sizeof word);
        break;
    case COLL_INT8:
    case COLL_UINT8:
        memcpy(out, &byte, sizeof byte);
        break;
    default:
        memcpy(out, &number, sizeof number);
    }
}

int bench_data_operands(coll_kind kind, int ranks, int rank)
{
    return kind == COLL_SCAN ? rank + 1 : kind == COLL_EXSCAN ? rank : ranks;
}

bench_data *bench_data_create(int ranks, coll_type type, coll_reduce_op reduce, int operands)
{
    BASE_ASSERT(ranks >= 1);
    bench_data *data = calloc(1, sizeof *data);
    const size_t element_bytes = coll_type_size_bytes(type);
    if (data == NULL) {
        return NULL;
    }
    *data = (bench_data){.ranks = ranks,
                         .type = type,
                         .reduce = reduce,
                         .element_bytes = element_bytes,
                         .periods = calloc((size_t)ranks + 1, BENCH_PERIOD * element_bytes)};
    if (data->periods == NULL) {
        free(data);
        return NULL;
    }
    for (int r = 0; r <= ranks; r++) {
        for (int i = 0; i < BENCH_PERIOD; i++) {
            const int64_t number = r < ranks     ? value(data, r, i)
                                   : reduce != 0 ? reduced(data, i, operands)
                                                 : 0;
            store(type, number,
                  data->periods + ((size_t)r * BENCH_PERIOD + (size_t)i) * element_bytes);
        }
    }
    if (reduce != 0 && operands == 0) {
        coll_neutral_fill(data->periods + (size_t)ranks * BENCH_PERIOD * element_bytes, type,
                          reduce, BENCH_PERIOD);
    }
    return data;
}

void bench_data_destroy(bench_data *data)
{
    if (data != NULL) {
        free(data->periods);
        free(data);
    }
}

static const uint8_t *period_of(const bench_data *data, int rank)
{
    const size_t row = rank == BENCH_REDUCED ? (size_t)data->ranks : (size_t)rank;
    return data->periods + row * BENCH_PERIOD * data->element_bytes;
}

/* How far the run of elements from `first` on goes until the period begins anew. */
static size_t run_length(size_t first, size_t count)
{
    const size_t rest = BENCH_PERIOD - first % BENCH_PERIOD;
    return count < rest ? count : rest;
}

void bench_data_fill(const bench_data *data, int rank, size_t first, size_t count, void *out)
{
    const uint8_t *period = period_of(data, rank);
    uint8_t *at = out;
    while (count > 0) {
        const size_t run = run_length(first, count);
        memcpy(at, period + first % BENCH_PERIOD * data->element_bytes, run * data->element_bytes);
        at += run * data->element_bytes;
        first += run;
        count -= run;
    }
}

size_t bench_data_wrong(const bench_data *data, int rank, size_t first, size_t count,
                        const void *values)
{
    const uint8_t *period = period_of(data, rank);
    const uint8_t *at = values;
    const size_t element_bytes = data->element_bytes;
    size_t wrong = 0;
    while (count > 0) {
        const size_t run = run_length(first, count);
        const uint8_t *wanted = period + first % BENCH_PERIOD * element_bytes;
        if (memcmp(at, wanted, run * element_bytes) != 0) {
            for (size_t i = 0; i < run * element_bytes; i += element_bytes) {
                wrong += memcmp(at + i, wanted + i, element_bytes) != 0;
            }
        }
        at += run * element_bytes;
        first += run;
        count -= run;
    }
    return wrong;
}

bench_layout bench_layout_make(coll_kind kind, int ranks, size_t size_bytes, size_t element_bytes)
{
    const size_t whole = size_bytes / element_bytes;
    const size_t block = whole / (size_t)ranks;
    const size_t blocks = block * (size_t)ranks;
    bench_layout layout = {.count = block, .size_bytes = blocks * element_bytes};
    switch (kind) {
    case COLL_ALL_GATHER:
    case COLL_GATHER:
        layout.send_count = block;
        layout.recv_count = blocks;
        break;
    case COLL_REDUCE_SCATTER:
    case COLL_SCATTER:
        layout.send_count = blocks;
        layout.recv_count = block;
        break;
    case COLL_ALL_TO_ALL:
        layout.send_count = blocks;
        layout.recv_count = blocks;
        break;
    default:
        layout = (bench_layout){.count = whole,
                                .size_bytes = whole * element_bytes,
                                .send_count = whole,
                                .recv_count = whole};
    }
    return layout;
}

double bench_bus_factor(coll_kind kind, int ranks)
{
    const double others = (double)(ranks - 1) / ranks;
    switch (kind) {
    case COLL_ALL_REDUCE:
        return 2.0 * others;
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
    case COLL_ALL_TO_ALL:
    case COLL_GATHER:
    case COLL_SCATTER:
        return others;
    default:
        return 1.0;
    }
}
