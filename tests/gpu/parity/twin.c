/* Arrays on two backends. Used by the parity tests. */
#include "twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "support.h"

enum { GUARD_BYTES = 256, GUARD = 0xa5 };

static size_t guard_bytes(const twin *t)
{
    return t->guards ? GUARD_BYTES : 0;
}

static bool has_fma(const rank_device *cpu)
{
    rank_backend_info info;
    cpu->backend->info(cpu->queue, &info);
    return strcmp(info.kernels, "baseline") != 0;
}

void twin_open(twin *t, const rank_backend *other)
{
    base_error error;
    rank_device *cpu = &t->device[TWIN_CPU];
    assert_ok(rank_device_open("cpu", cpu, &error), &error);
    t->device[TWIN_OTHER].backend = other;
    assert_ok(other->open(&t->device[TWIN_OTHER].queue, &error), &error);
    t->exact = strcmp(other->name, "cuda-exact") == 0 && has_fma(cpu);
    t->tolerance = strcmp(other->name, "cuda-tf32") == 0 ? 1e-2 : 1e-4;
}

void twin_close(twin *t)
{
    for (int side = 0; side < TWIN_SIDES; side++) {
        rank_device_close(&t->device[side]);
    }
}

void twin_begin(twin *t)
{
    t->count = 0;
}

void twin_end(twin *t)
{
    for (int i = 0; i < t->count; i++) {
        for (int side = 0; side < TWIN_SIDES; side++) {
            const rank_device *device = &t->device[side];
            device->backend->release(device->queue, t->arrays[i].block[side]);
        }
    }
    t->count = 0;
}

uint64_t twin_random(twin *t)
{
    return base_splitmix_next(&t->seed);
}

size_t twin_between(twin *t, size_t low, size_t high)
{
    return low + (size_t)(twin_random(t) % (high - low + 1));
}

/* Makes one side of an array between guards. */
static char *make_side(const twin *t, int side, rank_memory kind, const void *from,
                       size_t size_bytes)
{
    base_error error;
    const rank_device *device = &t->device[side];
    const size_t guard = guard_bytes(t);
    const size_t whole = size_bytes + 2 * guard;
    void *block = NULL;
    void *host = NULL;
    assert_ok(device->backend->alloc(device->queue, kind, whole, &block, &error), &error);
    assert_ok(device->backend->map(device->queue, block, whole, true, &host, &error), &error);
    memset(host, GUARD, whole);
    memcpy((char *)host + guard, from, size_bytes);
    device->backend->unmap(device->queue, host);
    return block;
}

int twin_copy(twin *t, const char *name, rank_memory kind, const void *from, size_t size_bytes)
{
    assert_true(t->count < TWIN_ARRAYS_MAX);
    twin_array *made = &t->arrays[t->count];
    *made = (twin_array){.name = name, .size_bytes = size_bytes};
    for (int side = 0; side < TWIN_SIDES; side++) {
        made->block[side] = make_side(t, side, kind, from, size_bytes);
    }
    return t->count++;
}

/* The upper half of a float, which becomes the float without its lower half. */
static uint16_t truncate(float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    bits &= 0xffff0000u;
    memcpy(value, &bits, sizeof bits);
    return (uint16_t)(bits >> 16);
}

int twin_elements(twin *t, const char *name, rank_type type, size_t count, float scale)
{
    if (type == RANK_FLOAT32) {
        return twin_floats(t, name, count, scale);
    }
    float *values = malloc(count * sizeof *values);
    uint16_t *halves = malloc(count * sizeof *halves);
    assert_non_null(values);
    assert_non_null(halves);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(int64_t)twin_random(t) * 0x1p-63f * scale;
        halves[i] = truncate(&values[i]);
    }
    assert_true(t->count < TWIN_ARRAYS_MAX);
    t->arrays[t->count] = (twin_array){
        .name = name,
        .size_bytes = count * sizeof *halves,
        .type = type,
        .block = {make_side(t, TWIN_CPU, RANK_MEMORY_WORK, values, count * sizeof *values),
                  make_side(t, TWIN_OTHER, RANK_MEMORY_WORK, halves, count * sizeof *halves)},
    };
    free(values);
    free(halves);
    return t->count++;
}

