/* Doubles arrays. Called wherever items are appended. */
#include "base/grow.h"

#include <stdlib.h>

#include "base/bytes.h"

void *base_grow(void *array, size_t count, size_t *capacity, size_t first, size_t item_bytes)
{
    return base_reserve(array, count, 1, capacity, first, item_bytes);
}

void *base_reserve(void *array, size_t count, size_t more, size_t *capacity, size_t first,
                   size_t item_bytes)
{
    size_t larger = *capacity == 0 ? first : *capacity;
    size_t needed = 0;
    size_t size_bytes = 0;
    if (!base_add_size(count, more, &needed)) {
        return NULL;
    }
    if (needed <= *capacity && *capacity > 0) {
        return array;
    }
    while (larger < needed) {
        if (!base_mul_size(larger, 2, &larger)) {
            return NULL;
        }
    }
    if (!base_mul_size(larger, item_bytes, &size_bytes)) {
        return NULL;
    }
    void *grown = realloc(array, size_bytes);
    *capacity = grown != NULL ? larger : *capacity;
    return grown;
}
