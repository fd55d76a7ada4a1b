/* Arrays that grow as items are appended. Thread safe for different arrays. */
#ifndef BASE_GROW_H
#define BASE_GROW_H

#include <stddef.h>

/* The array with room for one more than its `count` items. If it is full, it is reallocated with `first`
 * items (an empty one, which may be NULL) or twice as many, and *capacity says how many. NULL: there is no
 * memory, and the array and *capacity are as before. free() takes it. */
void *base_grow(void *array, size_t count, size_t *capacity, size_t first, size_t item_bytes);

/* The same with room for `more` items: it is doubled until they fit. */
void *base_reserve(void *array, size_t count, size_t more, size_t *capacity, size_t first,
                   size_t item_bytes);

#endif
