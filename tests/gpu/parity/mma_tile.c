/* A tile of tensor cores beside plain products: if a card has another layout of fragments than
 * kernels/mma.h says, this case fails first, and names the loader. Elements are small integers, so
 * results are exact. */
#include <string.h>

#include "cases.h"
#include "mma_tile.h"
#include "support.h"

enum { ELEMENTS = MMA_TILE * MMA_TILE };

/* The same on both sides, as expected. */
static int make_result(twin *t, const char *name, const float *expected)
{
    base_error error;
    void *host = NULL;
    const rank_device *cpu = &t->device[TWIN_CPU];
    const int made = twin_floats(t, name, ELEMENTS, 1.0f);
    const size_t size_bytes = ELEMENTS * sizeof(float);
    assert_ok(
        cpu->backend->map(cpu->queue, twin_at(t, made, TWIN_CPU), size_bytes, true, &host, &error),
        &error);
    memcpy(host, expected, size_bytes);
    cpu->backend->unmap(cpu->queue, host);
    twin_tolerate(t, made, -1.0);
    return made;
}

/* to = a · b, or a · bᵀ */
static void multiply(float *to, const float *a, const float *b, bool transposed)
{
    for (int row = 0; row < MMA_TILE; row++) {
        for (int column = 0; column < MMA_TILE; column++) {
            float sum = 0.0f;
            for (int k = 0; k < MMA_TILE; k++) {
                const int at = transposed ? column * MMA_TILE + k : k * MMA_TILE + column;
                sum += a[row * MMA_TILE + k] * b[at];
            }
            to[row * MMA_TILE + column] = sum;
        }
    }
}

/* Integers from -3 to 3: a product's elements are below 256, so bfloat16 has them all. */
static int make_factor(twin *t, const char *name, float *values)
{
    uint16_t halves[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        uint32_t bits = 0;
        values[i] = (float)twin_between(t, 0, 6) - 3.0f;
        memcpy(&bits, &values[i], sizeof bits);
        halves[i] = (uint16_t)(bits >> 16);
    }
    const int made = twin_copy(t, name, RANK_MEMORY_WORK, halves, sizeof halves);
    twin_tolerate(t, made, -1.0);
    return made;
}

static void mma_tile(twin *t)
{
    float a[ELEMENTS];
    float b[ELEMENTS];
    float by_columns[ELEMENTS];
    float by_rows[ELEMENTS];
    float again[ELEMENTS];
    const int a_at = make_factor(t, "a", a);
    const int b_at = make_factor(t, "b", b);
    multiply(by_columns, a, b, true);
    multiply(by_rows, a, b, false);
    multiply(again, by_rows, b, false);
    const mma_tile_args args = {
        .a = twin_at(t, a_at, TWIN_OTHER),
        .b = twin_at(t, b_at, TWIN_OTHER),
        .by_columns = FLOATS(t, make_result(t, "load_b_by_columns", by_columns), TWIN_OTHER),
        .by_rows = FLOATS(t, make_result(t, "load_b_by_rows", by_rows), TWIN_OTHER),
        .again = FLOATS(t, make_result(t, "rounded_tiles", again), TWIN_OTHER),
    };
    const rank_device *device = &t->device[TWIN_OTHER];
    assert_int_equal(launch_mma_tile(&args, device->backend->stream(device->queue)), 0);
    twin_compare(t, "mma_tile");
}

const parity_case parity_mma_cases[] = {
    {.name = "mma_tile", .run = mma_tile},
    {.name = NULL},
};
