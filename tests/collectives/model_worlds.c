#include "model_worlds.h"

#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { TABLE_BITS_MIN = 16 };

static uint64_t hash_of(const world *s)
{
    const uint8_t *bytes = (const uint8_t *)s;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < sizeof *s; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 31;
}

static void insert(worlds *x, uint32_t index)
{
    size_t at = hash_of(&x->states[index]) & (x->table_size - 1);
    while (x->table[at] != 0) {
        at = (at + 1) & (x->table_size - 1);
    }
    x->table[at] = index + 1;
}

static void grow(worlds *x)
{
    x->capacity = x->capacity == 0 ? (size_t)1 << TABLE_BITS_MIN : 2 * x->capacity;
    x->states = realloc(x->states, x->capacity * sizeof *x->states);
    free(x->table);
    x->table_size = 2 * x->capacity;
    x->table = calloc(x->table_size, sizeof *x->table);
    assert_true(x->states != NULL && x->table != NULL);
    for (size_t i = 0; i < x->count; i++) {
        insert(x, (uint32_t)i);
    }
}

void worlds_reach(worlds *x, const world *s)
{
    if (x->count == x->capacity) {
        grow(x);
    }
    size_t at = hash_of(s) & (x->table_size - 1);
    for (; x->table[at] != 0; at = (at + 1) & (x->table_size - 1)) {
        if (memcmp(&x->states[x->table[at] - 1], s, sizeof *s) == 0) {
            return;
        }
    }
    x->states[x->count] = *s;
    x->table[at] = (uint32_t)++x->count;
}

void worlds_free(worlds *x)
{
    free(x->states);
    free(x->table);
}
