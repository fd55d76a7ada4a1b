/* Doubles arrays. Called wherever items are appended one by one. */
#include "base/grow.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"

void *base_grow(void *array, size_t count, size_t *capacity, size_t first, size_t item_bytes)
{
    if (count < *capacity) {
        return array;
    }
    if (*capacity > SIZE_MAX / 2) {
        return NULL;
    }
    const size_t larger = *capacity == 0 ? first : 2 * *capacity;
    size_t size_bytes = 0;
    if (!base_mul_size(larger, item_bytes, &size_bytes)) {
        return NULL;
    }
    void *grown = realloc(array, size_bytes);
    *capacity = grown != NULL ? larger : *capacity;
    return grown;
}