int twin_floats(twin *t, const char *name, size_t count, float scale)
{
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(int64_t)twin_random(t) * 0x1p-63f * scale;
    }
    const int made = twin_copy(t, name, RANK_MEMORY_WORK, values, count * sizeof *values);
    free(values);
    return made;
}

int twin_ints(twin *t, const char *name, size_t count, int low, int high)
{
    int32_t *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = low + (int32_t)twin_between(t, 0, (size_t)(high - low));
    }
    const int made = twin_copy(t, name, RANK_MEMORY_HOST, values, count * sizeof *values);
    t->arrays[made].tolerance = -1.0;
    free(values);
    return made;
}

void *twin_at(const twin *t, int array, int side)
{
    return t->arrays[array].block[side] + guard_bytes(t);
}

void twin_tolerate(twin *t, int array, double tolerance)
{
    t->arrays[array].tolerance = tolerance;
}

static float element(const twin_array *array, const void *found, size_t index)
{
    float value = 0.0f;
    if (array->type == RANK_FLOAT32) {
        return ((const float *)found)[index];
    }
    const uint32_t bits = (uint32_t)((const uint16_t *)found)[index] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Without a tolerance the values are equal. */
static void compare_floats(const twin_array *array, const float *expected, const void *found,
                           double tolerance, const char *shape)
{
    for (size_t i = 0; i < array->size_bytes / rank_type_bytes(array->type); i++) {
        const double a = (double)expected[i];
        const double b = (double)element(array, found, i);
        const bool same = a == b || (isnan(a) && isnan(b));
        if (!same && !(fabs(a - b) <= tolerance * (1.0 + fabs(a)))) {
            fail_msg("%s: %s[%zu] is %.9g, on the CPU %.9g", shape, array->name, i, b, a);
        }
    }
}

static void compare_bytes(const twin_array *array, const unsigned char *expected,
                          const unsigned char *found, const char *shape)
{
    for (size_t i = 0; i < array->size_bytes; i++) {
        if (expected[i] != found[i]) {
            float a = 0.0f;
            float b = 0.0f;
            if (i / 4 * 4 + 4 <= array->size_bytes) {
                memcpy(&a, expected + i / 4 * 4, 4);
                memcpy(&b, found + i / 4 * 4, 4);
            }
            fail_msg("%s: %s differs in byte %zu: as a float %a, on the CPU %a", shape, array->name,
                     i, (double)b, (double)a);
        }
    }
}

static void check_guard(const twin_array *array, const unsigned char *bytes, size_t count,
                        const char *shape)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != GUARD) {
            fail_msg("%s: %s was written beyond its end", shape, array->name);
        }
    }
}

/* FNV-1a */
static void note_bits(twin *t, const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        t->bits = (t->bits ^ bytes[i]) * 0x100000001b3u;
    }
}

void twin_compare(twin *t, const char *shape)
{
    base_error error;
    const size_t guard = guard_bytes(t);
    for (int i = 0; i < t->count; i++) {
        const twin_array *array = &t->arrays[i];
        const size_t whole = array->size_bytes + 2 * guard;
        const size_t count = array->size_bytes / rank_type_bytes(array->type);
        void *host[TWIN_SIDES];
        for (int side = 0; side < TWIN_SIDES; side++) {
            const rank_device *device = &t->device[side];
            const size_t size_bytes = side == TWIN_OTHER ? whole : guard + count * sizeof(float);
            assert_ok(device->backend->map(device->queue, array->block[side],
                                           array->type == RANK_FLOAT32 ? whole : size_bytes, false,
                                           &host[side], &error),
                      &error);
        }
        const unsigned char *found = host[TWIN_OTHER];
        const char *expected = host[TWIN_CPU];
        note_bits(t, found, whole);
        check_guard(array, found, guard, shape);
        check_guard(array, found + guard + array->size_bytes, guard, shape);
        const double tolerance = array->tolerance != 0.0 ? array->tolerance
                                 : t->exact              ? 0.0
                                                         : t->tolerance;
        if (tolerance <= 0.0 && array->type == RANK_FLOAT32) {
            compare_bytes(array, (const unsigned char *)expected + guard, found + guard, shape);
        } else {
            compare_floats(array, (const float *)(expected + guard), found + guard, tolerance,
                           shape);
        }
        for (int side = 0; side < TWIN_SIDES; side++) {
            t->device[side].backend->unmap(t->device[side].queue, host[side]);
        }
    }
}
